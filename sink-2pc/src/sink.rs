//! What an engine is given: a recipe that opens the two halves of a sink.
//!
//! ```text
//!   restore:  committer ── commit what the checkpoint names ─▶ fence ─▶ sweep ─▶ writers open
//!   running:  write* ─▶ prepare(c) ─▶ [in checkpoint c] ─▶ c complete ─▶ commit
//! ```
//!
//! The committer comes first: with many systems, opening a writer *is* the fence, and would abort
//! what the restored checkpoint still has to commit.

use std::{fmt, future::Future, time::Duration};

use cutwater_barrier::Generation;

use crate::{Committer, Result, Writer};

/// Opens the halves of one exactly-once sink, any number of times and in any process of the job.
pub trait Sink: Send + Sync {
    /// What the sink writes.
    type Record: Send;
    /// The half in each task.
    type Writer: Writer<Record = Self::Record>;
    /// The half beside the coordinator.
    type Committer: Committer;

    /// What a reader of the target can rely on. It is reported with the job, and decides which
    /// transactions are handed to one [`Committer::commit`].
    fn guarantee(&self) -> Guarantee;

    /// After how long the target itself aborts a transaction nobody has ended; `None` if never.
    /// [`check_timeout`](crate::check_timeout) compares it with the job's settings.
    fn transaction_timeout(&self) -> Option<Duration>;

    /// Opens the writer of one subtask. `restored` are the pieces of
    /// [`state`](crate::Flushed::state) that fell to this subtask: every piece that any old subtask
    /// put into the restored checkpoint goes to exactly one new subtask.
    ///
    /// An older writer may still be alive and writing. A piece that names something unfinished, such
    /// as an open file, is taken over by copying it, never by appending to the same object.
    ///
    /// Called after [`Committer::sweep`] has returned, so a writer may fence and initialise ids.
    fn writer(
        &self,
        context: WriterContext,
        restored: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Self::Writer>> + Send;

    /// Opens the committer, of which there is one per sink. It fences nobody yet.
    fn committer(
        &self,
        context: CommitterContext,
    ) -> impl Future<Output = Result<Self::Committer>> + Send;
}

/// What a writer's transaction ids are made of, along with a counter of its own.
///
/// Subtask indices alone are not enough: a rescaled job has other subtasks with the same index, and
/// two jobs can share a server. Job, uid, generation, subtask, and a counter are unique (a
/// generation never runs twice). A target with a small, stable pool of ids has the counter in the
/// writer's state instead, and something in the token that tells two uses of an id apart.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WriterContext {
    /// The job's name.
    pub job: String,
    /// The sink operator's uid.
    pub uid: String,
    /// This subtask, from 0.
    pub subtask: u16,
    /// How many subtasks the sink has in this execution.
    pub parallelism: u16,
    /// This execution.
    pub generation: Generation,
}

impl WriterContext {
    /// The context of subtask `subtask` of `parallelism`.
    pub fn new(
        job: impl Into<String>,
        uid: impl Into<String>,
        subtask: u16,
        parallelism: u16,
        generation: Generation,
    ) -> Self {
        Self {
            job: job.into(),
            uid: uid.into(),
            subtask,
            parallelism,
            generation,
        }
    }
}

/// What a committer must know to recognise its job's transactions among all others.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CommitterContext {
    /// The job's name.
    pub job: String,
    /// The sink operator's uid.
    pub uid: String,
    /// This execution.
    pub generation: Generation,
    /// All pieces of writer state in the restored checkpoint, of all old subtasks.
    ///
    /// [`sweep`](Committer::sweep) must leave alone what they name, and they tell it up to which
    /// counter ids were in use. They can be older than the last generation: one that failed before
    /// its first checkpoint has left transactions which no state names.
    pub restored: Vec<Vec<u8>>,
}

impl CommitterContext {
    /// The context of a job that starts fresh; set [`restored`](Self::restored) otherwise.
    pub fn new(job: impl Into<String>, uid: impl Into<String>, generation: Generation) -> Self {
        Self {
            job: job.into(),
            uid: uid.into(),
            generation,
            restored: Vec::new(),
        }
    }

    /// The same with all pieces of writer state in the restored checkpoint.
    #[must_use]
    pub fn with_restored(self, restored: Vec<Vec<u8>>) -> Self {
        Self { restored, ..self }
    }
}

/// How much becomes visible in one step, and when. All are exactly-once in the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the machine batches by it, and a job must report it"
)]
pub enum Guarantee {
    /// One step per checkpoint: [`Committer::commit`] gets all transactions that were prepared for
    /// one checkpoint, by all subtasks, and makes them visible by one decision (a manifest).
    /// Older checkpoints come first.
    AtomicPerCheckpoint,
    /// One step per transaction: between two of them a reader sees part of a checkpoint.
    /// [`Committer::commit`] gets whatever is due.
    AtomicPerTransaction,
    /// No step at all: each row is visible as soon as it is written, which may be before a checkpoint
    /// covers it. Written again after a crash, it stays as it is ([`upsert`](crate::upsert)).
    Idempotent,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtomicPerCheckpoint => "exactly-once, each checkpoint visible in one step",
            Self::AtomicPerTransaction => {
                "exactly-once, the transactions of a checkpoint become visible one by one"
            }
            Self::Idempotent => {
                "exactly-once by idempotence, rows are visible before their checkpoint is complete"
            }
        })
    }
}
