//! What the coordinator hears and what it has the driver do.

use alloc::vec::Vec;
use core::{error, fmt};

use super::{Request, RequestId, TaskId};
use crate::{
    Barrier, CheckpointId, Generation, Kind, Then,
    stats::{CheckpointStats, TaskStats},
};

/// What happened to the job. `R` is a task's report of its part of a checkpoint, opaque here.
///
/// Messages of tasks may be lost, late or doubled. Messages of the driver itself
/// ([`Decided`](Self::Decided), [`NotDecided`](Self::NotDecided)) may not be doubled.
#[derive(Clone, Debug, Eq, PartialEq)]
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
        /// The newest checkpoint that it snapshotted or gave up. A newer one counts it as finished;
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
        report: R,
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

/// What the driver does next.
#[derive(Clone, Debug, Eq, PartialEq)]
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
    /// Answer whoever requested. Comes after everything else that the outcome causes (F022).
    Answer {
        /// The request.
        request: RequestId,
        /// The completed checkpoint, or why there is none.
        outcome: Result<CheckpointId, Refusal>,
    },
    /// The job's last checkpoint is complete: it ends when all tasks have.
    End {
        /// The last checkpoint.
        checkpoint: CheckpointId,
    },
    /// The job cannot go on: end this attempt. The coordinator triggers nothing any more.
    FailJob(JobFailure),
}

/// A checkpoint that is complete once this is durable.
#[derive(Clone, Debug, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the driver hands reports back when a decision fails"
)]
pub struct Report<R> {
    /// Whose it is.
    pub task: TaskId,
    /// What it is.
    pub report: R,
}

/// Why a task does not deliver its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Decline {
    /// It tried and failed. Counts as a failure.
    Failed,
    /// It was not ready, is about to end, or has moved on to a newer checkpoint. Does not count.
    Passed,
}

/// What is known about a decision that could not be stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "these are all answers to: may its files be deleted, may the job go on"
)]
pub enum NotDurable {
    /// It is certainly not durable and never will be: a failed checkpoint.
    Failed,
    /// It may be durable. Only a recovery, which reads the log, can tell; nothing is deleted (F021).
    Unknown,
    /// A newer generation has taken over. Nothing here is ours any more.
    Fenced,
}

/// Why a checkpoint was aborted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Abort {
    /// A task declined.
    Declined {
        /// Which one.
        task: TaskId,
        /// Why.
        reason: Decline,
    },
    /// Acknowledgements did not come in time.
    Expired,
    /// The attempt ended.
    Halted,
    /// The decision could not be stored.
    NotDurable(NotDurable),
    /// A task finished whose companions had not ([`Plan::finish_together`](super::Plan::finish_together)).
    PartlyFinished {
        /// Which one.
        task: TaskId,
    },
}

/// Why a request did not lead to a checkpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// It was triggered and aborted.
    Aborted(Abort),
    /// It was triggered and a newer checkpoint completed first.
    Subsumed,
    /// The job is ending with another checkpoint, or has ended.
    Ending,
    /// The attempt has ended.
    Halted,
    /// A task does not run.
    NotRunning {
        /// Which one.
        task: TaskId,
    },
    /// A task has finished whose companions have not.
    PartlyFinished {
        /// Which one.
        task: TaskId,
    },
    /// Too many more important or earlier requests are waiting.
    TooManyRequests,
}

/// Why an attempt cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum JobFailure {
    /// A newer generation has taken over: this process stops, it does not restart the job.
    Fenced,
    /// The checkpoint after which the job was to stop failed, when sources had stopped already.
    StopFailed {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// A task was lost.
    TaskLost {
        /// Which one.
        task: TaskId,
    },
    /// More checkpoints failed in a row than are tolerable.
    TooManyFailures {
        /// The last of them.
        checkpoint: CheckpointId,
    },
    /// Nobody knows whether this checkpoint is complete; the recovery will.
    Undecided {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
}

/// An event that cannot follow the ones before it: a bug in the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CoordinateError {
    /// The task had finished.
    AfterFinish {
        /// The task named.
        task: TaskId,
    },
    /// No decision about this checkpoint is under way.
    NotDeciding {
        /// The checkpoint named.
        checkpoint: CheckpointId,
    },
    /// The plan has no such task.
    UnknownTask {
        /// The task named.
        task: TaskId,
    },
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined { task, reason } => match reason {
                Decline::Failed => write!(f, "task {task} failed to take its part"),
                Decline::Passed => write!(f, "task {task} could not take part"),
            },
            Self::Expired => f.write_str("some tasks did not acknowledge in time"),
            Self::Halted => f.write_str("the attempt ended"),
            Self::NotDurable(reason) => match reason {
                NotDurable::Failed => f.write_str("its completion could not be stored"),
                NotDurable::Unknown => f.write_str("its completion may or may not be stored"),
                NotDurable::Fenced => f.write_str("a newer generation has taken over"),
            },
            Self::PartlyFinished { task } => {
                write!(f, "task {task} has finished, its companions have not")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted(reason) => write!(f, "the checkpoint was aborted: {reason}"),
            Self::Subsumed => f.write_str("a newer checkpoint completed first: use that one"),
            Self::Ending => f.write_str("the job is ending with another checkpoint"),
            Self::Halted => f.write_str("the attempt has ended: ask again once the job runs"),
            Self::NotRunning { task } => {
                write!(
                    f,
                    "task {task} is not running: ask again once all tasks run"
                )
            }
            Self::PartlyFinished { task } => write!(
                f,
                "task {task} has finished, its companions have not: ask again once they have"
            ),
            Self::TooManyRequests => f.write_str("too many requests are waiting: ask again later"),
        }
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced => f.write_str("a newer generation has taken over"),
            Self::StopFailed { checkpoint } => {
                write!(f, "checkpoint {checkpoint}, the job's last, failed")
            }
            Self::TaskLost { task } => write!(f, "task {task} was lost"),
            Self::TooManyFailures { checkpoint } => write!(
                f,
                "checkpoint {checkpoint} failed, one more in a row than is tolerable"
            ),
            Self::Undecided { checkpoint } => write!(
                f,
                "checkpoint {checkpoint} may or may not be complete: recover to find out"
            ),
        }
    }
}

impl fmt::Display for CoordinateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterFinish { task } => write!(f, "task {task} had already finished"),
            Self::NotDeciding { checkpoint } => {
                write!(f, "no decision about checkpoint {checkpoint} is under way")
            }
            Self::UnknownTask { task } => write!(f, "the plan has no task {task}"),
        }
    }
}

impl error::Error for Abort {}
impl error::Error for Refusal {}
impl error::Error for JobFailure {}
impl error::Error for CoordinateError {}
