//! Checkpoint barriers as state machines without IO.
#![no_std]
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod id;
mod time;

pub use id::{CheckpointId, Generation};
pub use time::Time;
