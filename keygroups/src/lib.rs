//! Key groups: how keyed state is divided among subtasks, and moved when their number changes.
#![no_std]
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

extern crate alloc;

mod agreement;
mod assignment;
mod flink;
mod group;
mod grouping;
mod hash;
mod key;
pub mod operator_state;
mod partition;
mod range;
mod rescale;

#[doc(hidden)]
pub use alloc::vec::Vec as __Vec; // for `key!`, whose user may be no_std

pub use agreement::{Claim, MaxParallelismConflict, MaxParallelismOf, Origin};
pub use assignment::{Assignment, AssignmentError, owner_of, range_of};
pub use flink::{Flink, JavaHash};
pub use group::{KeyGroup, MaxParallelism};
pub use grouping::Grouping;
pub use hash::KeyHash;
#[doc(hidden)]
pub use key::__grouping_of;
pub use key::{DecodeError, Key};
pub use partition::{GroupOffsets, partition_by_group};
pub use range::{KeyGroupRange, KeyGroupSet, WrongGroup};
pub use rescale::{Mapping, Read, RescaleError, RescalePlan};
