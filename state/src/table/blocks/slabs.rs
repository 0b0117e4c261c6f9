//! Memory for what a table reads at random: many pieces of some kilobytes to a huge page.
//!
//! In a table larger than the cache, most look-ups of pages of 4 KiB also miss the processor's cache of
//! page addresses, and walking the page tables then costs as much as the data. One page of 2 MiB holds
//! some 500 blocks of entries with their indexes.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    fmt,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// An allocator of its own for each table: its memory goes with the last piece and the last clone.
///
/// Pieces that are freed are used again for those of about the same size. Very small and large ones come
/// from the global allocator.
#[derive(Clone)]
pub(crate) struct Slabs(Arc<Mutex<Pool>>);

/// A `Vec` that lies there.
pub(crate) type SlabVec<T> = allocator_api2::vec::Vec<T, Slabs>;

/// Sizes are rounded up to multiples of this, and each multiple has its own free pieces.
const STEP: usize = 256;
const LARGEST: usize = 32 << 10;
const CLASSES: usize = LARGEST / STEP;

/// Slabs grow to this, which is a huge page: a small table shall not occupy one.
const SLAB_MAX: usize = 2 << 20;
const SLAB_MIN: usize = 64 << 10;

struct Pool {
    slabs: Vec<Slab>,
    /// What is left of the last slab.
    left: usize,
    /// By class.
    free: [Vec<Piece>; CLASSES],
}

/// A piece that nobody uses.
struct Piece(NonNull<u8>);

// SAFETY: memory, which no thread owns.
unsafe impl Send for Piece {}

struct Slab {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory, which no thread owns.
unsafe impl Send for Slab {}

impl Slabs {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Pool {
            slabs: Vec::new(),
            left: 0,
            free: [const { Vec::new() }; CLASSES],
        })))
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slabs")
            .field("slabs", &self.pool().slabs.len())
            .finish_non_exhaustive()
    }
}

/// The class of pieces of this layout; none for the global allocator.
///
/// Loom and the address sanitizer watch each piece by itself, so they are left to the global one then.
fn class(layout: Layout) -> Option<usize> {
    let ours = (STEP..=LARGEST).contains(&layout.size()) && layout.align() <= STEP;
    (ours && cfg!(not(any(loom, each_piece_by_itself)))).then(|| layout.size().div_ceil(STEP) - 1)
}

// SAFETY: a piece is handed out once until it comes back, lies in a slab, which is there as long as there
// is a clone of `Slabs`, and is as large and aligned as asked for (see `Pool::take`).
unsafe impl Allocator for Slabs {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match class(layout) {
            None => Global.allocate(layout),
            Some(class) => {
                let piece = self.pool().take(class);
                Ok(NonNull::slice_from_raw_parts(piece.0, layout.size()))
            }
        }
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        match class(layout) {
            // SAFETY: a piece with this layout came from there.
            None => unsafe { Global.deallocate(piece, layout) },
            Some(class) => self.pool().free[class].push(Piece(piece)),
        }
    }
}

impl Pool {
    /// A piece of `class`, aligned to `STEP`.
    fn take(&mut self, class: usize) -> Piece {
        if let Some(piece) = self.free[class].pop() {
            return piece;
        }
        let size = (class + 1) * STEP;
        if self.left < size {
            let last = self.slabs.last();
            let bytes = last.map_or(SLAB_MIN, |slab| SLAB_MAX.min(2 * slab.layout.size()));
            self.slabs.push(Slab::new(bytes));
            self.left = bytes;
        }
        let slab = self.slabs.last().expect("pushed above if missing");
        let offset = slab.layout.size() - self.left;
        self.left -= size;
        // SAFETY: `size` bytes from there are in the slab. Slabs are aligned to their size, which is a multiple of
        // `STEP`, and so are the offsets.
        Piece(unsafe { slab.start.add(offset) })
    }
}

impl Slab {
    /// `size` is a power of two.
    fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size, size).expect("2 MiB at most");
        // SAFETY: `size` is not zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout);
        };
        #[cfg(all(target_os = "linux", not(loom)))]
        if size == SLAB_MAX {
            use rustix::mm::{Advice, madvise};
            // SAFETY: this advice changes nothing that can be read. It is refused where there are no
            // huge pages, and then there are none.
            let _ = unsafe { madvise(start.as_ptr().cast(), size, Advice::LinuxHugepage) };
        }
        Self { start, layout }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("it is small")
    }

    #[test]
    fn pieces_in_use_do_not_overlap_and_those_that_are_freed_are_used_again() {
        let slabs = Slabs::new();
        let mut state = 1_u64;
        let mut used: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
        for round in 0..30_000_u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let random = (state >> 33) as usize;
            if random % 5 < 3 {
                let layout = layout(1 + random % (LARGEST + STEP));
                let piece = slabs.allocate(layout).unwrap().cast::<u8>();
                let byte = round.to_le_bytes()[0];
                // SAFETY: the piece is that large.
                unsafe { piece.write_bytes(byte, layout.size()) };
                used.push((piece, layout, byte));
            } else if !used.is_empty() {
                free(&slabs, used.swap_remove(random % used.len()));
            }
        }
        let slabs_then = slabs.pool().slabs.len();
        let layouts: Vec<_> = used.iter().map(|&(_, layout, _)| layout).collect();
        used.into_iter().for_each(|piece| free(&slabs, piece));
        let again: Vec<_> = layouts
            .iter()
            .map(|&layout| {
                let piece = slabs.clone().allocate(layout).unwrap().cast::<u8>();
                (piece, layout)
            })
            .collect();
        assert_eq!(slabs.pool().slabs.len(), slabs_then);
        for (piece, layout) in again {
            // SAFETY: allocated above with this layout.
            unsafe { slabs.deallocate(piece, layout) };
        }
    }

    /// Frees a piece that still has what was written to it.
    fn free(slabs: &Slabs, (piece, layout, byte): (NonNull<u8>, Layout, u8)) {
        // SAFETY: all of it was written to, and by nobody else.
        let bytes = unsafe { NonNull::slice_from_raw_parts(piece, layout.size()).as_ref() };
        assert!(bytes.iter().all(|&found| found == byte));
        // SAFETY: allocated with this layout, and not used any more.
        unsafe { slabs.deallocate(piece, layout) };
    }

    #[test]
    fn a_small_table_does_not_occupy_a_huge_page() {
        let slabs = Slabs::new();
        let pieces: Vec<_> = (0..10)
            .map(|_| slabs.allocate(layout(4096)).unwrap())
            .collect();
        let bytes: usize = slabs
            .pool()
            .slabs
            .iter()
            .map(|slab| slab.layout.size())
            .sum();
        assert!(bytes <= SLAB_MIN, "{bytes}");
        for piece in pieces {
            // SAFETY: allocated with this layout.
            unsafe { slabs.deallocate(piece.cast(), layout(4096)) };
        }
    }
}
