//! Sources that can be read again from where a checkpoint left them.
//!
//! A source is a set of [`Split`]s (files, partitions, shards) that are read in order, each with a
//! position. Connectors implement [`Source`], [`Enumerator`] and [`Reader`]; an engine drives a
//! [`SplitCoordinator`] beside its checkpoint coordinator and a reader in each source task. Nothing
//! here is async, starts a thread or reads a clock.
//!
//! A whole job that reads, is checkpointed, crashes, and goes on with another parallelism:
//!
//! ```
//! use cutwater_barrier::CheckpointId;
//! use cutwater_source::{
//!     Effect, Event, Reader, ReaderContext, Source, SplitCoordinator, Status, VecSource,
//!     encode_splits,
//! };
//!
//! # fn main() -> cutwater_source::Result<()> {
//! let source = VecSource::new(vec![vec!["a", "b", "c"].iter().map(|s| s.to_string()).collect()]);
//!
//! // An attempt with one reader. The coordinator says who gets what; the driver carries it out.
//! let mut coordinator = SplitCoordinator::fresh(&source, 1)?;
//! let mut reader = source.reader(ReaderContext::new(0, 1))?;
//! coordinator.discover()?;
//! while let Some(effect) = coordinator.poll() {
//!     match effect {
//!         Effect::Assign { splits, .. } => reader.add_splits(splits)?,
//!         Effect::NoMore { .. } => reader.no_more_splits(),
//!     }
//! }
//! let mut records = Vec::new();
//! assert_eq!(reader.poll_batch(&mut records, 2)?, Status::More);
//!
//! // A checkpoint: the coordinator's part first, then the readers', each at its batch boundary.
//! let state = coordinator.snapshot(CheckpointId::new(1));
//! let position = encode_splits(&reader.snapshot(CheckpointId::new(1))?);
//! reader.poll_batch(&mut Vec::new(), 2)?; // read after the checkpoint, lost in the crash
//!
//! // Restored with two readers: the coordinator gets the positions of all the old ones.
//! let mut coordinator = SplitCoordinator::restore(&source, 2, &state, [&position[..]])?;
//! coordinator.discover()?;
//! let mut readers = [
//!     source.reader(ReaderContext::new(0, 2))?,
//!     source.reader(ReaderContext::new(1, 2))?,
//! ];
//! while let Some(effect) = coordinator.poll() {
//!     match effect {
//!         Effect::Assign { subtask, splits } => readers[subtask].add_splits(splits)?,
//!         Effect::NoMore { subtask } => readers[subtask].no_more_splits(),
//!     }
//! }
//! for reader in &mut readers {
//!     while reader.poll_batch(&mut records, 2)? != Status::Finished {}
//! }
//! assert_eq!(records, ["a", "b", "c"]);
//! # Ok(())
//! # }
//! ```
//!
//! A source that assigns [on request](Assignment::OnRequest) also wants to hear
//! [`Event::Requested`] when a reader says [`Status::Drained`].
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod acknowledgements;
mod assigner;
mod codec;
mod coordinator;
mod error;
mod paced;
mod source;
#[cfg(feature = "testkit")]
pub mod testkit;
mod vec;

pub use acknowledgements::Acknowledgements;
pub use assigner::{Assigner, Assignment, Effect, Event, redistribute};
pub use codec::{decode_splits, encode_splits};
pub use coordinator::SplitCoordinator;
pub use error::{Error, ErrorKind, Result};
pub use paced::{Pace, Paced, PacedReader};
pub use source::{Discovery, Enumerator, Reader, ReaderContext, Source, Split, Status};
pub use vec::{VecEnumerator, VecReader, VecSource, VecSplit};
