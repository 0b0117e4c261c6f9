//! Key groups: how keyed state is divided among subtasks, and moved when their number changes.
//!
//! A job's keys are hashed into a fixed number of *key groups*, and each *subtask* of a keyed
//! operator owns some of the groups. When the parallelism changes, groups move as wholes: nobody
//! has to look at single keys, and a new subtask knows from the metadata alone what it must read.
//!
//! ```text
//! key ── hash ──► key group 0..max_parallelism ── assignment ──► subtask 0..parallelism
//!        fixed by its type                      changes with the parallelism
//! ```
//!
//! The way of a record, and then the way of its state into a larger job:
//!
//! ```
//! use cutwater_keygroups::{Assignment, Key, MaxParallelism, RescalePlan};
//!
//! let parallelism = 2;
//! let max = MaxParallelism::default_for(parallelism);
//! let old = Assignment::contiguous(parallelism, max)?;
//!
//! let key = String::from("N14228");
//! let hash = key.key_hash(); // once per record: it also picks the slot in the state's table
//! let group = String::GROUPING.group(hash, max);
//! assert_eq!((group.get(), old.owner(group)), (14, 0));
//!
//! let new = old.with_fewest_moves(3)?; // the groups of subtasks 0 and 1 mostly stay
//! let plan = RescalePlan::new(&old.all_groups(), &new)?;
//! assert_eq!(new.moved_from(&old), 42); // a third of 128; contiguous ranges would move 63
//! assert_eq!(plan.reads(2).len(), 2); // subtask 2 reads from both old handles
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | question | answer |
//! |---|---|
//! | May my type be a key? | [`Key`], [`key!`], [`KeyHash`] |
//! | As Flink would group it? | [`Flink`] |
//! | Which group, how many are there? | [`Grouping`], [`MaxParallelism`] |
//! | Who owns it? | [`Assignment`], or [`range_of`] and [`owner_of`] |
//! | Who reads which old state? | [`RescalePlan`]; without keys, [`operator_state`] |
//! | May it be restored so? | [`MaxParallelism::agreed`] |
//! | How is a snapshot ordered? | [`partition_by_group`], [`GroupOffsets`] |
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
pub use alloc::{string::String as __String, vec::Vec as __Vec}; // for `key!`, whose user may be no_std

pub use agreement::{Claim, MaxParallelismConflict, MaxParallelismOf, Origin};
pub use assignment::{Assignment, AssignmentError, owner_of, range_of};
pub use flink::{Flink, JavaHash};
pub use group::{KeyGroup, MaxParallelism};
pub use grouping::Grouping;
pub use hash::KeyHash;
#[doc(hidden)]
pub use key::{__grouping_of, __schema, __schema_of};
pub use key::{DecodeError, Key};
pub use partition::{GroupOffsets, partition_by_group};
pub use range::{KeyGroupRange, KeyGroupSet, WrongGroup};
pub use rescale::{Mapping, Read, RescaleError, RescalePlan};

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
