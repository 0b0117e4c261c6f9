//! Values as they were before the task changed them after a snapshot: the first few of a block, instead of a copy.
//!
//! ```text
//! block    a b'c d'e f        in place, changed
//! kept     b d                what the snapshot's writer puts back in its copy
//! ```
//!
//! Right after a snapshot nearly every update is the first one to its block. To copy the whole block for it takes some
//! microseconds, and a batch of such updates would stop the task for milliseconds. To keep a value takes a tenth. In the
//! end most blocks are copied all the same, so this is for when there were many copies just now.

use std::{mem::MaybeUninit, ptr::NonNull};

use super::{
    slabs::{SlabVec, Slabs},
    sync::UnsafeCell,
};

/// So many values of a block are kept. With more, most batches would be slower, and the worst one hardly faster.
pub(super) const KEPT_MAX: usize = if cfg!(loom) { 1 } else { 3 };

/// The values that are kept of one block. Task and writer agree by its slot who uses them.
#[derive(Debug)]
#[repr(align(4))] // a slot has use for the lowest bits of its address
pub(super) struct Kept<V>(UnsafeCell<Few<V>>);

#[derive(Debug)]
struct Few<V> {
    count: u16,
    ats: [u16; KEPT_MAX],
    /// The first `count` are there.
    values: [MaybeUninit<V>; KEPT_MAX],
}

impl<V> Few<V> {
    const fn new() -> Self {
        Self {
            count: 0,
            ats: [0; KEPT_MAX],
            values: [const { MaybeUninit::uninit() }; KEPT_MAX],
        }
    }

    fn push(&mut self, at: usize, value: V) {
        let last = usize::from(self.count);
        self.ats[last] = u16::try_from(at).expect("blocks are small");
        self.values[last].write(value);
        self.count += 1;
    }

    /// Each with its position, in the order in which they were kept.
    fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &V)> {
        let values = &self.values[..self.count.into()];
        // SAFETY: so many are there.
        let values = values
            .iter()
            .map(|value| unsafe { value.assume_init_ref() });
        self.ats.iter().map(|at| usize::from(*at)).zip(values)
    }
}

impl<V> Drop for Few<V> {
    fn drop(&mut self) {
        for value in &mut self.values[..self.count.into()] {
            // SAFETY: so many are there, and each is dropped once.
            unsafe { value.assume_init_drop() };
        }
    }
}

impl<V> Kept<V> {
    /// Keeps one more value, of which there are fewer than [`KEPT_MAX`].
    ///
    /// # Safety
    ///
    /// Nobody else uses what is kept here meanwhile.
    pub(super) unsafe fn keep(&self, at: usize, value: V) {
        // SAFETY: promised by the caller.
        self.0.with_mut(|few| unsafe { &mut *few }.push(at, value));
    }

    /// Puts the values back among the entries of a copy of their block.
    ///
    /// # Safety
    ///
    /// Nobody keeps more here meanwhile, and what was kept is visible.
    pub(super) unsafe fn put_back<K>(&self, entries: &mut [(K, V)])
    where
        V: Clone,
    {
        self.0.with(|few| {
            // SAFETY: promised by the caller.
            let few = unsafe { &*few };
            for (at, value) in few.iter().rev() {
                entries[at].1.clone_from(value); // the oldest of an entry is the last here, and stays
            }
        });
    }
}

/// What is kept of all blocks for one snapshot.
#[derive(Debug)]
pub(super) struct KeptValues<V> {
    /// Each has room for [`together`] from the start, so that none moves. For the task alone.
    pieces: UnsafeCell<Vec<SlabVec<Kept<V>>>>,
    slabs: Slabs,
}

// SAFETY: what is shared is used as `keep`, `put_back` and `add` promise.
unsafe impl<V: Send + Sync> Sync for KeptValues<V> {}

impl<V> KeptValues<V> {
    pub(super) fn new(slabs: Slabs) -> Self {
        Self {
            pieces: UnsafeCell::new(Vec::new()),
            slabs,
        }
    }

    /// Room for the values of one block, which stays where it is as long as `self`.
    ///
    /// # Safety
    ///
    /// Only one thread calls this.
    pub(super) unsafe fn add(&self) -> NonNull<Kept<V>> {
        // SAFETY: nobody else uses `pieces`.
        self.pieces.with_mut(|pieces| unsafe {
            let pieces = &mut *pieces;
            if pieces
                .last()
                .is_none_or(|last| last.len() == last.capacity())
            {
                pieces.push(SlabVec::with_capacity_in(
                    together::<V>(),
                    self.slabs.clone(),
                ));
            }
            let piece = pieces.last_mut().expect("pushed above if missing");
            let place = piece.as_mut_ptr().add(piece.len());
            place.write(Kept(UnsafeCell::new(Few::new()))); // there is room
            piece.set_len(piece.len() + 1);
            NonNull::new_unchecked(place)
        })
    }
}

/// So many are allocated at once: 16 KiB or one.
const fn together<V>() -> usize {
    let together = (16 << 10) / size_of::<Kept<V>>();
    if together == 0 { 1 } else { together }
}
