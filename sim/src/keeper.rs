//! The one writer of a process's checkpoint log: decisions, commits and deletions, one after the other.

use std::collections::VecDeque;

use cutwater_barrier::{
    CheckpointId, Then,
    coordinate::{NotDurable, Report},
};
use cutwater_storage::{CheckpointStore, Metadata};

use crate::{stepped::Doing, stored::Part};

/// What the coordinator has the store do.
#[derive(Debug)]
pub(crate) enum Keep {
    /// Make the decision durable.
    Complete {
        metadata: Box<Metadata>,
        reports: Vec<Report<Part>>,
    },
    /// Make sure that this process still leads, before anybody hears that a checkpoint is complete.
    Lead(CheckpointId, Then),
    /// Note that sinks have committed it.
    Committed(CheckpointId),
    /// Delete what a given-up checkpoint left.
    Discard(CheckpointId),
    /// Drop what need not be kept.
    Tidy,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Kept {
    Completed(CheckpointId),
    NotCompleted {
        checkpoint: CheckpointId,
        reason: NotDurable,
        reports: Vec<Report<Part>>,
    },
    Leads(CheckpointId, Then),
    Committed(CheckpointId),
    /// What was given up is deleted, or turned out to be complete; or that is put off.
    Discarded,
    /// Done, or put off: a later try or a restart does it again.
    Tidied,
    /// Another process has taken over.
    Fenced,
    /// Whether it leads is not known.
    Failed,
}

impl Kept {
    /// Whether the log may hold one more completed checkpoint.
    pub(crate) fn may_have_decided(&self) -> bool {
        !matches!(self, Self::Leads(..) | Self::Committed(_) | Self::Tidied)
    }
}

#[derive(Debug)]
pub(crate) struct Keeper {
    /// At home while nothing is under way.
    store: Option<CheckpointStore>,
    queue: VecDeque<Keep>,
    doing: Option<Doing<(CheckpointStore, Kept)>>,
}

impl Keeper {
    pub(crate) fn new(store: CheckpointStore) -> Self {
        Self {
            store: Some(store),
            queue: VecDeque::new(),
            doing: None,
        }
    }

    pub(crate) fn ask(&mut self, request: Keep) {
        // Each of a checkpoint's parts comes back to be discarded, and one deletion takes them all.
        let again = |waiting: &Keep| match (waiting, &request) {
            (Keep::Discard(waiting), Keep::Discard(asked)) => waiting == asked,
            _ => false,
        };
        if !self.queue.iter().any(again) {
            self.queue.push_back(request);
        }
    }

    /// How many given-up checkpoints are still to be deleted.
    pub(crate) fn cleaning(&self) -> usize {
        let queue = self.queue.iter();
        queue
            .filter(|keep| matches!(keep, Keep::Discard(_)))
            .count()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.doing.is_none()
    }

    /// Goes one step on.
    pub(crate) fn step(&mut self) -> Option<Kept> {
        if self.doing.is_none() {
            let request = self.queue.pop_front()?;
            let store = self.store.take().expect("nothing is under way");
            self.doing = Some(Doing::new(keep(store, request)));
        }
        let (store, kept) = self.doing.as_mut()?.step()?;
        self.store = Some(store);
        self.doing = None;
        Some(kept)
    }
}

async fn keep(mut store: CheckpointStore, request: Keep) -> (CheckpointStore, Kept) {
    let kept = match request {
        Keep::Complete { metadata, reports } => match store.decide(&metadata).await {
            Ok(()) => Kept::Completed(metadata.checkpoint),
            Err(failed) => Kept::NotCompleted {
                checkpoint: metadata.checkpoint,
                reason: failed.reason,
                reports,
            },
        },
        Keep::Lead(checkpoint, then) => match store.check_leading().await {
            Ok(()) => Kept::Leads(checkpoint, then),
            Err(error) if error.is_fenced() => Kept::Fenced,
            Err(_) => Kept::Failed,
        },
        Keep::Committed(checkpoint) => match store.committed(checkpoint).await {
            Err(error) if error.is_fenced() => Kept::Fenced,
            Ok(()) | Err(_) => Kept::Committed(checkpoint),
        },
        Keep::Discard(checkpoint) => match store.discard_failed(checkpoint).await {
            Err(error) if error.is_fenced() => Kept::Fenced,
            Ok(_) | Err(_) => Kept::Discarded,
        },
        Keep::Tidy => match store.apply_retention().await {
            Err(error) if error.is_fenced() => Kept::Fenced,
            Ok(_) | Err(_) => Kept::Tidied,
        },
    };
    (store, kept)
}
