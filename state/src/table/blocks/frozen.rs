//! A snapshot's face of the blocks: each as it was when they were frozen, once, on any thread.

use std::{
    ptr::NonNull,
    sync::{OnceLock, atomic::Ordering},
    vec,
};

use super::{
    CHUNK, Cell, Cells,
    buffer::{Buffer, Recycle},
    fetch,
    kept::{Kept, KeptValues},
    slabs::Slabs,
    slot::{Claim, Slot},
    sync::Arc,
};

/// What the task and one snapshot's writer share.
#[derive(Debug)]
pub(super) struct Side<K, V> {
    /// The epoch that ended when the blocks were frozen.
    epoch: u64,
    /// What was written to in later epochs is wanted; everything if there is none.
    base: Option<u64>,
    pages: Box<[Page<K, V>]>,
    blocks: usize,
    /// What some slots refer to.
    kept: KeptValues<V>,
}

/// One chunk of blocks.
#[derive(Debug)]
struct Page<K, V> {
    cells: Arc<Cells<K, V>>,
    /// Made by who comes first, as all of them at once would make freezing slow.
    slots: OnceLock<Slots<K, V>>,
}

type BlockSlot<K, V> = Slot<Buffer<K, V>, Kept<V>>;

type Slots<K, V> = Box<[BlockSlot<K, V>]>;

impl<K, V> Side<K, V> {
    pub(super) fn new(
        epoch: u64,
        base: Option<u64>,
        blocks: usize,
        cells: impl Iterator<Item = Arc<Cells<K, V>>>,
        slabs: Slabs,
    ) -> Self {
        let page = |cells| Page {
            cells,
            slots: OnceLock::new(),
        };
        let side = Self {
            epoch,
            base,
            pages: cells.map(page).collect(),
            blocks,
            kept: KeptValues::new(slabs),
        };
        if cfg!(loom) {
            let made = side
                .pages
                .iter()
                .map(|page| page.slots().len())
                .sum::<usize>();
            debug_assert!(made >= blocks, "loom does not know `OnceLock`");
        }
        side
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it wants a block that was last written to in this epoch, its own or an earlier one.
    pub(super) fn wants(&self, written: u64) -> bool {
        self.base.is_none_or(|base| written > base)
    }

    /// For the writer, before it has claimed the block.
    fn wants_block(&self, number: usize) -> bool {
        let written = self.cell(number).written.load(Ordering::Acquire);
        if written <= self.epoch {
            self.wants(written)
        } else {
            // The task has written to it since, and has seen to it that this gets what it was.
            self.base.is_none() || self.slot(number).is_provided()
        }
    }

    pub(super) fn slot(&self, number: usize) -> &BlockSlot<K, V> {
        &self.pages[number / CHUNK].slots()[number % CHUNK]
    }

    /// Brings into the cache what the task will need for a first write to the block.
    #[inline]
    pub(super) fn fetch(&self, number: usize) {
        if number < self.blocks {
            fetch(self.slot(number));
            fetch(self.cell(number));
        }
    }

    /// Where values for this snapshot are kept.
    pub(super) fn kept(&self) -> &KeptValues<V> {
        &self.kept
    }

    fn cell(&self, number: usize) -> &Cell<K, V> {
        &self.pages[number / CHUNK].cells[number % CHUNK]
    }
}

impl<K, V> Page<K, V> {
    fn slots(&self) -> &[BlockSlot<K, V>] {
        let slots = || (0..CHUNK).map(|_| Slot::new()).collect();
        self.slots.get_or_init(slots)
    }
}

/// A block, in the order in which blocks are written: by group.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct BlockId {
    pub(crate) group: u16,
    pub(crate) number: u32,
}

/// A view of all blocks as of one moment, or of those that changed before it. Dropping it lets the task off copying for it.
#[derive(Debug)]
pub(crate) struct Frozen<K, V> {
    side: Arc<Side<K, V>>,
    recycle: Recycle<K, V>,
    /// Whether the task is expected to write to most blocks before they have been read.
    pressed: bool,
    /// Earlier snapshots that are written: they are large, and freed here instead of in the task's thread.
    through: Vec<Arc<Side<K, V>>>,
}

impl<K: Clone, V: Clone> Frozen<K, V> {
    pub(super) fn new(
        side: Arc<Side<K, V>>,
        recycle: Recycle<K, V>,
        pressed: bool,
        through: Vec<Arc<Side<K, V>>>,
    ) -> Self {
        Self {
            side,
            recycle,
            pressed,
            through,
        }
    }

    /// The epoch that ended with this view: the base for a later one.
    pub(crate) fn epoch(&self) -> u64 {
        self.side.epoch
    }

    /// The blocks that are wanted, by rising group.
    pub(crate) fn wanted(&self) -> Vec<BlockId> {
        let wanted = (0..self.side.blocks).filter(|&number| self.side.wants_block(number));
        let mut wanted: Vec<_> = wanted.map(|number| self.block_id(number)).collect();
        wanted.sort_unstable();
        wanted
    }

    /// Calls `f` with the group and the entries of each block, by rising group. What it is through with,
    /// the task need not copy any more.
    pub(crate) fn drain<E>(
        self,
        mut f: impl FnMut(u16, &[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let blocks = self.wanted();
        self.drain_blocks(blocks, |block, entries| f(block.group, entries))
    }

    /// Calls `f` with the entries of these blocks, in this order. Those that are wanted must be among them;
    /// others are passed over if the task has written to them in the meantime.
    pub(crate) fn drain_blocks<E>(
        mut self,
        blocks: impl IntoIterator<Item = BlockId>,
        mut f: impl FnMut(BlockId, &[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.pressed {
            self.take_aside();
        }
        self.through.clear();
        for block in blocks {
            let number = block.number as usize;
            self.read(number, |entries| f(block, entries)).transpose()?;
        }
        Ok(())
    }

    /// To go through the wanted blocks group after group.
    pub(crate) fn by_group(self) -> ByGroup<K, V> {
        ByGroup {
            frozen: self,
            rest: None,
        }
    }

    fn block_id(&self, number: usize) -> BlockId {
        BlockId {
            group: self.side.cell(number).group.load(Ordering::Relaxed),
            number: u32::try_from(number).expect("fewer blocks than 2^32"),
        }
    }

    /// Copies all wanted blocks that the task has not copied yet. That is much faster than to read them, so of
    /// what both need the task then copies half.
    pub(super) fn take_aside(&mut self) {
        for number in 0..self.side.blocks {
            if !self.side.wants_block(number) {
                continue;
            }
            // Before the claim (3).
            let live = self.side.cell(number).live.load(Ordering::Acquire);
            let slot = self.side.slot(number);
            if let Some(kept) = slot.claim_in_place() {
                // SAFETY: just claimed.
                let copy = unsafe { copy_as_it_was(&mut self.recycle, live, kept) };
                if let Some(given) = slot.provide(copy) {
                    self.recycle.done_with(given);
                }
            }
        }
    }

    /// `None` if the task has passed the block over, as it is not wanted.
    fn read<R>(&mut self, number: usize, f: impl FnOnce(&[(K, V)]) -> R) -> Option<R> {
        // Before the claim (3).
        let live = self.side.cell(number).live.load(Ordering::Acquire);
        let slot = self.side.slot(number);
        let copy = match slot.claim() {
            Claim::InPlace(None) => {
                let _done = Done {
                    slot,
                    recycle: &mut self.recycle,
                };
                // SAFETY: until `done` the task neither writes to the buffer nor frees it (2, 3).
                return Some(unsafe { (*live).read(f) });
            }
            Claim::InPlace(kept) => {
                // SAFETY: just claimed.
                let copy = unsafe { copy_as_it_was(&mut self.recycle, live, kept) };
                drop(Done {
                    slot,
                    recycle: &mut self.recycle,
                });
                copy
            }
            Claim::Given(copy) => copy,
            Claim::Taken => return None,
        };
        // SAFETY: nobody writes to a copy, or to a block that the task has given away.
        let result = unsafe { copy.read(f) };
        self.recycle.done_with(copy);
        Some(result)
    }
}

/// A copy of a block as it was when it was frozen. If a `clone` panics, the slot goes on being read.
///
/// # Safety
///
/// The block was claimed, after it was found at `live`, and its slot has not been given anything by the caller.
unsafe fn copy_as_it_was<K: Clone, V: Clone>(
    recycle: &mut Recycle<K, V>,
    live: *const Buffer<K, V>,
    kept: Option<NonNull<Kept<V>>>,
) -> Arc<Buffer<K, V>> {
    // SAFETY: until `done` or `give` the task neither writes to the buffer nor frees it (2, 3), and what was kept is as
    // old as its side (5).
    unsafe { (*live).read(|entries| recycle.copy_with(entries, kept)) }
}

/// The wanted blocks of a view, by rising group.
#[derive(Debug)]
pub(crate) struct ByGroup<K, V> {
    frozen: Frozen<K, V>,
    /// Those that have not been read. Sorted when they are first asked for, which is in the writer's thread.
    rest: Option<vec::IntoIter<BlockId>>,
}

impl<K: Clone, V: Clone> ByGroup<K, V> {
    /// Calls `f` with the entries of each block of `group`. Groups must be asked for in rising order; those left
    /// out are passed over.
    pub(crate) fn drain<E>(
        &mut self,
        group: u16,
        mut f: impl FnMut(&[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&block) = self.rest().as_slice().first()
            && block.group <= group
        {
            self.rest().next();
            if block.group == group {
                self.frozen
                    .read(block.number as usize, &mut f)
                    .transpose()?;
            }
        }
        Ok(())
    }

    fn rest(&mut self) -> &mut vec::IntoIter<BlockId> {
        let Self { frozen, rest } = self;
        rest.get_or_insert_with(|| {
            if frozen.pressed {
                frozen.take_aside();
            }
            frozen.through.clear();
            frozen.wanted().into_iter()
        })
    }
}

impl<K, V> Drop for Frozen<K, V> {
    fn drop(&mut self) {
        let slots = self.side.pages.iter().filter_map(|page| page.slots.get());
        for given in slots.flatten().filter_map(Slot::done) {
            self.recycle.done_with(given);
        }
    }
}

/// Gives a block back that was read in place, however the reading ended.
struct Done<'a, K, V> {
    slot: &'a BlockSlot<K, V>,
    recycle: &'a mut Recycle<K, V>,
}

impl<K, V> Drop for Done<'_, K, V> {
    fn drop(&mut self) {
        if let Some(given) = self.slot.done() {
            self.recycle.done_with(given);
        }
    }
}
