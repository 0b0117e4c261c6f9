//! Typed keyed and operator state with point-in-time snapshots per key group.
//!
//! Everything here is synchronous, owned by one task, `Send`, and without I/O: a snapshot hands its
//! files to the caller, a restore asks the caller for ranges of them. So any engine can use it.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use cutwater_barrier::CheckpointId;
//! use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
//! use cutwater_state::{Keyed, KeyedStates, Restored};
//!
//! // One subtask owns all 128 key groups.
//! let max = MaxParallelism::new(128).expect("between 1 and 32768");
//! let mut states = KeyedStates::<String>::new("balances", KeyGroupRange::new(0, 128), max);
//! let balance = states.value::<i64>("balance")?;
//!
//! let alice = "alice".to_owned();
//! states.update(balance, Keyed::new(&alice), |slot| *slot = Some(900))?;
//!
//! // Fix the view; what is written from here on is not in it.
//! let task = states.snapshot(CheckpointId::new(42));
//! states.update(balance, Keyed::new(&alice), |slot| *slot = Some(0))?;
//!
//! // Write it, on whatever thread, to wherever.
//! let mut files = BTreeMap::<String, Vec<u8>>::new();
//! let snapshot = task.run(&mut files)?;
//!
//! // Two subtasks go on where one stopped. Each reads the ranges of its own key groups.
//! let mut found = Vec::new();
//! for groups in [KeyGroupRange::new(0, 64), KeyGroupRange::new(64, 128)] {
//!     let old = Restored::new(snapshot.manifest.clone(), files.clone());
//!     let mut states = KeyedStates::<String>::restore("balances", groups, max, [old])?;
//!     let balance = states.value::<i64>("balance")?;
//!     assert!(states.undeclared().is_empty());
//!     states[balance].for_each(|key, value| found.push((key.clone(), *value)))?;
//! }
//! assert_eq!(found, [(alice, 900)]);
//! # Ok::<(), cutwater_state::Error>(())
//! ```
//!
//! Every access takes the current key with its hash ([`Keyed`]) and fails with
//! [`ErrorKind::WrongGroup`] if the key's group is not one of the subtask's; nothing is read or
//! written then.
//!
//! # What can be declared
//!
//! | [`KeyedStates`] | for each key |
//! |---|---|
//! | [`value`](KeyedStates::value) | one value, changed in place |
//! | [`list`](KeyedStates::list), [`map`](KeyedStates::map) | a list, a sorted map |
//! | [`reducing`](KeyedStates::reducing), [`aggregating`](KeyedStates::aggregating) | what all that was added amounts to |
//! | [`timers`](KeyedStates::timers) | times at which something is due |
//! | [`namespaced`](KeyedStates::namespaced) | each of these several times, such as once per window |
//! | [`expiring`](KeyedStates::expiring) | the first five, with elements that [expire](Ttl) |
//!
//! What happens if the declaration is another one after a restart, [`Descriptor`] says. [`OperatorStates`] has what
//! belongs to a subtask, not to a key.
//!
//! # Cost
//!
//! A `u64` key with an `i64` value takes some 25 bytes: 16 for the entry, 5 for its place in an index, and
//! room for growth; a value of another size takes its size and these 9. After a snapshot the first
//! write to a block of 4 KiB copies the block aside, unless the snapshot has been written up to there; but in one batch only
//! some blocks are copied, and of others up to three values that change. With uniform keys that is nearly every block in the end, so a
//! snapshot costs the task up to as much as copying the table once, spread over many batches, and memory for a second
//! one, which is kept for the next snapshot. Lists and maps are shared with the snapshot in chunks.
//!
//! Entries and what finds them are asked for in huge pages (`madvise`, on Linux), which a table of many megabytes gains from,
//! and for 64 KiB if it has few; what values own is the allocator's.
//!
//! # Backends
//!
//! States are in memory, or in a byte backend with the rows in use in memory ([`Backend`],
//! [`KeyedStates::open`]). There an access may have to read a row, and so any access may fail with
//! [`ErrorKind::Io`] or [`ErrorKind::Corrupt`]; [`KeyedStates::announce`] reads those of a batch at once. A list or a map is one row.
//! A row in memory takes some 20 bytes more than an entry in memory state.
//!
//! # Panics in closures
//!
//! If a closure given to an `update` panics, what it has left in the slot stays, and the states remain usable.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod aggregating;
mod append;
mod backend;
mod data;
mod declare;
mod descriptor;
mod encoded;
mod error;
mod expiry;
mod format;
mod handle;
mod images;
mod key;
mod keyed_table;
mod lineage;
mod list;
mod map;
mod names;
mod operator;
mod place;
mod read_ahead;
mod reducing;
mod restore;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
mod schema;
mod shared_files;
mod single;
mod snapshot;
mod states;
mod store;
mod table;
#[cfg(feature = "testkit")]
pub mod testkit;
mod timers;
mod timestamp;
mod ttl;
mod value;

pub use aggregating::{Aggregate, AggregatingState};
pub use backend::Backend;
pub use data::Data;
pub use declare::Declare;
pub use descriptor::Descriptor;
pub use encoded::{
    ByteBackend, EachRow, Ingest, IsExpired, OldRows, Rows, RowsCheckpoint, RowsFile,
};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use handle::Handle;
pub use key::Keyed;
pub use list::ListState;
pub use map::MapState;
pub use operator::OperatorStates;
pub use reducing::{Reduce, ReducingState};
pub use restore::{ReadFiles, Restored};
pub use schema::Schema;
pub use shared_files::SharedFiles;
pub use snapshot::{Snapshot, SnapshotTask};
pub use states::KeyedStates;
pub use store::{Content, NewFile, Store};
pub use table::AHEAD;
pub use timers::{Timer, Timers};
pub use timestamp::Timestamp;
pub use ttl::{Expiring, Forever, Lifetime, Ttl};
pub use value::ValueState;
