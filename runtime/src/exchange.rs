//! Edges between tasks: which channel a record takes.
//!
//! A keyed edge computes the key and its hash once and sends both along: the hash picks the key
//! group, the subtask and later the table slot. Full batches leave at once, half-filled ones when
//! the task is visited for a flush.

use std::sync::Arc;

use cutwater_keygroups::{Assignment, Key, KeyHash};

use crate::{
    channel::{Batch, Item, Sender},
    outlets::Backlog,
    stage::{Stage, TaskResult, Visit},
    task::{Control, TaskContext},
};

/// A record of a keyed edge, with its key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, T> {
    pub(crate) hash: KeyHash,
    pub(crate) key: K,
    pub(crate) record: T,
}

/// The outgoing channels of one edge of one subtask, one per target subtask.
pub(crate) struct Outputs<T> {
    lanes: Vec<Lane<T>>,
    batch_size: usize,
    backlog: Backlog,
}

struct Lane<T> {
    sender: Sender<Control>,
    open: Box<Batch<T>>,
    /// Records at which the open batch leaves: fewer if few may wait in the channel.
    full: usize,
}

impl<T: Send + 'static> Outputs<T> {
    pub(crate) fn new(senders: Vec<Sender<Control>>, context: &TaskContext) -> Self {
        let batch_size = context.batch_size();
        let lanes = senders
            .into_iter()
            .map(|sender| Lane {
                sender,
                open: Box::new(Batch(Vec::with_capacity(batch_size))),
                full: batch_size,
            })
            .collect();
        Self {
            lanes,
            batch_size,
            backlog: context.backlog.clone(),
        }
    }

    #[inline]
    fn push(&mut self, target: usize, record: T) -> TaskResult {
        let lane = &mut self.lanes[target];
        lane.open.0.push(record);
        if lane.open.0.len() >= lane.full {
            lane.send_open(self.batch_size, &self.backlog)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> TaskResult {
        self.lanes
            .iter_mut()
            .try_for_each(|lane| lane.send_open(self.batch_size, &self.backlog))
    }

    /// Sends what is not a record behind all records, also those of half-filled batches. A barrier
    /// that overtakes finds them in the channel, where its receiver captures them.
    fn send_all(&mut self, item: impl Fn() -> Item) -> TaskResult {
        self.flush()?;
        for lane in &self.lanes {
            lane.sender.send(item())?;
        }
        Ok(())
    }

    /// Every edge does the same with what is not a record.
    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match visit {
            Visit::Flush => self.flush(),
            Visit::Barrier(barrier) => self.send_all(|| Item::Barrier(*barrier)),
            Visit::Cancel(checkpoint) => self.send_all(|| Item::Cancel(*checkpoint)),
            Visit::EndOfData => self.send_all(|| Item::EndOfData),
            Visit::Probe(probe) => self.send_all(|| Item::Probe(*probe)),
            Visit::Timers(_)
            | Visit::Snapshot(_)
            | Visit::Completed(_)
            | Visit::Aborted(_)
            | Visit::Released(_) => Ok(()),
        }
    }
}

impl<T: Send + 'static> Lane<T> {
    fn send_open(&mut self, batch_size: usize, backlog: &Backlog) -> TaskResult {
        let records = self.open.0.len();
        if records == 0 {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.open, Box::new(Batch(Vec::new())));
        let sent = self.sender.send(Item::Batch { batch, records })?;
        if sent.is_full {
            backlog.set();
        }
        // Two batches in a channel keep both of its ends busy.
        self.full = (sent.records_max / 2).clamp(1, batch_size);
        match sent.spare.and_then(|spare| spare.downcast().ok()) {
            Some(emptied) => self.open = emptied,
            None => self.open.0.reserve(self.full),
        }
        Ok(())
    }
}

/// Sends each record to the subtask that owns its key's group.
pub(crate) struct KeyExchange<K, T, F> {
    key_of: Arc<F>,
    assignment: Assignment,
    outputs: Outputs<Keyed<K, T>>,
}

impl<K: Key, T, F> KeyExchange<K, T, F> {
    pub(crate) fn new(
        key_of: Arc<F>,
        assignment: Assignment,
        outputs: Outputs<Keyed<K, T>>,
    ) -> Self {
        Self {
            key_of,
            assignment,
            outputs,
        }
    }
}

impl<K: Key, T: Send + 'static, F: Fn(&T) -> K> Stage<T> for KeyExchange<K, T, F> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        let max_parallelism = self.assignment.max_parallelism();
        for record in batch.drain(..) {
            let key = (self.key_of)(&record);
            let hash = key.key_hash();
            let target = self
                .assignment
                .owner(K::GROUPING.group(hash, max_parallelism));
            self.outputs
                .push(usize::from(target), Keyed { hash, key, record })?;
        }
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.outputs.visit(visit)
    }
}

/// Sends each record to every subtask.
pub(crate) struct BroadcastExchange<T>(pub(crate) Outputs<T>);

impl<T: Clone + Send + 'static> Stage<T> for BroadcastExchange<T> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        for record in batch.drain(..) {
            for target in 1..self.0.lanes.len() {
                self.0.push(target, record.clone())?;
            }
            self.0.push(0, record)?;
        }
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.visit(visit)
    }
}

/// Sends a batch to each channel in turn. With one channel this is a forward edge.
pub(crate) struct RoundRobinExchange<T> {
    next: usize,
    outputs: Outputs<T>,
}

impl<T: Send + 'static> RoundRobinExchange<T> {
    /// Subtasks start at different targets, so that short streams spread as well.
    pub(crate) fn new(outputs: Outputs<T>, subtask: u16) -> Self {
        let next = usize::from(subtask) % outputs.lanes.len();
        Self { next, outputs }
    }
}

impl<T: Send + 'static> Stage<T> for RoundRobinExchange<T> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        for record in batch.drain(..) {
            self.outputs.push(self.next, record)?;
        }
        self.next = (self.next + 1) % self.outputs.lanes.len();
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.outputs.visit(visit)
    }
}
