//! The words a driver and the [`Machine`](super::Machine) exchange.

use std::{error, fmt};

use cutwater_barrier::{CheckpointId, Generation};

use crate::{Committer, Error, Prepared, Result, Verdict};

/// Something happened that the machine has to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A task reported these transactions. Every one that a writer returned must come here,
    /// also from a report that is late for its checkpoint. Coming twice is fine.
    Prepared(Vec<Prepared>),
    /// The decision for this checkpoint is durable: everything prepared up to it is to be
    /// committed. May come twice; a lost one is covered by the next.
    Completed(CheckpointId),
    /// This checkpoint will not complete, and the job goes on, as it does when the coordinator notifies
    /// that a checkpoint is aborted or subsumed. Its transactions stay: the records in them are not sent
    /// again, so a later checkpoint has to cover them.
    NotCompleted(CheckpointId),
    /// This checkpoint will not complete, and the tasks have gone back to the one before it within this
    /// generation: what came after is processed again. Exactly its transactions are undone, unless a
    /// later checkpoint already decided. An engine that goes back by a new generation never says this:
    /// there the sweep undoes them.
    RolledBack(CheckpointId),
    /// The answer to a call. The answer to a call that is over is ignored.
    Replied(CallId, Reply),
    /// The [`deadline`](super::Machine::deadline) has come.
    Woke,
}

/// Do this.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that skips an effect breaks exactly-once"
)]
pub enum Effect {
    /// Make this call to the [`Committer`](crate::Committer) and report what it answers.
    Call(CallId, Call),
    /// The writers of this generation may be opened.
    Ready,
    /// Everything up to this completed checkpoint is confirmed. The checkpoint log may say so.
    AllCommitted(CheckpointId),
    /// Tell the writers: [`Writer::released`](crate::Writer::released).
    Released {
        /// Of which checkpoints nothing is needed any more: those before this one.
        before: CheckpointId,
    },
    /// Fail the job and show why. No call follows.
    Failed(Failure),
}

/// A number for a call, so that a late answer is recognised.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub(super) u64);

/// One call to the committer; the variants are its methods.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver must be able to make every call"
)]
pub enum Call {
    /// [`Committer::commit`](crate::Committer::commit)
    Commit(Vec<Prepared>),
    /// [`Committer::probe`](crate::Committer::probe)
    Probe(Vec<Prepared>),
    /// [`Committer::abort`](crate::Committer::abort)
    Abort(Vec<Prepared>),
    /// [`Committer::fence`](crate::Committer::fence)
    Fence(Generation),
    /// [`Committer::sweep`](crate::Committer::sweep)
    Sweep,
}

impl Call {
    /// Makes the call. The reply belongs into [`Event::Replied`].
    pub async fn ask(&self, committer: &mut impl Committer) -> Reply {
        match self {
            Self::Commit(asked) => Reply::Verdicts(committer.commit(asked).await),
            Self::Probe(asked) => Reply::Verdicts(committer.probe(asked).await),
            Self::Abort(asked) => Reply::Done(committer.abort(asked).await),
            Self::Fence(generation) => Reply::Done(committer.fence(*generation).await),
            Self::Sweep => Reply::Done(committer.sweep().await),
        }
    }

    /// What to report if no answer came: nothing is known of any of it.
    pub fn unanswered(&self, error: &Error) -> Reply {
        match self {
            Self::Commit(asked) | Self::Probe(asked) => {
                Reply::Verdicts(vec![Verdict::Unknown(error.clone()); asked.len()])
            }
            Self::Abort(_) | Self::Fence(_) | Self::Sweep => Reply::Done(Err(error.clone())),
        }
    }
}

/// What the committer answered.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "these are the return types of a committer"
)]
pub enum Reply {
    /// To a commit or a probe, one for each transaction, in order.
    Verdicts(Vec<Verdict>),
    /// To the other calls.
    Done(Result<()>),
}

impl Reply {
    pub(super) fn answers(&self, call: &Call) -> bool {
        match (call, self) {
            (Call::Commit(asked) | Call::Probe(asked), Self::Verdicts(verdicts)) => {
                asked.len() == verdicts.len()
            }
            (Call::Abort(_) | Call::Fence(_) | Call::Sweep, Self::Done(_)) => true,
            _ => false,
        }
    }
}

/// Why the job has to stop. No transaction was dropped because of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The target no longer has a transaction that a completed checkpoint names: its records are
    /// missing for good.
    Lost {
        /// Which one.
        prepared: Prepared,
        /// What the target said.
        error: Error,
    },
    /// The target refused a commit or an abort too often. A restart tries again.
    Refused {
        /// Which one.
        prepared: Prepared,
        /// What the target said last.
        error: Error,
    },
    /// Older generations could not be fenced or swept, so no writer may open.
    NotReady {
        /// What the target said last.
        error: Error,
    },
    /// A newer generation of this job has taken over; this process is the zombie.
    Fenced {
        /// That generation.
        newer: Generation,
        /// In which call it was noticed.
        error: Error,
    },
    /// The committer does not keep its contract: a bug in the sink.
    Broken(MachineError),
}

impl Failure {
    pub(super) fn fenced(error: Error) -> Self {
        let newer = error.newer_generation().expect("a fenced error");
        Self::Fenced { newer, error }
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        Self::Broken(error)
    }
}

impl fmt::Display for Failure {
    /// One line without the source: whoever reports the error walks `source()`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { prepared, .. } => write!(
                f,
                "the sink's target lost a transaction of checkpoint {}: its records are not in the \
                 output and will not be; raise the target's transaction timeout, then restore an \
                 older checkpoint or repair the output",
                prepared.checkpoint
            ),
            Self::Refused { prepared, .. } => write!(
                f,
                "the sink's target kept refusing to end a transaction of checkpoint {}; restart the \
                 job once the target is well",
                prepared.checkpoint
            ),
            Self::NotReady { .. } => f.write_str(
                "older writers of this sink could not be locked out; restart the job once the \
                 target is well",
            ),
            Self::Fenced { newer, .. } => write!(
                f,
                "generation {newer} of this job has taken over the sink; end this process"
            ),
            Self::Broken(_) => f.write_str("the sink's committer broke its contract"),
        }
    }
}

impl error::Error for Failure {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Lost { error, .. }
            | Self::Refused { error, .. }
            | Self::NotReady { error }
            | Self::Fenced { error, .. } => Some(error),
            Self::Broken(error) => Some(error),
        }
    }
}

/// An event that cannot have happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MachineError {
    /// The answer to a call that was never made.
    UnknownCall(CallId),
    /// Verdicts where none were asked for, or not one for each transaction.
    WrongReply(CallId),
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCall(CallId(id)) => {
                write!(f, "an answer to call {id}, which was never made")
            }
            Self::WrongReply(CallId(id)) => write!(
                f,
                "the answer to call {id} does not fit it: the committer must return one verdict for \
                 each transaction, in order"
            ),
        }
    }
}

impl error::Error for MachineError {}
