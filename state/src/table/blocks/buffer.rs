//! The entries of a block in memory, and buffers that are used again.
//!
//! A copy into fresh memory faults page by page, which made the first writes after a snapshot many
//! times slower than copying into buffers used before. The price is that after a snapshot a table
//! keeps the memory of the blocks that were copied during it.

use std::{ptr::NonNull, sync::PoisonError};

use super::{
    kept::Kept,
    slabs::{SlabVec, Slabs},
    sync::{Arc, Mutex, MutexGuard, UnsafeCell},
};

/// The entries of a block.
pub(crate) type Entries<K, V> = SlabVec<(K, V)>;

/// Entries that are read by anybody, or written by one: which of both, the users of this know.
#[derive(Debug)]
pub(super) struct Buffer<K, V> {
    entries: UnsafeCell<Entries<K, V>>,
}

// SAFETY: shared, it lends `&(K, V)` to several threads, and `&mut (K, V)` to one of them at a time
// under the promise of `write`.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Buffer<K, V> {}

impl<K, V> Buffer<K, V> {
    pub(super) fn new(entries: Entries<K, V>) -> Arc<Self> {
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
    pub(super) unsafe fn write<R>(&self, f: impl FnOnce(&mut Entries<K, V>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.entries.with_mut(|entries| f(unsafe { &mut *entries }))
    }

    fn only_mine<R>(&mut self, f: impl FnOnce(&mut Entries<K, V>) -> R) -> R {
        // SAFETY: borrowed exclusively.
        unsafe { self.write(f) }
    }
}

/// Buffers to use again, of one thread: the task and each writer have their own, and share the rest.
#[derive(Debug)]
pub(super) struct Recycle<K, V> {
    /// Empty, and referred to from nowhere else.
    spare: Buffers<K, V>,
    shared: Arc<Mutex<Buffers<K, V>>>,
    /// Entries for which a buffer must have room to be kept.
    capacity: usize,
    slabs: Slabs,
}

type Buffers<K, V> = Vec<Arc<Buffer<K, V>>>;

/// So many are taken from the shared ones, or added to them, at once.
const TOGETHER: usize = 32;

impl<K, V> Recycle<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            spare: Vec::new(),
            shared: Arc::new(Mutex::new(Vec::new())),
            capacity,
            slabs: Slabs::new(),
        }
    }

    /// Where its buffers have their entries.
    pub(super) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// For another thread.
    pub(super) fn another(&self) -> Self {
        Self {
            spare: Vec::new(),
            shared: Arc::clone(&self.shared),
            capacity: self.capacity,
            slabs: self.slabs.clone(),
        }
    }

    /// A copy that nobody else refers to.
    pub(super) fn copy(&mut self, entries: &[(K, V)]) -> Arc<Buffer<K, V>>
    where
        K: Clone,
        V: Clone,
    {
        if 2 * entries.len() < self.capacity {
            return self.fresh(entries.len(), entries); // few, or not for long
        }
        let Some(mut copy) = self.spare() else {
            return self.fresh(self.capacity, entries);
        };
        let buffer = Arc::get_mut(&mut copy).expect("a spare one is referred to from nowhere else");
        buffer.only_mine(|copy| clone_onto(entries, copy));
        copy
    }

    /// A copy that nobody else refers to, with the values that were `kept` in their places.
    ///
    /// # Safety
    ///
    /// As for [`Kept::put_back`]; and it is still there.
    pub(super) unsafe fn copy_with(
        &mut self,
        entries: &[(K, V)],
        kept: Option<NonNull<Kept<V>>>,
    ) -> Arc<Buffer<K, V>>
    where
        K: Clone,
        V: Clone,
    {
        let mut copy = self.copy(entries);
        if let Some(kept) = kept {
            let buffer = Arc::get_mut(&mut copy).expect("just made");
            // SAFETY: promised by the caller.
            buffer.only_mine(|entries| unsafe { kept.as_ref().put_back(entries) });
        }
        copy
    }

    fn fresh(&self, capacity: usize, entries: &[(K, V)]) -> Arc<Buffer<K, V>>
    where
        K: Clone,
        V: Clone,
    {
        let mut copy = Entries::with_capacity_in(capacity, self.slabs.clone());
        clone_onto(entries, &mut copy);
        Buffer::new(copy)
    }

    /// Lets go of a buffer, which is kept if nobody else refers to it.
    pub(super) fn done_with(&mut self, mut buffer: Arc<Buffer<K, V>>) {
        let Some(mine) = Arc::get_mut(&mut buffer) else {
            return;
        };
        let capacity = mine.only_mine(|entries| {
            entries.clear(); // a user's `drop`: in the thread that is done, and without a lock
            entries.capacity()
        });
        if capacity >= self.capacity {
            self.spare.push(buffer);
            if self.spare.len() >= 2 * TOGETHER {
                let more = self.spare.drain(TOGETHER..);
                lock(&self.shared).extend(more);
            }
        }
    }

    fn spare(&mut self) -> Option<Arc<Buffer<K, V>>> {
        if self.spare.is_empty() {
            let mut shared = lock(&self.shared);
            let rest = shared.len().saturating_sub(TOGETHER);
            self.spare.extend(shared.drain(rest..));
        }
        self.spare.pop()
    }
}

impl<K, V> Drop for Recycle<K, V> {
    fn drop(&mut self) {
        lock(&self.shared).append(&mut self.spare);
    }
}

/// Clones `entries` to the end of `copy`. If a `clone` panics, those before it are leaked.
///
/// The compiler makes the few wide moves of it that there can be for entries like numbers; `extend_from_slice`
/// counts each entry, which took twice as long.
fn clone_onto<T: Clone>(entries: &[T], copy: &mut SlabVec<T>) {
    copy.reserve(entries.len());
    let room = copy.spare_capacity_mut();
    assert!(entries.len() <= room.len(), "reserved above");
    for (place, entry) in room.iter_mut().zip(entries) {
        place.write(entry.clone());
    }
    // SAFETY: so many have been written after those which were there.
    unsafe { copy.set_len(copy.len() + entries.len()) };
}

/// Adds so many entries, which `next` makes, up to the first that it cannot. If it panics, those before it are leaked.
///
/// A `push` asks at each entry whether there is room, and keeps less in registers.
#[inline]
pub(crate) fn extend<T, E>(
    entries: &mut SlabVec<T>,
    count: usize,
    mut next: impl FnMut() -> Result<T, E>,
) -> Result<(), E> {
    entries.reserve(count);
    let there = entries.len();
    let mut made = 0;
    let room = &mut entries.spare_capacity_mut()[..count];
    let mut result = Ok(());
    for place in room {
        match next() {
            Ok(entry) => place.write(entry),
            Err(error) => {
                result = Err(error);
                break;
            }
        };
        made += 1;
    }
    // SAFETY: so many have been written after those which were there.
    unsafe { entries.set_len(there + made) };
    result
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
