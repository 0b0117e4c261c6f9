//! A decision, and what became of it if its append failed.

use cutwater_barrier::coordinate::NotDurable;

use super::{CheckpointStore, Fate};
use crate::{Error, Metadata};

/// A checkpoint that was not completed, as far as is known.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotDecided {
    /// What is known of it, for the coordinator's
    /// [`NotDecided`](cutwater_barrier::coordinate::Event::NotDecided).
    pub reason: NotDurable,
    /// Why it failed.
    pub error: Error,
}

impl CheckpointStore {
    /// [Completes](Self::complete) a checkpoint. If that fails, perhaps only the reply was lost: then the
    /// log is asked, and what is certainly not complete is discarded.
    ///
    /// # Errors
    ///
    /// If the checkpoint is not complete, or nobody knows.
    pub async fn decide(&mut self, metadata: &Metadata) -> Result<(), NotDecided> {
        let Err(error) = self.complete(metadata).await else {
            return Ok(());
        };
        let reason = if error.is_fenced() {
            NotDurable::Fenced
        } else {
            match self.discard_failed(metadata.checkpoint).await {
                Ok(Fate::Completed) => return Ok(()),
                Ok(Fate::Discarded) => NotDurable::Failed,
                Err(error) if error.is_fenced() => NotDurable::Fenced,
                Err(_) => NotDurable::Unknown,
            }
        };
        Err(NotDecided { reason, error })
    }
}
