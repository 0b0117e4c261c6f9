//! The entries of a block in memory, and buffers that are used again.
//!
//! A copy into fresh memory faults page by page, which made the first writes after a snapshot many
//! times slower than copying into buffers used before. The price is that after a snapshot a table
//! keeps the memory of the blocks that were copied during it.

use std::{mem, sync::PoisonError};

use super::sync::{Arc, Mutex, MutexGuard, UnsafeCell};

/// Entries that are read by anybody, or written by one: which of both, the users of this know.
#[derive(Debug)]
pub(super) struct Buffer<K, V> {
    entries: UnsafeCell<Vec<(K, V)>>,
}

// SAFETY: shared, it lends `&(K, V)` to several threads, and `&mut (K, V)` to one of them at a time
// under the promise of `write`.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Buffer<K, V> {}

impl<K, V> Buffer<K, V> {
    pub(super) fn new(entries: Vec<(K, V)>) -> Arc<Self> {
        Arc::new(Self {
            entries: UnsafeCell::new(entries),
        })
    }

    /// # Safety
    ///
    /// Nobody calls `write` until `f` has returned, and what others wrote before is visible here.
    pub(super) unsafe fn read<R>(&self, f: impl FnOnce(&[(K, V)]) -> R) -> R {
        // SAFETY: promised by the caller.
        self.entries.with(|entries| f(unsafe { &*entries }))
    }

    /// # Safety
    ///
    /// Nobody calls `read` or `write` until `f` has returned, or uses what it has left a pointer to.
    #[inline]
    pub(super) unsafe fn write<R>(&self, f: impl FnOnce(&mut Vec<(K, V)>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.entries.with_mut(|entries| f(unsafe { &mut *entries }))
    }

    fn only_mine<R>(&mut self, f: impl FnOnce(&mut Vec<(K, V)>) -> R) -> R {
        // SAFETY: borrowed exclusively.
        unsafe { self.write(f) }
    }
}

/// Buffers to use again: the task's half.
#[derive(Debug)]
pub(super) struct Recycle<K, V> {
    /// Empty, and referred to from nowhere else.
    spare: Vec<Arc<Buffer<K, V>>>,
    returned: Arc<Returned<K, V>>,
}

/// The half of snapshots' writers.
#[derive(Debug)]
pub(super) struct Returned<K, V> {
    buffers: Mutex<Vec<Arc<Buffer<K, V>>>>,
    /// Entries for which a buffer must have room to be kept.
    capacity: usize,
}

impl<K, V> Recycle<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            spare: Vec::new(),
            returned: Arc::new(Returned {
                buffers: Mutex::default(),
                capacity,
            }),
        }
    }

    pub(super) fn returned(&self) -> Arc<Returned<K, V>> {
        Arc::clone(&self.returned)
    }

    /// A copy that nobody else refers to.
    pub(super) fn copy(&mut self, entries: &[(K, V)]) -> Arc<Buffer<K, V>>
    where
        K: Clone,
        V: Clone,
    {
        let capacity = self.returned.capacity;
        if 2 * entries.len() < capacity {
            return Buffer::new(entries.to_vec()); // few, or not for long
        }
        let mut copy = self
            .spare()
            .unwrap_or_else(|| Buffer::new(Vec::with_capacity(capacity)));
        let buffer = Arc::get_mut(&mut copy).expect("a spare one is referred to from nowhere else");
        buffer.only_mine(|copy| copy.extend_from_slice(entries));
        copy
    }

    /// Lets go of a copy.
    pub(super) fn done_with(&self, copy: Arc<Buffer<K, V>>) {
        self.returned.done_with(copy);
    }

    fn spare(&mut self) -> Option<Arc<Buffer<K, V>>> {
        if self.spare.is_empty() {
            let mut returned = self.returned.buffers();
            mem::swap(&mut self.spare, &mut returned);
        }
        self.spare.pop()
    }
}

impl<K, V> Returned<K, V> {
    /// Lets go of a buffer, which is kept if nobody else refers to it.
    pub(super) fn done_with(&self, mut shared: Arc<Buffer<K, V>>) {
        if let Some(buffer) = Arc::get_mut(&mut shared) {
            let capacity = buffer.only_mine(|entries| {
                entries.clear(); // here, not in the task's thread
                entries.capacity()
            });
            if capacity >= self.capacity {
                self.buffers().push(shared);
            }
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Arc<Buffer<K, V>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
