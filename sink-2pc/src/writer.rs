//! The half of a sink that lives in the task and holds back what it wrote.

use std::future::Future;

use cutwater_barrier::{CheckpointId, Then, Time};

use crate::{Prepared, Result};

/// Writes records so that they are durable at the checkpoint and visible only after it.
///
/// ```text
///   write* ─▶ prepare(c) ─▶ [transactions and state are in c] ─▶ … ─▶ released(before)
/// ```
///
/// The contract:
///
/// - After `prepare` has returned, everything written before it survives a crash of this process,
///   as a [`Prepared`] or under a name in [`Flushed::state`]. Nothing of it is visible.
/// - An error of a write in the background comes out of the next call, at the latest of the
///   `prepare` whose records it concerns: that checkpoint must fail.
/// - After any error the writer is dropped and never called again.
/// - Dropping a writer without `prepare` is a crash: what it wrote never becomes visible.
///   [`Committer::sweep`](crate::Committer::sweep) of a later generation removes it.
///
/// The methods promise a `Send` future, which `async fn` in a trait does not. Implement them with
/// plain `async fn`. No timeout, runtime or clock is assumed around them.
pub trait Writer: Send {
    /// What the sink writes.
    type Record: Send;

    /// Adds all records of `batch` to what is open, and leaves `batch` empty for the caller to fill
    /// again. `now` is the driver's clock, for whoever rolls by age.
    fn write(
        &mut self,
        now: Time,
        batch: &mut Vec<Self::Record>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Flushes at the barrier of `checkpoint`.
    ///
    /// With [`Input::Ended`] everything must end up in [`Flushed::prepared`]: no other checkpoint
    /// will come to commit it. Nothing written since the last one gives no transaction.
    fn prepare(
        &mut self,
        now: Time,
        checkpoint: CheckpointId,
        input: Input,
    ) -> impl Future<Output = Result<Flushed>> + Send;

    /// All transactions of checkpoints before `before` are committed, and the newest completed
    /// checkpoint no longer names them. Only now may their ids be used again.
    ///
    /// Not at the commit: a job that is restored from a checkpoint which names a transaction
    /// commits it once more, and with a reused id it would then commit, or be fenced by, another
    /// one. May be late or lost; a later call covers earlier ones.
    fn released(&mut self, before: CheckpointId) -> impl Future<Output = Result<()>> + Send;
}

/// Whether records follow after a barrier. Of a barrier's [`Then`] it is made by `into()`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a writer that ignores the end leaves records invisible"
)]
pub enum Input {
    /// Yes. What the sink has open may stay open.
    Continues,
    /// No: this is the last checkpoint before the job ends, be it at the end of its input or to be
    /// resumed later. Either way nobody is there to commit what a later checkpoint would close, so
    /// everything is to become visible now.
    Ended,
}

impl From<Then> for Input {
    fn from(then: Then) -> Self {
        match then {
            Then::Continue => Self::Continues,
            Then::Suspend | Then::Drain => Self::Ended,
        }
    }
}

/// What a writer hands to a checkpoint.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Flushed {
    /// Transactions which become visible once this checkpoint is complete.
    pub prepared: Vec<Prepared>,
    /// What the writer's successors need, in pieces that can be handed out one by one. It replaces
    /// what the previous checkpoint held.
    ///
    /// A counter of ids is one piece. A file that stays open over several checkpoints is one too:
    /// its name and the length that is durable now. It is *not* among `prepared` until the
    /// checkpoint at which it is closed, so its records become visible then, and lie safely below
    /// the recorded length in each checkpoint before.
    ///
    /// An engine keeps the pieces as operator state of this subtask: a list, of which a restore deals
    /// out the elements anew (`list::<Vec<u8>>` of `cutwater-state`'s `OperatorStates`).
    pub state: Vec<Vec<u8>>,
}

impl Flushed {
    /// Transactions and no state.
    pub fn new(prepared: Vec<Prepared>) -> Self {
        Self {
            prepared,
            state: Vec::new(),
        }
    }

    /// The same with pieces of state.
    #[must_use]
    pub fn with_state(self, state: Vec<Vec<u8>>) -> Self {
        Self { state, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also what is to be resumed becomes visible: the job ends, and nobody is left to commit.
    #[test]
    fn input_ends_with_every_stop() {
        assert_eq!(Input::from(Then::Continue), Input::Continues);
        assert_eq!(Input::from(Then::Suspend), Input::Ended);
        assert_eq!(Input::from(Then::Drain), Input::Ended);
    }
}
