//! Blocks of entries which a snapshot's writer reads while the task goes on writing: the one module
//! with `unsafe` code, and its safe face.
//!
//! ```text
//! Blocks    the task's: reads and writes entries, adds blocks, freezes all in no time
//! Frozen    a snapshot's: reads each block once as it was when it was frozen, from any thread
//! ```
//!
//! A snapshot is a number, the epoch. Each block knows in which epoch it was last settled. Before it writes in
//! a later epoch, the task settles with the open snapshots ([`slot`]): it copies the block aside for those that have
//! not read it, and then writes in place. Where a writer is just reading in place, the task leaves the block to it and
//! goes on with the copy. Where it has copied many blocks just now, it keeps single values of others as they were instead
//! ([`settle`]). So the task never waits for a writer, and a writer for no more than the swap of two values.
//!
//! What makes the pointers sound:
//!
//! 1. A cell refers to its block's live buffer, and owns one count of it. It is freed with the cell, or
//!    replaced by the task; the cells are shared with the snapshots, and so outlive what reads them.
//! 2. Only the task writes to a live buffer, only through `&mut Blocks`, and only if the block was settled in the current
//!    epoch: then each snapshot that may read the block has what it wants, or was opened before the block was there.
//!    Or only one has not, and the task writes one value between `begin` and `end` of its slot.
//! 3. A writer reads a live buffer only between `claim` and `done`, and reads the cell before it claims:
//!    before the task, which must give first, can replace the buffer.
//! 4. A note that stands points to an entry of a live buffer, and says that the task may write to it only if the
//!    block was settled in the current epoch. Whatever adds, moves or removes entries, replaces a buffer or begins an
//!    epoch makes all notes fall; so does lending a value that is not in its place.
//! 5. What is kept of values for a snapshot goes with its `Side`, which the slots that refer to it go with as well.
//!
//! A snapshot may want only the blocks that were written to since an earlier one, its base. The others cost
//! neither side anything: the task copies nothing for it, and the writer need not look at them.
#![expect(
    unsafe_code,
    reason = "task and writer share entries without a lock or a count on the task's way"
)]

mod buffer;
mod frozen;
mod kept;
mod lend;
#[cfg(all(test, loom))]
mod loom_tests;
mod noted;
mod settle;
mod slabs;
mod slot;
mod sync;

use std::{
    fmt,
    marker::PhantomData,
    mem,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU16, Ordering},
};

use buffer::{Buffer, Recycle};
pub(crate) use buffer::{Entries, extend};
use frozen::Side;
pub(crate) use frozen::{BlockId, ByGroup, Frozen};
use noted::Notes;
pub(crate) use noted::Spot;
use settle::{COPIES_AT_ONCE, Pending};
use slabs::SlabVec;
pub(crate) use slabs::Slabs;
use sync::{Arc, AtomicPtr, AtomicU64, fence};

/// Blocks are added in chunks of so many, which stay where they are: no growth copies all of them.
const CHUNK: usize = if cfg!(loom) { 2 } else { 512 };

/// Numbered blocks of entries, each with an `X` that only the task sees.
pub(crate) struct Blocks<K, V, X> {
    /// [`CHUNK`] blocks each, but for the last one.
    chunks: Vec<Chunk<K, V, X>>,
    /// How many blocks there are in all chunks.
    len: usize,
    epoch: u64,
    /// Snapshots whose writers may still come for blocks.
    open: Vec<Arc<Side<K, V>>>,
    recycle: Recycle<K, V>,
    /// First writes in this epoch, as long as a snapshot was open.
    pressed: usize,
    notes: Notes<K, V>,
    /// A value that was lent and is not in its place yet.
    pending: Option<Pending<V>>,
    /// How many blocks may be copied until the next prefetch, before values are kept instead.
    copies_left: usize,
}

struct Chunk<K, V, X> {
    /// In huge pages, where there are many.
    blocks: SlabVec<Block<K, V, X>>,
    cells: Arc<Cells<K, V>>,
}

/// The task's side of a block: in a cache line, which is what each access reads first.
#[repr(align(64))]
pub(crate) struct Block<K, V, X> {
    /// The epoch in which it was last settled with all snapshots: they do not need it any more.
    settled: u64,
    /// Where the live buffer has its entries, and how many.
    entries: NonNull<(K, V)>,
    len: u32,
    /// How many values were kept for the snapshot with which it is not settled, if there is one.
    kept: u16,
    extra: X,
}

// SAFETY: the pointers are to entries of a buffer in `cells`, which may be sent.
unsafe impl<K: Send + Sync, V: Send + Sync, X: Send> Send for Block<K, V, X> {}

type Cells<K, V> = Box<[Cell<K, V>]>;

/// The side of a block that snapshots see.
#[derive(Debug)]
struct Cell<K, V> {
    /// From [`Arc::into_raw`]; null as long as there is no such block.
    live: AtomicPtr<Buffer<K, V>>,
    group: AtomicU16,
    /// The epoch in which the block was last written to.
    written: AtomicU64,
    owns: PhantomData<Arc<Buffer<K, V>>>,
}

impl<K, V> Drop for Cell<K, V> {
    fn drop(&mut self) {
        let live = self.live.load(Ordering::Acquire);
        if !live.is_null() {
            // SAFETY: the cell owns one count, and is gone after this.
            drop(unsafe { Arc::from_raw(live) });
        }
    }
}

impl<K: Clone, V: Clone, X> Blocks<K, V, X> {
    /// No blocks. Buffers with room for `capacity` entries are used again.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
            epoch: 0,
            open: Vec::new(),
            recycle: Recycle::new(capacity),
            pressed: 0,
            notes: Notes::new(),
            pending: None,
            copies_left: COPIES_AT_ONCE,
        }
    }

    /// Adds a block of `group`, without entries, and returns its number: blocks are counted from zero.
    pub(crate) fn push(&mut self, group: u16, extra: X) -> usize {
        if self.chunks.last().is_none_or(|c| c.blocks.len() == CHUNK) {
            let cell = || Cell {
                live: AtomicPtr::new(ptr::null_mut()),
                group: AtomicU16::new(0),
                written: AtomicU64::new(0),
                owns: PhantomData,
            };
            self.chunks.push(Chunk {
                blocks: SlabVec::with_capacity_in(CHUNK, self.slabs().clone()),
                cells: Arc::new((0..CHUNK).map(|_| cell()).collect()),
            });
        }
        let chunks = self.chunks.len();
        let chunk = self.chunks.last_mut().expect("pushed above if missing");
        let cell = &chunk.cells[chunk.blocks.len()];
        cell.group.store(group, Ordering::Relaxed);
        cell.written.store(self.epoch, Ordering::Relaxed); // frozen later, and handed over with that
        let buffer = Arc::into_raw(Buffer::new(Entries::new_in(self.recycle.slabs().clone())));
        cell.live.store(buffer.cast_mut(), Ordering::Release);
        chunk.blocks.push(Block {
            settled: self.epoch, // of no interest to snapshots that are open already
            entries: NonNull::dangling(),
            len: 0,
            kept: 0,
            extra,
        });
        self.len = (chunks - 1) * CHUNK + chunk.blocks.len();
        self.len - 1
    }

    /// Where the entries are, and what is read along with them should be.
    pub(crate) fn slabs(&self) -> &Slabs {
        self.recycle.slabs()
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn block(&self, number: usize) -> &Block<K, V, X> {
        self.get(number).expect("blocks are numbered by `push`")
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&Block<K, V, X>> {
        block_in(&self.chunks, self.len, number)
    }

    #[inline]
    fn block_mut(&mut self, number: usize) -> &mut Block<K, V, X> {
        assert!(number < self.len, "blocks are numbered by `push`");
        // SAFETY: as for `block`.
        unsafe {
            let chunk = self.chunks.get_unchecked_mut(number / CHUNK);
            chunk.blocks.get_unchecked_mut(number % CHUNK)
        }
    }

    fn cell(&self, number: usize) -> &Cell<K, V> {
        &self.chunks[number / CHUNK].cells[number % CHUNK]
    }

    #[inline]
    fn is_settled(&self, number: usize) -> bool {
        self.block(number).settled == self.epoch
    }

    #[inline]
    pub(crate) fn extra_mut(&mut self, number: usize) -> &mut X {
        &mut self.block_mut(number).extra
    }

    /// The entries of all blocks.
    pub(crate) fn iter(&mut self) -> impl Iterator<Item = &[(K, V)]> {
        self.put_pending();
        let blocks = self.chunks.iter().flat_map(|chunk| &chunk.blocks);
        blocks.map(Block::entries)
    }

    /// The value of the entry at `at` of a block that is settled.
    #[inline]
    fn value_in_place(&mut self, number: usize, at: usize) -> &mut V {
        debug_assert!(self.is_settled(number), "see `settle`");
        self.watched(number);
        let block = self.block_mut(number);
        assert!(at < block.len(), "an entry was found there");
        // SAFETY: `at` is one of the entries, of a buffer that only the task reads and writes (2).
        unsafe { &mut (*block.entries.as_ptr().add(at)).1 }
    }

    /// Comes before a write that goes by a pointer, which loom would not see.
    #[cfg(loom)]
    fn watched(&self, number: usize) {
        // SAFETY: only the task replaces the buffer, and it may write to it now.
        unsafe { (*self.cell(number).live.unsync_load()).write(|_| ()) };
    }

    #[cfg(not(loom))]
    #[inline]
    const fn watched(&self, _number: usize) {}

    /// Lends entries and `X`, to change in any way.
    #[inline]
    pub(crate) fn modify<R>(
        &mut self,
        number: usize,
        f: impl FnOnce(&mut Entries<K, V>, &mut X) -> R,
    ) -> R {
        self.put_pending();
        self.settle(number);
        self.notes.fall();
        let Chunk { blocks, cells } = &mut self.chunks[number / CHUNK];
        let Block {
            entries: first,
            len,
            extra,
            ..
        } = &mut blocks[number % CHUNK];
        let live = cells[number % CHUNK].live.load(Ordering::Relaxed);
        // SAFETY: the cell owns it (1), and only the task reads and writes it (2).
        unsafe {
            (*live).write(|entries| {
                let located = Located {
                    entries,
                    first,
                    len,
                };
                f(located.entries, extra)
            })
        }
    }

    /// A view of all blocks as of now, which later writes do not change; or only of those written to
    /// since the freeze whose epoch was `base`.
    pub(crate) fn freeze(&mut self, base: Option<u64>) -> Frozen<K, V> {
        self.put_pending();
        let through = self.open.extract_if(.., |side| !is_wanted(side)).collect();
        let cells = self.chunks.iter().map(|chunk| Arc::clone(&chunk.cells));
        let blocks = self.chunks.iter().map(|chunk| chunk.blocks.len()).sum();
        // The keys of the next interval are likely to be like those of the last.
        let pressed = 2 * mem::take(&mut self.pressed) > blocks;
        let side = Arc::new(Side::new(
            self.epoch,
            base,
            blocks,
            cells,
            self.slabs().clone(),
        ));
        self.open.push(Arc::clone(&side));
        self.epoch += 1;
        self.notes.fall();
        Frozen::new(side, self.recycle.another(), pressed, through)
    }
}

/// The block of this number, if there is one: all chunks but the last one have [`CHUNK`] of the `len` blocks.
#[inline]
fn block_in<K, V, X>(
    chunks: &[Chunk<K, V, X>],
    len: usize,
    number: usize,
) -> Option<&Block<K, V, X>> {
    // SAFETY: there are `len` blocks.
    (number < len).then(|| unsafe {
        let chunk = chunks.get_unchecked(number / CHUNK);
        chunk.blocks.get_unchecked(number % CHUNK)
    })
}

impl<K, V, X> Block<K, V, X> {
    #[inline]
    pub(crate) fn extra(&self) -> &X {
        &self.extra
    }

    /// As they are in place: the value that was lent last may have changed since.
    #[inline]
    pub(crate) fn entries(&self) -> &[(K, V)] {
        // SAFETY: they are those of the live buffer, which its cell owns (1), and which is written to
        // through `&mut Blocks` only (2).
        unsafe { slice::from_raw_parts(self.entries.as_ptr(), self.len()) }
    }

    const fn len(&self) -> usize {
        self.len as usize
    }

    fn locate(&mut self, entries: &mut Entries<K, V>) {
        drop(Located {
            entries,
            first: &mut self.entries,
            len: &mut self.len,
        });
    }
}

impl<K, V, X> fmt::Debug for Blocks<K, V, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("epoch", &self.epoch)
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

/// Whether a snapshot still has its writer.
fn is_wanted<K, V>(side: &Arc<Side<K, V>>) -> bool {
    let wanted = Arc::strong_count(side) > 1;
    // If not, this comes after all that the writer has read: its last act was to let go of the side.
    fence(Ordering::Acquire);
    wanted
}

/// Tells a block where its entries are after they have been changed.
struct Located<'a, K, V> {
    entries: &'a mut Entries<K, V>,
    first: &'a mut NonNull<(K, V)>,
    len: &'a mut u32,
}

impl<K, V> Drop for Located<'_, K, V> {
    #[inline]
    fn drop(&mut self) {
        *self.len = u32::try_from(self.entries.len()).expect("blocks are small");
        *self.first = NonNull::new(self.entries.as_mut_ptr()).expect("a `Vec` has no null pointer");
    }
}

/// Asks for the cache line at `address`, whatever there is; does nothing where we do not know how.
#[inline]
pub(super) fn fetch<T>(address: *const T) {
    // SAFETY: a prefetch is a hint: it reads nothing as far as the program can tell, and never faults.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
