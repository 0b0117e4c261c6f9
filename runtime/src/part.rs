//! A task's part of the checkpoint in progress, from its cut to its acknowledgement.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{in_flight::Saved, upload::Upload};

/// What a task has taken so far.
pub(crate) struct Part {
    /// The state of its operators, on its way into the store.
    pub(crate) upload: Arc<Upload>,
    /// Records in flight, of each channel that had some.
    pub(crate) in_flight: BTreeMap<usize, Saved>,
    /// How long the operators took to fix their views.
    pub(crate) sync: Duration,
}

impl Part {
    /// Where the records in flight of `channel` go.
    pub(crate) fn saved(&mut self, channel: usize) -> &mut Saved {
        self.in_flight.entry(channel).or_default()
    }
}
