//! Recycled slot buffers: a snapshot's writer gives back what the task copied, for the next copies.
//!
//! A copy into fresh memory faults page by page, which made the first writes after a snapshot many
//! times slower than copying into buffers used before. The price is that after a snapshot a table
//! keeps the memory of the regions that were copied during it.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use super::slots::{Slots, empty_slots};

/// The task's half.
#[derive(Debug)]
pub(crate) struct Recycle<K, V> {
    /// Buffers at hand, empty, all with room for a region of full size.
    spare: Vec<Slots<K, V>>,
    returned: Arc<Mutex<Vec<Slots<K, V>>>>,
    slots: usize,
}

/// The snapshot writer's half.
#[derive(Debug)]
pub(crate) struct Returned<K, V> {
    buffers: Arc<Mutex<Vec<Slots<K, V>>>>,
    slots: usize,
}

impl<K, V> Returned<K, V> {
    /// Lets go of a region; if the task has its own copy by now, this buffer is free for the next.
    pub(crate) fn done_with(&self, shared: Arc<Slots<K, V>>) {
        if let Some(mut slots) = Arc::into_inner(shared)
            && slots.capacity() == self.slots
        {
            slots.clear(); // here, not in the task's thread
            self.buffers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(slots);
        }
    }
}

impl<K: Clone, V: Clone> Recycle<K, V> {
    /// Recycles buffers of `slots` slots; smaller and larger ones are rare and are not kept.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            spare: Vec::new(),
            returned: Arc::default(),
            slots,
        }
    }

    /// For the writer of a snapshot.
    pub(crate) fn returned(&self) -> Returned<K, V> {
        Returned {
            buffers: Arc::clone(&self.returned),
            slots: self.slots,
        }
    }

    /// `count` empty slots.
    pub(crate) fn empty(&mut self, count: usize) -> Slots<K, V> {
        match self.spare_of(count) {
            Some(mut slots) => {
                slots.resize_with(count, || None);
                slots
            }
            None => empty_slots(count),
        }
    }

    /// Keeps a buffer for later.
    pub(crate) fn keep(&mut self, mut slots: Slots<K, V>) {
        if slots.capacity() == self.slots {
            slots.clear();
            self.spare.push(slots);
        }
    }

    /// A copy for the task alone.
    pub(crate) fn copy(&mut self, slots: &Slots<K, V>) -> Slots<K, V> {
        let spare = self.spare_of(slots.len());
        let mut copy = spare.unwrap_or_else(|| Vec::with_capacity(slots.len()));
        copy.extend_from_slice(slots); // `clone_from_slice` would go one by one
        copy
    }

    /// Lets go of slots that have been copied. Usually a snapshot still reads them, and then this
    /// does nothing else.
    pub(crate) fn done_with(&mut self, shared: Arc<Slots<K, V>>) {
        if let Some(slots) = Arc::into_inner(shared) {
            self.keep(slots);
        }
    }

    fn spare_of(&mut self, count: usize) -> Option<Slots<K, V>> {
        if count != self.slots {
            return None;
        }
        if self.spare.is_empty() {
            let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut self.spare, &mut returned);
        }
        self.spare.pop()
    }
}
