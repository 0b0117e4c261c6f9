//! What a source promises: splits with positions, somebody who finds them, somebody who reads them.
//!
//! ```text
//!               SplitCoordinator (one per source)             task thread (one per subtask)
//!   Enumerator ── discover ─▶ Assigner ── Effect::Assign ─▶ Reader::add_splits
//!                    ▲                                       poll_batch* ─▶ records
//!                    └─────── Event::Requested ◀──────────── Status::Drained
//! ```
//!
//! Invariant: at every checkpoint each unfinished split is in exactly one place, in the state of the
//! coordinator or in that of one reader, with the position of its next unread record.

use std::collections::BTreeSet;

use cutwater_barrier::CheckpointId;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Assignment, Result};

/// A part of the input that one reader reads in order: a file, a partition, a shard.
///
/// A split carries its own position, so the same type describes a split that nobody has begun and
/// one that a checkpoint caught in the middle. What "the beginning" means ("latest", "the file as it
/// is now") is resolved when the split is discovered and never again (CASES B57).
pub trait Split: Clone + Send + Serialize + DeserializeOwned + 'static {
    /// Names the split: unique within the source, the same in every run.
    fn id(&self) -> &str;

    /// Whether the split has been read to its end. A finished split is remembered, so that it is not
    /// discovered again, and never given to a reader.
    fn is_finished(&self) -> bool;
}

/// A source of a job: it makes the half that finds splits and, per subtask, the half that reads.
///
/// The contract, which the exam `testkit::conforms` (feature `testkit`) checks:
///
/// - A split read again from a recorded position gives exactly the records after it, in order.
/// - A source made anew by the same program, in another process, reads the same splits.
pub trait Source: Send + Sync + 'static {
    /// What the source gives.
    type Record: Clone + Send + Serialize + DeserializeOwned + 'static;
    /// What a checkpoint records of it.
    type Split: Split;
    /// Finds the splits.
    type Enumerator: Enumerator<Split = Self::Split>;
    /// Reads them.
    type Reader: Reader<Record = Self::Record, Split = Self::Split>;

    /// How splits come to readers.
    fn assignment(&self) -> Assignment;

    /// The enumerator of a new attempt. `state` is what [`Enumerator::state`] said at the checkpoint
    /// to restore, `None` on a fresh start.
    fn enumerator(&self, state: Option<&[u8]>) -> Result<Self::Enumerator>;

    /// A reader for one subtask of a new attempt, without splits: also restored ones are added.
    fn reader(&self, context: ReaderContext) -> Result<Self::Reader>;
}

/// Which reader is being made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ReaderContext {
    /// Index of the subtask, from 0.
    pub subtask: usize,
    /// Number of subtasks.
    pub parallelism: usize,
}

impl ReaderContext {
    /// Subtask `subtask` of `parallelism`.
    pub fn new(subtask: usize, parallelism: usize) -> Self {
        Self {
            subtask,
            parallelism,
        }
    }
}

/// Finds splits. Lives beside the job's coordinator and may block on I/O.
///
/// It need not remember what it found: the [`Assigner`](crate::Assigner) does, and says so.
pub trait Enumerator: Send + 'static {
    /// What it finds.
    type Split: Split;

    /// Looks for splits whose ids are not in `known`, with their start resolved. Called at the start
    /// of every attempt, and again from time to time until a discovery is complete.
    fn discover(&mut self, known: &BTreeSet<String>) -> Result<Discovery<Self::Split>>;

    /// What a later attempt must know beyond the ids, for example how far a listing went. Usually
    /// empty.
    fn state(&self) -> Vec<u8>;
}

/// The outcome of one look for splits.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Discovery<S> {
    /// The splits not known before.
    pub splits: Vec<S>,
    /// Whether there will never be more: the input is bounded.
    pub complete: bool,
}

impl<S> Discovery<S> {
    /// These, and more may come.
    pub fn partial(splits: Vec<S>) -> Self {
        Self {
            splits,
            complete: false,
        }
    }

    /// These, and never another.
    pub fn complete(splits: Vec<S>) -> Self {
        Self {
            splits,
            complete: true,
        }
    }
}

/// Reads splits, on the thread of its task. The methods are called one at a time, so the position
/// that a snapshot records and the records given out before it always agree.
pub trait Reader: Send + 'static {
    /// What it gives.
    type Record;
    /// What it reads.
    type Split: Split;

    /// Takes over `splits`, each from its position. An input that is no longer what the split
    /// recorded is refused here.
    fn add_splits(&mut self, splits: Vec<Self::Split>) -> Result<()>;

    /// No split will be added any more.
    fn no_more_splits(&mut self);

    /// Appends up to `max` records to `out`. On an error the records already appended count as read
    /// and the reader is spent: the attempt has failed.
    fn poll_batch(&mut self, out: &mut Vec<Self::Record>, max: usize) -> Result<Status>;

    /// Every split added so far, finished ones included, positioned exactly after the last record
    /// that [`poll_batch`](Self::poll_batch) gave.
    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<Self::Split>>;

    /// `checkpoint` is complete: what the outside wants acknowledged is acknowledged as of *its*
    /// snapshot, not as of now (CASES B55). The notice may be lost; a later one covers it.
    fn notify_complete(&mut self, checkpoint: CheckpointId) -> Result<()>;
}

/// What a reader says after a poll.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that has not heard of a status would wait forever"
)]
pub enum Status {
    /// There is more to read right now.
    More,
    /// Nothing right now, but a split is open. A driver polls again after a moment of its choice, a
    /// millisecond or a few.
    Idle,
    /// Every split it was given is read to its end. A driver sends [`Event::Requested`], once, and
    /// polls again when something was added.
    ///
    /// [`Event::Requested`]: crate::Event::Requested
    Drained,
    /// All splits are read to their end and no other will come.
    Finished,
}
