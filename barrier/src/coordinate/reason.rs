//! Why things did not happen: declined, aborted, refused, failed.
//!
//! Each is small and `Copy`, says what is known and not what to think of it, and names the remedy in
//! its `Display` if there is one.

use core::{error, fmt};

use super::TaskId;
use crate::CheckpointId;

/// Why a task does not deliver its part.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Decline {
    /// It tried and failed. Counts as a failure.
    Failed,
    /// It was not ready, is about to end, or has moved on to a newer checkpoint. Does not count.
    Passed,
}

/// What is known about a decision that could not be stored.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
