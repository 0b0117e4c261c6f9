//! Whole jobs, run by the runtime in this process.

mod backend;
mod common;
mod faults;
mod graph;
mod guarantees;
mod held;
mod in_flight;
mod incremental;
mod local_copies;
mod loops;
mod recovery;
mod rescale;
mod restore;
mod stepped;
mod stuck;
mod timers;
mod unaligned;
mod upserts;
mod windows;
