//! The sending end of a channel: it never waits, and says when to stop.

use std::sync::{Arc, atomic::Ordering};

use cutwater_barrier::align::Input;

use super::{AnyBatch, Closed, Gate, Item};

impl<C> Gate<C> {
    /// The sending end of channel `channel`.
    pub(crate) fn sender(self: &Arc<Self>, channel: usize) -> Sender<C> {
        Sender {
            gate: Arc::clone(self),
            channel,
        }
    }
}

/// The sending end of one channel.
pub(crate) struct Sender<C> {
    gate: Arc<Gate<C>>,
    channel: usize,
}

impl<C> Clone for Sender<C> {
    fn clone(&self) -> Self {
        Self {
            gate: Arc::clone(&self.gate),
            channel: self.channel,
        }
    }
}

/// What the sender of an item learns.
pub(crate) struct Sent {
    /// An emptied batch to fill next.
    pub(crate) spare: Option<AnyBatch>,
    /// Do not begin anything that would send more.
    pub(crate) is_full: bool,
    /// How many records may wait in the channel.
    pub(crate) records_max: usize,
}

impl<C> Sender<C> {
    /// Sends `item`, also into a full channel.
    pub(crate) fn send(&self, item: Item) -> Result<Sent, Closed> {
        let gate = &*self.gate;
        let mut inner = gate.lock();
        if inner.closed {
            return Err(Closed);
        }
        let queue = &mut inner.queues[self.channel];
        let mut announced = None;
        match &item {
            Item::Batch { records, .. } => {
                queue.batches += 1;
                queue.records += records;
            }
            Item::Barrier(barrier) if barrier.may_overtake() && queue.input != Input::Strict => {
                announced = Some(*barrier);
            }
            Item::Barrier(_) | Item::Cancel(_) | Item::EndOfData | Item::Probe(_) => {}
        }
        queue.items.push_back(item);
        let spare = queue.spare.pop();
        let sent = Sent {
            spare,
            is_full: gate.is_full(&inner, self.channel),
            records_max: gate.records_max.load(Ordering::Relaxed),
        };
        if let Some(barrier) = announced {
            inner.side.push_back((self.channel, barrier));
        }
        gate.changed.notify_one();
        Ok(sent)
    }

    /// How many records may wait in the channel.
    pub(crate) fn records_max(&self) -> usize {
        self.gate.records_max.load(Ordering::Relaxed)
    }

    /// Whether the channel has room. If not, `sender`, the gate of the task that sends, is told when
    /// it has.
    pub(crate) fn has_room(&self, sender: &Arc<Gate<C>>) -> Result<bool, Closed> {
        let mut inner = self.gate.lock();
        if inner.closed {
            return Err(Closed);
        }
        let is_full = self.gate.is_full(&inner, self.channel);
        if is_full {
            inner.queues[self.channel].waiting = Some(Arc::clone(sender));
        }
        Ok(!is_full)
    }
}
