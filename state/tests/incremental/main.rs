//! Incremental snapshots: what they store, what they share, and that it is always the state as it was.

mod chains;
mod shared;
mod store;
