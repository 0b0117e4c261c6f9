//! Key groups: how keyed state is divided among subtasks, and moved when their number changes.
#![no_std]
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may
extern crate alloc;

mod group;
mod key;

pub use group::{KeyGroup, KeyGroupRange, MaxParallelism};
pub use key::{DecodeError, Grouping, Key, KeyHash};
