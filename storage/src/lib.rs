//! Where checkpoints live, and the one decision that makes a set of files a checkpoint.
//!
//! A checkpoint is a set of files, the [`Metadata`] that lists them, and an entry in an append-only log
//! that says it is complete. That append is the decision: it is durable, atomic and fenced, so that a
//! process that was replaced and does not know it can complete, delete and commit nothing.
//!
//! [`CheckpointStore`] is all of that over any [`Blobs`]: [`LocalBlobs`] on a local disk, or an object
//! store. The futures need no particular executor.
//!
//! ```
//! use cutwater_storage::{
//!     CheckpointStore, ErrorKind, LocalBlobs, Metadata, Operator, Options, Subtask,
//! };
//! use cutwater_barrier::Kind;
//! use cutwater_keygroups::{Assignment, Grouping, MaxParallelism};
//!
//! # fn main() -> cutwater_storage::Result<()> { futures::executor::block_on(async {
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path();
//! let mut store = CheckpointStore::open(LocalBlobs::open(directory)?, Options::default()).await?;
//! let term = store.take_over().await?;
//!
//! // A task writes its state ...
//! let assignment = Assignment::contiguous(1, MaxParallelism::new(128).unwrap()).unwrap();
//! let mut handle = store.files()?.handle(term.first, "totals", 0);
//! handle.store("keyed", "alice 950, bob 280").await?;
//! let handle = handle.finish(assignment.range(0), "manifest");
//!
//! // ... and the coordinator makes it a checkpoint.
//! let mut subtask = Subtask::default();
//! subtask.keyed.push(handle);
//! let mut operator = Operator::keyed("running totals", &assignment, Grouping::Xxh64);
//! operator.subtasks.push(subtask);
//! let mut metadata = Metadata::new("bank", term.first, term.generation, Kind::Checkpoint);
//! metadata.add("totals", operator);
//! store.complete(&metadata).await?;
//! store.check_leading().await?; // and now the sinks commit
//! store.committed(term.first).await?;
//!
//! // Another process takes over, and reads it.
//! let mut successor = CheckpointStore::open(LocalBlobs::open(directory)?, Options::default()).await?;
//! successor.take_over().await?;
//! let old = successor.restore_latest().await?;
//! let handle = &old.subtasks("totals")[0].keyed[0];
//! assert_eq!(old.files().reader(handle).read("keyed", 6..9).await?, "950");
//!
//! // The first one is fenced.
//! assert!(matches!(store.check_leading().await.unwrap_err().kind(), ErrorKind::Fenced { .. }));
//! # Ok(()) }) }
//! ```
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod blobs;
mod codec;
mod error;
mod file;
mod frame;
#[cfg(test)]
mod golden;
pub mod layout;
mod local_copies;
mod log;
mod metadata;
mod named;
mod nonce;
mod path;
mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use blobs::{
    Blobs, BlobsExt, Create, Listed, LocalBlobs, LocalUpload, SharedBlobs, SharedUpload, Upload,
    probe,
};
#[cfg(feature = "opendal")]
pub use blobs::{OpendalBlobs, OpendalUpload};
pub use error::{Error, ErrorKind, Result};
pub use file::{Content, FileRef, HandleReader, HandleWriter, StateFileWriter, StateFiles};
pub use log::Completed;
pub use metadata::{
    ChannelState, ChannelStateWriter, InFlight, KeyedHandle, Metadata, Operator,
    PreparedTransaction, Subtask, TaskReport,
};
pub use store::{
    CheckpointStore, Deleted, Fate, Leadership, NotDecided, OldKeyed, Options, Pin, RestorePoint,
    Term, Verified,
};
