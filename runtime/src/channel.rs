//! The bounded FIFO channels between tasks, all those of one receiving task behind one gate.
//!
//! ```text
//!   exchange of A.0 ──channel 0──▶ ┐
//!   exchange of A.1 ──channel 1──▶ ├─ Gate of B.0 ──▶ the task's loop
//!   coordinator ────control──────▶ ┘
//! ```
//!
//! A channel carries batches, so the lock is taken once per batch, not per record. Emptied batches
//! go back to their sender, so a running job allocates none. A full channel makes its sender wait
//! (back-pressure), and a channel that the aligner blocks simply stays unread until it is full.
//!
//! Invariant: items of one channel are received in the order they were sent; control messages may
//! overtake them.

use std::{
    any::Any,
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use cutwater_barrier::{Barrier, CheckpointId};

/// What travels in a channel, in order.
pub(crate) enum Item {
    /// A [`Batch`] of the edge's record type.
    Batch(AnyBatch),
    /// Everything before it belongs to the barrier's checkpoint.
    Barrier(Barrier),
    /// The checkpoint was given up upstream: do not wait for its barrier.
    Cancel(CheckpointId),
    /// No more records will come. Barriers still may.
    EndOfData,
}

/// Records of one edge. A type of its own, so that it can be erased and found again.
pub(crate) struct Batch<T>(pub(crate) Vec<T>);

/// A `Box<Batch<T>>` whose `T` only the two ends of the edge know.
pub(crate) type AnyBatch = Box<dyn Any + Send>;

/// The attempt is over: stop what you are doing, nobody is at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Closed;

/// The receiving end of all channels of one task, and its mailbox for messages of type `C`.
pub(crate) struct Gate<C> {
    capacity: usize,
    inner: Mutex<Inner<C>>,
    readable: Condvar,
    writable: Vec<Condvar>,
}

struct Inner<C> {
    queues: Vec<Queue>,
    control: VecDeque<C>,
    closed: bool,
    /// Where the next search starts, so that no channel starves.
    next: usize,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    spare: Vec<AnyBatch>,
}

/// What a task found at its gate.
pub(crate) enum Received<C> {
    Control(C),
    Item { channel: usize, item: Item },
}

impl<C> Gate<C> {
    /// A gate of `channels` channels, each holding at most `capacity` items.
    pub(crate) fn new(channels: usize, capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: capacity.max(1),
            inner: Mutex::new(Inner {
                queues: (0..channels).map(|_| Queue::default()).collect(),
                control: VecDeque::new(),
                closed: false,
                next: 0,
            }),
            readable: Condvar::new(),
            writable: (0..channels).map(|_| Condvar::new()).collect(),
        })
    }

    /// The sending end of channel `channel`.
    pub(crate) fn sender(self: &Arc<Self>, channel: usize) -> Sender<C> {
        Sender {
            gate: Arc::clone(self),
            channel,
        }
    }

    /// Leaves a message in the mailbox. Never waits; lost if the gate is closed.
    pub(crate) fn tell(&self, message: C) {
        let mut inner = self.lock();
        if !inner.closed {
            inner.control.push_back(message);
            self.readable.notify_one();
        }
    }

    /// Ends the attempt for both ends: whoever waits here returns [`Closed`].
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner
            .queues
            .iter_mut()
            .for_each(|queue| queue.items.clear());
        self.readable.notify_all();
        self.writable.iter().for_each(Condvar::notify_all);
    }

    /// The next message or item, if there is one. Leaves channels alone that `is_blocked`.
    pub(crate) fn poll(
        &self,
        is_blocked: impl Fn(usize) -> bool,
    ) -> Result<Option<Received<C>>, Closed> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Closed);
        }
        if let Some(message) = inner.control.pop_front() {
            return Ok(Some(Received::Control(message)));
        }
        let count = inner.queues.len();
        for offset in 0..count {
            let channel = (inner.next + offset) % count;
            if is_blocked(channel) {
                continue;
            }
            let items = &mut inner.queues[channel].items;
            let Some(item) = items.pop_front() else {
                continue;
            };
            // A sender that waits is woken when half of the queue is free, not for each item.
            if items.len() == self.capacity / 2 {
                self.writable[channel].notify_one();
            }
            inner.next = channel + 1;
            return Ok(Some(Received::Item { channel, item }));
        }
        Ok(None)
    }

    /// Waits until [`poll`](Self::poll) would find something, or until `until`.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        now: impl Fn() -> Instant,
        is_blocked: impl Fn(usize) -> bool,
    ) -> Result<(), Closed> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return Err(Closed);
            }
            let is_readable =
                |(channel, queue): (usize, &Queue)| !queue.items.is_empty() && !is_blocked(channel);
            if !inner.control.is_empty() || inner.queues.iter().enumerate().any(is_readable) {
                return Ok(());
            }
            inner = match until {
                None => self
                    .readable
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    self.readable
                        .wait_timeout(inner, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Gives an emptied batch back to the sender of `channel`.
    pub(crate) fn recycle(&self, channel: usize, batch: AnyBatch) {
        let spare = &mut self.lock().queues[channel].spare;
        if spare.len() < self.capacity {
            spare.push(batch);
        }
    }

    /// How many items wait in each channel.
    #[cfg(test)]
    fn depths(&self) -> Vec<usize> {
        self.lock()
            .queues
            .iter()
            .map(|queue| queue.items.len())
            .collect()
    }

    /// A panic elsewhere is reported by the task that panicked; the queue itself stays whole.
    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end of one channel.
pub(crate) struct Sender<C> {
    gate: Arc<Gate<C>>,
    channel: usize,
}

impl<C> Sender<C> {
    /// Sends `item`, waiting while the channel is full. Gives back an emptied batch to fill next.
    pub(crate) fn send(&self, item: Item) -> Result<Option<AnyBatch>, Closed> {
        let gate = &*self.gate;
        let mut inner = gate.lock();
        while !inner.closed && inner.queues[self.channel].items.len() >= gate.capacity {
            inner = gate.writable[self.channel]
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if inner.closed {
            return Err(Closed);
        }
        let queue = &mut inner.queues[self.channel];
        queue.items.push_back(item);
        let spare = queue.spare.pop();
        gate.readable.notify_one();
        Ok(spare)
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "two ends of a channel need two threads"
)]
mod tests {
    use super::*;

    fn batch(value: u64) -> Item {
        Item::Batch(Box::new(Batch(vec![value])))
    }

    fn value(received: Option<Received<u8>>) -> (usize, u64) {
        let Some(Received::Item {
            channel,
            item: Item::Batch(batch),
        }) = received
        else {
            panic!("expected a batch");
        };
        (channel, batch.downcast::<Batch<u64>>().unwrap().0[0])
    }

    #[test]
    fn a_blocked_channel_stays_unread_while_others_go_on() {
        let gate = Gate::<u8>::new(2, 4);
        let (a, b) = (gate.sender(0), gate.sender(1));
        for i in 0..3 {
            a.send(batch(i)).unwrap();
            b.send(batch(10 + i)).unwrap();
        }
        for i in 0..3 {
            assert_eq!(
                value(gate.poll(|channel| channel == 0).unwrap()),
                (1, 10 + i)
            );
        }
        assert!(gate.poll(|channel| channel == 0).unwrap().is_none());
        assert_eq!(gate.depths(), [3, 0]);
        assert_eq!(value(gate.poll(|_| false).unwrap()), (0, 0));
    }

    #[test]
    fn a_full_channel_makes_its_sender_wait_and_loses_nothing() {
        let gate = Gate::<u8>::new(1, 2);
        let sender = gate.sender(0);
        let writer =
            std::thread::spawn(move || (0..1000).try_for_each(|i| sender.send(batch(i)).map(drop)));
        for i in 0..1000 {
            gate.wait(None, Instant::now, |_| false).unwrap();
            assert!(gate.depths()[0] <= 2);
            assert_eq!(value(gate.poll(|_| false).unwrap()), (0, i));
        }
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn closing_wakes_a_sender_that_waits_and_a_receiver_that_waits() {
        let gate = Gate::<u8>::new(1, 1);
        let sender = gate.sender(0);
        sender.send(batch(0)).unwrap();
        let writer = std::thread::spawn(move || sender.send(batch(1)).map(drop));
        let reader = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.wait(None, Instant::now, |_| true)
        });
        gate.close();
        assert_eq!(writer.join().unwrap(), Err(Closed));
        assert_eq!(reader.join().unwrap(), Err(Closed));
    }

    #[test]
    fn messages_overtake_items() {
        let gate = Gate::<u8>::new(1, 1);
        gate.sender(0).send(batch(0)).unwrap();
        gate.tell(7);
        assert!(matches!(
            gate.poll(|_| false).unwrap(),
            Some(Received::Control(7))
        ));
    }

    #[test]
    fn an_emptied_batch_comes_back_to_its_sender() {
        let gate = Gate::<u8>::new(1, 4);
        let sender = gate.sender(0);
        assert!(sender.send(batch(0)).unwrap().is_none());
        let Some(Received::Item {
            item: Item::Batch(emptied),
            ..
        }) = gate.poll(|_| false).unwrap()
        else {
            panic!("expected a batch");
        };
        gate.recycle(0, emptied);
        assert!(sender.send(batch(1)).unwrap().is_some());
    }
}
