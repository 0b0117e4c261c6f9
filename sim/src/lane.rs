//! One channel between two tasks: bounded, in order, with a side lane for barriers that overtake.
//!
//! ```text
//!   sender's batch ──▶ items: r r r |7| r r ──▶ receiver
//!                      notes: 7 ──────────────▶ receiver, as soon as it looks
//! ```
//!
//! A barrier that overtakes is put behind everything that was sent before it, which is its *place*,
//! and a note of it goes ahead. What it has overtaken is what lies before its place.

use std::collections::VecDeque;

use cutwater_barrier::{Barrier, CheckpointId};

use crate::record::{Item, Record};

#[derive(Debug, Default)]
pub(crate) struct Lane {
    items: VecDeque<Item>,
    notes: VecDeque<Barrier>,
    /// What was sent and has no room yet, a half-filled batch at most.
    batch: VecDeque<Item>,
    /// How many barriers have overtaken since the channel was within its bound.
    overtakes: usize,
}

impl Lane {
    /// Adds to the sender's batch.
    pub(crate) fn send(&mut self, item: Item) {
        self.batch.push_back(item);
    }

    /// How much waits for room.
    pub(crate) fn batched(&self) -> usize {
        self.batch.len()
    }

    /// Moves what there is room for. Whether that was anything.
    pub(crate) fn flush(&mut self, capacity: usize) -> bool {
        let mut moved = false;
        while self.items.len() < capacity
            && let Some(item) = self.batch.pop_front()
        {
            self.items.push_back(item);
            moved = true;
        }
        moved
    }

    /// Checks that nobody sends more than there is room for. A barrier that overtakes takes a batch
    /// along beyond the channel's bound.
    pub(crate) fn check_bound(&mut self, capacity: usize, batch: usize) {
        if self.len() <= capacity {
            self.overtakes = 0;
        } else if self.len() > capacity + batch {
            let records = self.records().count();
            assert!(
                records <= capacity + batch * (1 + self.overtakes),
                "a channel for {capacity} records in batches of {batch} holds {records}"
            );
        }
    }

    /// Sends a barrier that overtakes, or may later: its place is behind the batch.
    pub(crate) fn announce(&mut self, barrier: Barrier) {
        self.batch.push_back(Item::Barrier(barrier));
        self.notes.push_back(barrier);
        self.overtakes += 1;
    }

    /// The oldest note, if there is one.
    pub(crate) fn read_note(&mut self) -> Option<Barrier> {
        self.notes.pop_front()
    }

    pub(crate) fn has_note(&self) -> bool {
        !self.notes.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&Item> {
        self.items.front()
    }

    /// The next item. A barrier that is read at its place needs no note any more.
    pub(crate) fn read(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        if let Item::Barrier(barrier) = item {
            self.notes
                .retain(|note| note.checkpoint != barrier.checkpoint);
        }
        Some(item)
    }

    /// The records before the place of `checkpoint`'s barrier, which is taken out. The records stay.
    pub(crate) fn capture(&mut self, checkpoint: CheckpointId) -> Vec<Record> {
        if self.flush(usize::MAX) {
            self.overtakes += 1; // The barrier was still waiting for room, like any other.
        }
        let is_it = |item: &Item| matches!(item, Item::Barrier(b) if b.checkpoint == checkpoint);
        let place = self.items.iter().position(is_it);
        let place =
            place.expect("an announced barrier keeps its place until it is read or captured");
        self.items.remove(place);
        records(self.items.iter().take(place)).collect()
    }

    /// Every record that was sent and not read.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        records(self.items.iter().chain(&self.batch))
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() + self.batch.len()
    }
}

fn records<'a>(items: impl Iterator<Item = &'a Item>) -> impl Iterator<Item = Record> {
    items.filter_map(|item| match item {
        Item::Record(record) => Some(*record),
        _ => None,
    })
}
