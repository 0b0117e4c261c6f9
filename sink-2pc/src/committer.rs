//! The half of a sink that makes prepared transactions visible, and its honest answers.

use std::future::Future;

use cutwater_barrier::{CheckpointId, Generation};

use crate::{Error, Result};

/// Ends prepared transactions, possibly in another process than wrote them. One per sink, beside
/// the coordinator; [`Machine`](crate::Machine) decides what it is asked and when.
///
/// The contract:
///
/// - `commit`, `probe` and `abort` answer for each transaction on its own, in the order asked, and
///   may be asked again about the same one at any time, also by a later generation.
/// - Silence is [`Verdict::Unknown`]: a timeout, a broken connection or an unreadable answer is
///   neither a yes nor a no. "I do not know this transaction" is only
///   [`AlreadyCommitted`](Verdict::AlreadyCommitted) if the target can tell it from
///   [`Lost`](Verdict::Lost), for example by a marker which the commit leaves behind.
/// - A client or connection that answered with an error, or not at all, is not used again: a late
///   answer would be taken for that of the next call (FLINK-25126, FLINK-37356).
/// - Calls end by themselves in bounded time. A call whose future was dropped may have taken effect.
pub trait Committer: Send {
    /// Makes transactions visible. Which ones come together is said by
    /// [`Guarantee`](crate::Guarantee); `prepared` is never empty.
    fn commit(&mut self, prepared: &[Prepared]) -> impl Future<Output = Vec<Verdict>> + Send;

    /// Asks what became of transactions, and changes nothing: `NotCommitted` if a commit would
    /// still work.
    fn probe(&mut self, prepared: &[Prepared]) -> impl Future<Output = Vec<Verdict>> + Send;

    /// Undoes prepared transactions. No error for those that the target already forgot.
    fn abort(&mut self, prepared: &[Prepared]) -> impl Future<Output = Result<()>> + Send;

    /// Locks out the writers of all generations before `generation`, whether they still run or not:
    /// nothing which they have not prepared so far can become visible any more.
    ///
    /// Called when all transactions of the restored checkpoint are committed, and again if the
    /// reply was lost.
    ///
    /// # Errors
    ///
    /// [`Error::fenced`] if the target has already seen a newer generation.
    fn fence(&mut self, generation: Generation) -> impl Future<Output = Result<()>> + Send;

    /// Undoes everything that generations before the fence left unfinished, at any parallelism.
    ///
    /// What [`CommitterContext::restored`](crate::CommitterContext::restored) names can still be
    /// read by the writers that take it over. It too must be out of reach of its old writer, which
    /// may have prepared it meanwhile, for a checkpoint that did not complete.
    fn sweep(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// A transaction that is flushed and not visible yet. It is stored in the checkpoint.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub struct Prepared {
    /// The checkpoint before whose barrier it was written. That one or a later one decides.
    pub checkpoint: CheckpointId,
    /// Enough for another process to commit, probe or abort it. Unique among all transactions of
    /// the target there ever were, also those of a generation that completed nothing: a zombie
    /// would else commit its successor's. Opaque to everyone but the sink.
    pub token: Vec<u8>,
}

impl Prepared {
    /// A prepared transaction.
    pub fn new(checkpoint: CheckpointId, token: impl Into<Vec<u8>>) -> Self {
        Self {
            checkpoint,
            token: token.into(),
        }
    }
}

/// From the pair as which checkpoint storage keeps it.
impl<T: Into<Vec<u8>>> From<(CheckpointId, T)> for Prepared {
    fn from((checkpoint, token): (CheckpointId, T)) -> Self {
        Self::new(checkpoint, token)
    }
}

/// Into the pair as which checkpoint storage keeps it.
impl From<Prepared> for (CheckpointId, Vec<u8>) {
    fn from(prepared: Prepared) -> Self {
        (prepared.checkpoint, prepared.token)
    }
}

/// What is known about a transaction after asking for its commit. Silence is not a "no".
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a caller that ignores a verdict loses or doubles data"
)]
pub enum Verdict {
    /// This call made it visible.
    Committed,
    /// An earlier call had: its reply was lost.
    AlreadyCommitted,
    /// It is still only prepared. Trying again can succeed.
    NotCommitted(Error),
    /// It is gone, for example aborted by the system's own timeout. Stop the job and say so.
    Lost(Error),
    /// Nobody knows. Keep the token and ask again; report no success.
    Unknown(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Null;

    impl Committer for Null {
        async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
            vec![Verdict::Committed; prepared.len()]
        }

        async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
            vec![Verdict::AlreadyCommitted; prepared.len()]
        }

        async fn abort(&mut self, _: &[Prepared]) -> Result<()> {
            Ok(())
        }

        async fn fence(&mut self, _: Generation) -> Result<()> {
            Ok(())
        }

        async fn sweep(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_committer_written_with_async_fn_has_send_futures() {
        fn is_send(_: impl Send) {}
        is_send(Null.commit(&[]));
        is_send(Null.sweep());
    }
}
