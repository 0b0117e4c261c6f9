//! What follows a decision: sinks commit, and the log says so.

use cutwater_barrier::CheckpointId;

use super::CheckpointStore;
use crate::{Completed, Result, log::Decision};

impl CheckpointStore {
    /// Notes that everything prepared up to `checkpoint` is committed. Until then retention keeps it,
    /// and a recovery commits again.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not a completed checkpoint.
    pub async fn committed(&mut self, checkpoint: CheckpointId) -> Result<()> {
        let generation = self.term()?.generation;
        if self.state().committed() >= Some(checkpoint) {
            return Ok(());
        }
        self.get(checkpoint)?;
        self.log
            .append(generation, Decision::Committed(checkpoint))
            .await
    }

    /// Carries out what a completed checkpoint decided: has `commit` make the sinks commit, once it is
    /// known that this process still leads, notes it in the log, and drops what need not be kept.
    ///
    /// # Errors
    ///
    /// Outside, those of this store: `Fenced`, and nothing was committed. Inside, those of `commit`,
    /// after which nothing is noted and a recovery commits again.
    pub async fn carry_out<T, E>(
        &mut self,
        checkpoint: CheckpointId,
        commit: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>> {
        self.check_leading().await?;
        let committed = commit.await;
        if committed.is_ok() {
            self.committed(checkpoint).await?;
            self.apply_retention().await?;
        }
        Ok(committed)
    }

    /// Completed, and not noted as [`committed`](Self::committed), oldest first.
    pub fn uncommitted(&self) -> impl Iterator<Item = &Completed> {
        self.state().uncommitted()
    }

    /// The newest checkpoint up to which everything is noted as committed.
    pub fn last_committed(&self) -> Option<CheckpointId> {
        self.state().committed()
    }
}
