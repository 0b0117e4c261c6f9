//! Key groups: how keyed state is divided among subtasks, and moved when their number changes.
#![no_std]
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

extern crate alloc;

mod flink;
mod group;
mod grouping;
mod hash;
mod key;

#[doc(hidden)]
pub use alloc::vec::Vec as __Vec; // for `key!`, whose user may be no_std

pub use flink::{Flink, JavaHash};
pub use group::{KeyGroup, KeyGroupRange, MaxParallelism};
pub use grouping::Grouping;
pub use hash::KeyHash;
#[doc(hidden)]
pub use key::__grouping_of;
pub use key::{DecodeError, Key};
