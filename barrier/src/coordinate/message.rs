//! What the coordinator hears and what it has the driver do.

use alloc::vec::Vec;

use super::{Abort, Decline, JobFailure, NotDurable, Refusal, Request, RequestId, TaskId};
use crate::{
    Barrier, CheckpointId, Generation, Kind, Then,
    stats::{CheckpointStats, TaskStats},
};

/// What happened to the job. `R` is a task's part of a checkpoint, opaque here.
///
/// Acknowledgements and declines may be lost, late or doubled. What a task has become
/// ([`Running`](Self::Running) to [`Lost`](Self::Lost)) must reach the coordinator, in order for each
/// task, and each [`Decision`] gets one answer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Event<R> {
    /// A task runs: restored, and able to take part in a checkpoint.
    Running {
        /// Which one.
        task: TaskId,
    },
    /// A task has processed all its input. It still runs, takes part in checkpoints, and waits for
    /// one that covers its last output to complete. Once all tasks have, a final checkpoint follows.
    Drained {
        /// Which one.
        task: TaskId,
    },
    /// A task has ended well. Report it only when all its output has been sent, and a checkpoint
    /// covers what it has to commit.
    Finished {
        /// Which one.
        task: TaskId,
        /// The newest checkpoint that it acknowledged or gave up. A newer one counts it as finished;
        /// for an older one its acknowledgement must still be on the way.
        last: Option<CheckpointId>,
    },
    /// A task has failed, or nobody knows what became of it.
    Lost {
        /// Which one.
        task: TaskId,
    },
    /// Somebody wants a checkpoint.
    Requested(Request),
    /// A task has stored its part of a checkpoint.
    Acked {
        /// The attempt that the task belongs to.
        generation: Generation,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskId,
        /// Its part.
        part: R,
        /// What the part cost.
        stats: TaskStats,
    },
    /// A task will not deliver its part of a checkpoint.
    Declined {
        /// The attempt that the task belongs to.
        generation: Generation,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskId,
        /// Why.
        reason: Decline,
    },
    /// A [`Decision`] is durable.
    Decided {
        /// Its checkpoint.
        checkpoint: CheckpointId,
    },
    /// A [`Decision`] is not, or not known to be, durable.
    NotDecided {
        /// Its checkpoint.
        checkpoint: CheckpointId,
        /// What is known.
        reason: NotDurable,
        /// The decision's reports, which come back as [`Effect::Discard`] or [`Effect::Leave`].
        reports: Vec<Report<R>>,
    },
    /// The driver is busy deleting so many discarded checkpoints. A number, not a difference: a lost
    /// message then corrects itself (case B40).
    Cleaning {
        /// Checkpoints not deleted yet.
        checkpoints: usize,
    },
    /// The job is being shut down: no more checkpoints.
    Stop,
    /// The deadline passed. Reporting it early is harmless.
    Woke,
}

impl<R> Event<R> {
    /// [`Acked`](Self::Acked), for an engine that does not measure what a part costs.
    pub fn acked(generation: Generation, checkpoint: CheckpointId, task: TaskId, part: R) -> Self {
        Self::Acked {
            generation,
            checkpoint,
            task,
            part,
            stats: TaskStats::default(),
        }
    }
}

/// What the driver does next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that skips an effect loses a checkpoint or its files"
)]
pub enum Effect<R> {
    /// Have this task inject the barrier.
    Trigger {
        /// A source, or a task whose inputs have all finished.
        task: TaskId,
        /// What to inject.
        barrier: Barrier,
    },
    /// Make this durable, in one fenced, atomic step, and answer [`Event::Decided`] or
    /// [`Event::NotDecided`]. One decision at a time is under way.
    Decide(Decision<R>),
    /// Tell every task and committer: the checkpoint is complete, with everything that was prepared
    /// for it or before.
    NotifyComplete {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// A savepoint is the user's to delete: whether sinks commit for it is the driver's choice.
        kind: Kind,
        /// What follows: unless the job continues, tasks end on hearing this.
        then: Then,
    },
    /// Tell every task: the checkpoint will never be complete.
    NotifyAborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why, for the log.
        reason: Abort,
        /// The newest completed one: local copies of those after it are of no use (F028).
        latest: Option<CheckpointId>,
    },
    /// Tell every task: the checkpoint will never be complete, as a newer one is. What was prepared
    /// for it is part of the newer one.
    NotifySubsumed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The newer one.
        by: CheckpointId,
    },
    /// Delete what this report alone refers to: no checkpoint of any generation will.
    Discard {
        /// The checkpoint it was meant for.
        checkpoint: CheckpointId,
        /// The report.
        report: Report<R>,
    },
    /// Drop this report and delete nothing. It is the double of one that was accepted, comes from another
    /// generation, which may have completed the checkpoint, or belongs to a decision that may be
    /// durable. What turns out to be an orphan is found by the store.
    Leave {
        /// The checkpoint it was meant for.
        checkpoint: CheckpointId,
        /// The report.
        report: Report<R>,
    },
    /// Answer whoever requested. Comes after the notices and discards of the same outcome (F022).
    Answer {
        /// The request.
        request: RequestId,
        /// The completed checkpoint, or why there is none.
        outcome: Result<CheckpointId, Refusal>,
    },
    /// The job's last checkpoint is complete and nothing else is in progress: the job ends when all
    /// tasks have.
    End {
        /// The last checkpoint.
        checkpoint: CheckpointId,
    },
    /// The job cannot go on: end this attempt. The coordinator triggers nothing any more.
    FailJob(JobFailure),
}

/// A checkpoint that is complete once this is durable.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Decision<R> {
    /// The attempt that decides.
    pub generation: Generation,
    /// What was triggered.
    pub barrier: Barrier,
    /// The parts, by task.
    pub reports: Vec<Report<R>>,
    /// Tasks that had finished before the barrier. They restore as finished.
    pub finished: Vec<TaskId>,
    /// What it cost.
    pub stats: CheckpointStats,
}

/// A task's part of a checkpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the driver hands reports back when a decision fails"
)]
pub struct Report<R> {
    /// Whose it is.
    pub task: TaskId,
    /// What the task put into [`Event::Acked`].
    pub part: R,
}
