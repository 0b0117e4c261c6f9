//! Back-pressure from the sender's side: whether a task may begin something that sends.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    channel::{Closed, Gate, Sender},
    task::Control,
};

/// All channels that leave a task.
pub(crate) struct Outlets {
    senders: Vec<Sender<Control>>,
    backlog: Backlog,
}

/// Set by whichever exchange of a task has filled a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog(Arc<AtomicBool>);

impl Backlog {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Outlets {
    pub(crate) fn new(senders: Vec<Sender<Control>>, backlog: Backlog) -> Self {
        Self { senders, backlog }
    }

    /// Records that may wait in the shortest of the channels.
    pub(crate) fn records_max(&self) -> usize {
        let bounds = self.senders.iter().map(Sender::records_max);
        bounds.min().unwrap_or(usize::MAX)
    }

    /// Whether all channels have room. If not, `gate`, the task's own, is told when to ask again.
    #[inline]
    pub(crate) fn have_room(&self, gate: &Arc<Gate<Control>>) -> Result<bool, Closed> {
        // Only this task's thread sets and clears it.
        if !self.backlog.0.load(Ordering::Relaxed) {
            return Ok(true);
        }
        for sender in &self.senders {
            if !sender.has_room(gate)? {
                return Ok(false);
            }
        }
        self.backlog.0.store(false, Ordering::Relaxed);
        Ok(true)
    }
}
