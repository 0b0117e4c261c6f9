//! What a sink promises: one half writes in the task, the other decides after the checkpoint.

use std::future::Future;

use cutwater_barrier::CheckpointId;

use crate::{Error, Result};

/// The half that lives in the task and holds back what it wrote.
///
/// ```text
///   write* ─▶ prepare(c) ─▶ [tokens are in the checkpoint] ─▶ c complete ─▶ Committer::commit
///                                                         └─▶ c failed ───▶ Committer::abort
/// ```
///
/// The methods promise a `Send` future, which `async fn` in a trait does not. Implement them with
/// plain `async fn`.
pub trait Writer: Send {
    /// What the sink writes.
    type Record: Send;

    /// Adds `batch` to the open transaction, and opens one if there is none.
    fn write(&mut self, batch: Vec<Self::Record>) -> impl Future<Output = Result<()>> + Send;

    /// Flushes what is open so that only `commit` is left to do; nothing open gives nothing back.
    /// Once this returns, a crash of this process must not lose it.
    fn prepare(
        &mut self,
        checkpoint: CheckpointId,
    ) -> impl Future<Output = Result<Vec<Prepared>>> + Send;
}

/// The half that makes prepared transactions visible, possibly in another process than wrote them.
pub trait Committer: Send {
    /// Makes a prepared transaction visible. Called again after a crash or a lost reply.
    fn commit(&mut self, prepared: &Prepared) -> impl Future<Output = Verdict> + Send;

    /// Undoes a prepared transaction. No error if the system already forgot it.
    fn abort(&mut self, prepared: &Prepared) -> impl Future<Output = Result<()>> + Send;
}

/// A transaction that is flushed and not visible yet. It is stored in the checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Prepared {
    /// The checkpoint that decides its fate.
    pub checkpoint: CheckpointId,
    /// Enough for another process to commit or abort it. Opaque to everyone but the sink.
    pub token: Vec<u8>,
}

impl Prepared {
    /// A prepared transaction.
    pub fn new(checkpoint: CheckpointId, token: Vec<u8>) -> Self {
        Self { checkpoint, token }
    }
}

/// What is known about a transaction after asking for its commit. Silence is not a "no".
#[derive(Debug)]
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
        async fn commit(&mut self, _: &Prepared) -> Verdict {
            Verdict::Committed
        }

        async fn abort(&mut self, _: &Prepared) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_written_with_async_fn_has_send_futures() {
        fn is_send(_: impl Send) {}
        is_send(Null.commit(&Prepared::new(CheckpointId::new(1), Vec::new())));
    }
}
