//! The one writer of the checkpoint log: decisions, commits and deletions, one after the other, on a
//! thread of its own, so that a slow disk does not slow down the coordinator.

use cutwater_barrier::{
    CheckpointId,
    coordinate::{NotDurable, Report},
};
use cutwater_storage::{CheckpointStore, Metadata, NotDecided};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};

use crate::upload::TaskPart;

/// What the coordinator has the store do.
pub(crate) enum Keep {
    /// Make the decision durable.
    Complete {
        metadata: Box<Metadata>,
        /// Given back if it fails.
        reports: Vec<Report<TaskPart>>,
    },
    /// Note that sinks have committed it, and drop what is no longer needed.
    Committed(CheckpointId),
    /// Delete what a given-up checkpoint left.
    Discard(CheckpointId),
}

/// What came of it.
pub(crate) enum Kept {
    Completed(CheckpointId),
    NotCompleted {
        checkpoint: CheckpointId,
        reason: NotDurable,
        reports: Vec<Report<TaskPart>>,
        error: cutwater_storage::Error,
    },
    /// The commit is noted. Without the note a restart commits once more, which changes nothing.
    Committed(CheckpointId, Result<(), cutwater_storage::Error>),
    /// Files that nobody needs are deleted, or will be by a later try.
    Tidied(Result<(), cutwater_storage::Error>),
}

/// The way to the thread that keeps the log.
pub(crate) struct Keeper {
    mailbox: mpsc::UnboundedSender<Keep>,
    thread: JoinHandle<()>,
}

impl Keeper {
    pub(crate) fn start(
        tokio: &Handle,
        store: CheckpointStore,
        answers: mpsc::UnboundedSender<Kept>,
    ) -> Self {
        let (mailbox, requests) = mpsc::unbounded_channel();
        let handle = tokio.clone();
        let thread = tokio.spawn_blocking(move || handle.block_on(keep(store, requests, answers)));
        Self { mailbox, thread }
    }

    /// The thread lives as long as this, so somebody reads it.
    pub(crate) fn ask(&self, request: Keep) {
        let _panicked = self.mailbox.send(request);
    }

    /// Lets the thread finish what it was asked.
    pub(crate) async fn close(self) {
        drop(self.mailbox);
        let _panicked = self.thread.await;
    }
}

async fn keep(
    mut store: CheckpointStore,
    mut requests: mpsc::UnboundedReceiver<Keep>,
    answers: mpsc::UnboundedSender<Kept>,
) {
    while let Some(request) = requests.recv().await {
        let kept = match request {
            Keep::Complete { metadata, reports } => match store.decide(&metadata).await {
                Ok(()) => Kept::Completed(metadata.checkpoint),
                Err(NotDecided { reason, error, .. }) => Kept::NotCompleted {
                    checkpoint: metadata.checkpoint,
                    reason,
                    reports,
                    error,
                },
            },
            Keep::Committed(checkpoint) => {
                Kept::Committed(checkpoint, store.committed(checkpoint).await)
            }
            Keep::Discard(checkpoint) => {
                Kept::Tidied(store.discard_failed(checkpoint).await.map(drop))
            }
        };
        let is_time_to_tidy = matches!(kept, Kept::Committed(..)) && requests.is_empty();
        // After the attempt nobody listens, and what is in the log is there for the next one.
        let _nobody_listens = answers.send(kept);
        if is_time_to_tidy {
            let tidied = Kept::Tidied(store.apply_retention().await.map(drop));
            let _nobody_listens = answers.send(tidied);
        }
    }
}
