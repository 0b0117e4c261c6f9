//! A thin stream runtime assembled from the Cutwater crates.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod attempt;
mod channel;
mod checkpoint;
mod clock;
mod collect;
mod committers;
mod coordinator;
mod error;
mod exchange;
mod function;
mod graph;
mod handle;
pub mod harness;
mod keeper;
mod keyed;
mod observe;
mod plain;
mod restore;
mod settings;
mod sink;
mod source;
mod sources;
mod stage;
mod stateless;
mod stream;
mod supervisor;
mod task;
mod upload;

pub use collect::{Collect, CollectCommitter, CollectWriter};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use function::{
    BroadcastProcess, Context, KeyedBroadcastProcess, KeyedCoProcess, KeyedContext, KeyedOpen,
    KeyedProcess, Open, Process, Subtask,
};
pub use handle::JobHandle;
pub use observe::{CheckpointSummary, Moment, Observer, Outcome, State, Status};
pub use settings::{Guarantee, Restart, Restore, Settings};
pub use stream::{Job, KeyedStream, Record, Stream};
