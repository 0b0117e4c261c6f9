//! Whole jobs, run by the runtime in this process.

mod common;
mod recovery;
mod rescale;
