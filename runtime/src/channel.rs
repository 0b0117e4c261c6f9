//! The bounded FIFO channels between tasks, all those of one receiving task behind one gate.
//!
//! ```text
//!   exchange of A.0 ──channel 0──▶ ┐
//!   exchange of A.1 ──channel 1──▶ ├─ Gate of B.0 ──▶ the task's loop
//!        barriers ────side lane──▶ │
//!   coordinator ────control──────▶ ┘
//! ```
//!
//! A channel carries batches, so the lock is taken once per batch, not per record. Emptied batches
//! go back to their sender, so a running job allocates none.
//!
//! Nobody waits inside `send`: a task that has filled a channel finishes what it is at, and takes no
//! new input until there is room again (back-pressure). So a channel holds at most its capacity and
//! what one step of its sender emits, and a task is always there for a barrier that overtakes.
//!
//! Invariants: items of one channel are received in the order they were sent; control messages and
//! the side lane overtake them. A barrier stands in its channel also when it is announced in the side
//! lane, because its place tells which records it overtook.

mod admission;
mod sender;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use cutwater_barrier::{Barrier, CheckpointId, align::Input};

use admission::Admission;
pub(crate) use sender::Sender;

use crate::probe::Probe;

/// What travels in a channel, in order.
pub(crate) enum Item {
    /// A [`Batch`] of the edge's record type.
    Batch { batch: AnyBatch, records: usize },
    /// Everything before it belongs to the barrier's checkpoint.
    Barrier(Barrier),
    /// The checkpoint was given up upstream: do not wait for its barrier.
    Cancel(CheckpointId),
    /// No more records will come. Barriers still may.
    EndOfData,
    /// Is the loop empty?
    Probe(Probe),
}

/// Records of one edge. A type of its own, so that it can be erased and found again.
pub(crate) struct Batch<T>(pub(crate) Vec<T>);

/// A `Box<Batch<T>>` whose `T` only the two ends of the edge know.
pub(crate) type AnyBatch = Box<dyn Any + Send>;

/// The attempt is over: stop what you are doing, nobody is at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Closed;

/// How much may wait in each channel of a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) batches: usize,
    pub(crate) records: usize,
}

/// The receiving end of all channels of one task, and its mailbox for messages of type `C`.
pub(crate) struct Gate<C> {
    batches_max: usize,
    /// Adapted to the pace of the receiver while the job runs.
    records_max: AtomicUsize,
    inner: Mutex<Inner<C>>,
    changed: Condvar,
}

struct Inner<C> {
    queues: Vec<Queue<C>>,
    admission: Admission,
    control: VecDeque<C>,
    /// Barriers that came ahead of the records before them, and their channels.
    side: VecDeque<(usize, Barrier)>,
    /// Another gate has room again for what this gate's task sends.
    has_room: bool,
    closed: bool,
    /// Where the next search starts, so that no channel starves.
    next: usize,
    /// How many restored batches are unread. They come before everything else.
    restored: usize,
}

struct Queue<C> {
    input: Input,
    items: VecDeque<Item>,
    batches: usize,
    records: usize,
    /// How many of the first items were restored from a checkpoint.
    restored: usize,
    spare: Vec<AnyBatch>,
    /// The gate of a sender that found this channel full.
    waiting: Option<Arc<Gate<C>>>,
}

/// Which items a task is ready for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wanted {
    /// It has a batch in hand.
    None,
    /// It has no room for what records would make it send. Barriers and the like always have.
    Marks,
    All,
}

/// What a task found at its gate.
pub(crate) enum Received<C> {
    Control(C),
    /// A barrier ahead of the records it was sent behind; it keeps its place among them.
    Overtook {
        channel: usize,
        barrier: Barrier,
    },
    Item {
        channel: usize,
        item: Item,
    },
}

impl<C> Gate<C> {
    /// A gate with a channel for each input.
    pub(crate) fn new(inputs: impl IntoIterator<Item = Input>, capacity: Capacity) -> Arc<Self> {
        let queue = |input| Queue {
            input,
            items: VecDeque::new(),
            batches: 0,
            records: 0,
            restored: 0,
            spare: Vec::new(),
            waiting: None,
        };
        let queues: Vec<_> = inputs.into_iter().map(queue).collect();
        Arc::new(Self {
            batches_max: capacity.batches.max(1),
            records_max: AtomicUsize::new(capacity.records.max(1)),
            inner: Mutex::new(Inner {
                admission: Admission::new(&queues),
                queues,
                control: VecDeque::new(),
                side: VecDeque::new(),
                has_room: false,
                closed: false,
                next: 0,
                restored: 0,
            }),
            changed: Condvar::new(),
        })
    }

    /// Lets at most `records` wait in each channel from now on.
    pub(crate) fn limit(&self, records: usize) {
        self.records_max.store(records.max(1), Ordering::Relaxed);
    }

    /// Leaves a message in the mailbox. Never waits; lost if the gate is closed.
    pub(crate) fn tell(&self, message: C) {
        let mut inner = self.lock();
        if !inner.closed {
            inner.control.push_back(message);
            self.changed.notify_one();
        }
    }

    /// Ends the attempt for both ends: whoever waits here returns [`Closed`].
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        for queue in &mut inner.queues {
            queue.items.clear();
            queue.waiting = None;
        }
        self.changed.notify_all();
    }

    /// What is in the channels was restored from a checkpoint: it is read before anything new.
    pub(crate) fn mark_restored(&self) {
        let inner = &mut *self.lock();
        for queue in &mut inner.queues {
            queue.restored = queue.items.len();
            inner.restored += queue.restored;
        }
    }

    /// The next message, or item of those `wanted`, if there is one. Leaves channels alone that
    /// `is_blocked`.
    pub(crate) fn poll(
        &self,
        wanted: Wanted,
        is_blocked: impl Fn(usize) -> bool,
    ) -> Result<Option<Received<C>>, Closed> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Closed);
        }
        if let Some(message) = inner.control.pop_front() {
            return Ok(Some(Received::Control(message)));
        }
        if let Some((channel, barrier)) = inner.side.pop_front() {
            return Ok(Some(Received::Overtook { channel, barrier }));
        }
        let Some(channel) = self.readable(&inner, wanted, is_blocked) else {
            return Ok(None);
        };
        inner.next = channel + 1;
        let item = inner.take(channel).expect("it is readable");
        let waiting = self.made_room(&mut inner, channel);
        drop(inner); // never two gates at once
        waiting.iter().for_each(|sender| sender.room());
        Ok(Some(Received::Item { channel, item }))
    }

    /// Waits until [`poll`](Self::poll) would find something, another gate has room again, or `until`.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        now: impl Fn() -> Instant,
        wanted: Wanted,
        is_blocked: impl Fn(usize) -> bool,
    ) -> Result<(), Closed> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return Err(Closed);
            }
            let is_called = !inner.control.is_empty() || !inner.side.is_empty() || inner.has_room;
            if is_called || self.readable(&inner, wanted, &is_blocked).is_some() {
                inner.has_room = false;
                return Ok(());
            }
            inner = match until {
                None => self
                    .changed
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    self.changed
                        .wait_timeout(inner, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Takes the barrier of `checkpoint` out of `channel`, and shows the batches that it overtook to
    /// `capture`, in order. They stay where they are.
    pub(crate) fn capture(
        &self,
        channel: usize,
        checkpoint: CheckpointId,
        capture: impl FnMut(&AnyBatch),
    ) {
        let mut inner = self.lock();
        let items = &mut inner.queues[channel].items;
        let is_it = |item: &Item| matches!(item, Item::Barrier(b) if b.checkpoint == checkpoint);
        let Some(place) = items.iter().position(is_it) else {
            return; // The attempt has ended meanwhile, and its channels are empty.
        };
        let mut overtaken: VecDeque<Item> = items.drain(..place).collect();
        items.pop_front();
        drop(inner); // Copying may take its time; only this task reads, so nobody misses them.
        overtaken
            .iter()
            .filter_map(|item| match item {
                Item::Batch { batch, .. } => Some(batch),
                _ => None,
            })
            .for_each(capture);
        let mut inner = self.lock();
        let items = &mut inner.queues[channel].items;
        overtaken.append(items);
        *items = overtaken;
    }

    /// Gives an emptied batch back to the sender of `channel`.
    pub(crate) fn recycle(&self, channel: usize, batch: AnyBatch) {
        let spare = &mut self.lock().queues[channel].spare;
        if spare.len() < self.batches_max {
            spare.push(batch);
        }
    }

    /// The channel to read next.
    fn readable(
        &self,
        inner: &Inner<C>,
        wanted: Wanted,
        is_blocked: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let count = inner.queues.len();
        let is_loop_full = self.is_loop_full(inner);
        (inner.next..inner.next + count)
            .map(|channel| channel % count)
            .find(|&channel| {
                let queue = &inner.queues[channel];
                let has_turn = if inner.restored > 0 {
                    queue.restored > 0
                } else {
                    !is_loop_full || queue.is_admitted()
                };
                has_turn && queue.has(wanted) && !is_blocked(channel)
            })
    }

    /// Who waits for room that there is now that an item of `channel` was taken. A channel tells its
    /// sender once half of it is free, not for each item; a loop tells all who send into it.
    fn made_room(&self, inner: &mut Inner<C>, channel: usize) -> Vec<Arc<Self>> {
        if self.is_loop_full(inner) {
            return Vec::new();
        }
        let freed = match inner.queues[channel].input {
            Input::Feedback => &mut inner.queues,
            _ => &mut inner.queues[channel..=channel],
        };
        freed
            .iter_mut()
            .filter(|queue| !self.is_over(2 * queue.batches, 2 * queue.records))
            .filter_map(|queue| queue.waiting.take())
            .collect()
    }

    fn room(&self) {
        self.lock().has_room = true;
        self.changed.notify_one();
    }

    /// Whether its sender has to wait; that of a way back never does.
    fn is_full(&self, inner: &Inner<C>, channel: usize) -> bool {
        let queue = &inner.queues[channel];
        queue.input != Input::Feedback
            && (self.is_over(queue.batches, queue.records) || self.is_loop_full(inner))
    }

    fn is_over(&self, batches: usize, records: usize) -> bool {
        batches >= self.batches_max || records >= self.records_max.load(Ordering::Relaxed)
    }

    /// A panic elsewhere is reported by the task that panicked; the queue itself stays whole.
    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Queue<C> {
    fn has(&self, wanted: Wanted) -> bool {
        match (wanted, self.items.front()) {
            (Wanted::None, _) | (_, None) => false,
            (Wanted::Marks, Some(item)) => !matches!(item, Item::Batch { .. }),
            (Wanted::All, Some(_)) => true,
        }
    }
}

impl<C> Inner<C> {
    fn take(&mut self, channel: usize) -> Option<Item> {
        let queue = &mut self.queues[channel];
        let item = queue.items.pop_front()?;
        if let Item::Batch { records, .. } = item {
            queue.batches -= 1;
            queue.records -= records;
        }
        if queue.restored > 0 {
            queue.restored -= 1;
            self.restored -= 1;
        }
        Some(item)
    }
}
