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
    /// Buffers at hand, all of the same full size. What is inside is stale.
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
            && slots.len() == self.slots
        {
            if mem::needs_drop::<(K, V)>() {
                slots.fill_with(|| None); // here, not in the task's thread
            }
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
                slots.fill_with(|| None);
                slots
            }
            None => empty_slots(count),
        }
    }

    /// Keeps a buffer for later.
    pub(crate) fn keep(&mut self, slots: Slots<K, V>) {
        if slots.len() == self.slots {
            self.spare.push(slots);
        }
    }

    /// Slots for the task alone: those shared ones, if no snapshot reads them any more, or else a
    /// copy.
    pub(crate) fn take_back(&mut self, shared: Arc<Slots<K, V>>) -> Slots<K, V> {
        Arc::try_unwrap(shared).unwrap_or_else(|shared| {
            let copy = match self.spare_of(shared.len()) {
                Some(mut slots) => {
                    slots.clone_from_slice(&shared);
                    slots
                }
                None => Slots::clone(&shared),
            };
            self.keep_if_last(shared);
            copy
        })
    }

    fn keep_if_last(&mut self, shared: Arc<Slots<K, V>>) {
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
