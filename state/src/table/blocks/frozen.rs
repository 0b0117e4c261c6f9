//! A snapshot's face of the blocks: each as it was when they were frozen, once, on any thread.

use std::{
    sync::{OnceLock, atomic::Ordering},
    vec,
};

use super::{
    CHUNK, Cell, Cells,
    buffer::{Buffer, Recycle},
    slot::{Claim, Slot, State},
    sync::Arc,
};

/// What the task and one snapshot's writer share.
#[derive(Debug)]
pub(super) struct Side<K, V> {
    /// The epoch that ended when the blocks were frozen.
    epoch: u64,
    pages: Box<[Page<K, V>]>,
    blocks: usize,
}

/// One chunk of blocks.
#[derive(Debug)]
struct Page<K, V> {
    cells: Arc<Cells<K, V>>,
    /// Made by who comes first, as all of them at once would make freezing slow.
    slots: OnceLock<Slots<K, V>>,
}

type Slots<K, V> = Box<[Slot<Buffer<K, V>>]>;

impl<K, V> Side<K, V> {
    pub(super) fn new(
        epoch: u64,
        blocks: usize,
        cells: impl Iterator<Item = Arc<Cells<K, V>>>,
    ) -> Self {
        let page = |cells| Page {
            cells,
            slots: OnceLock::new(),
        };
        let side = Self {
            epoch,
            pages: cells.map(page).collect(),
            blocks,
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

    pub(super) fn slot(&self, number: usize) -> &Slot<Buffer<K, V>> {
        &self.pages[number / CHUNK].slots()[number % CHUNK]
    }

    fn cell(&self, number: usize) -> &Cell<K, V> {
        &self.pages[number / CHUNK].cells[number % CHUNK]
    }
}

impl<K, V> Page<K, V> {
    fn slots(&self) -> &[Slot<Buffer<K, V>>] {
        let slots = || (0..CHUNK).map(|_| Slot::new()).collect();
        self.slots.get_or_init(slots)
    }
}

/// A view of all blocks as of one moment. Dropping it lets the task off copying for it.
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

    /// Calls `f` with the group and the entries of each block, by rising group. What it is through with,
    /// the task need not copy any more.
    pub(crate) fn drain<E>(
        self,
        mut f: impl FnMut(u16, &[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut blocks = self.by_group();
        while let Some((group, number)) = blocks.rest().next() {
            blocks.frozen.read(number, |entries| f(group, entries))?;
        }
        Ok(())
    }

    /// To go through group after group.
    pub(crate) fn by_group(self) -> ByGroup<K, V> {
        ByGroup {
            frozen: self,
            rest: None,
        }
    }

    /// Copies all blocks that the task has not copied yet. That is much faster than to read them, so of
    /// what both need the task then copies half.
    pub(super) fn take_aside(&mut self) {
        for number in 0..self.side.blocks {
            // Before the claim (3).
            let live = self.side.cell(number).live.load(Ordering::Acquire);
            let slot = self.side.slot(number);
            if slot.claim_in_place() {
                // SAFETY: until the slot is given something, the task neither writes to the buffer nor
                // frees it (2, 3). If `clone` panics, the slot goes on being read.
                let copy = unsafe { (*live).read(|entries| self.recycle.copy(entries)) };
                slot.give(State::Reading, copy); // or the task has, and its own block too
            }
        }
    }

    fn read<R>(&mut self, number: usize, f: impl FnOnce(&[(K, V)]) -> R) -> R {
        // Before the claim (3).
        let live = self.side.cell(number).live.load(Ordering::Acquire);
        let slot = self.side.slot(number);
        match slot.claim() {
            Claim::InPlace => {
                let _done = Done {
                    slot,
                    recycle: &mut self.recycle,
                };
                // SAFETY: until `done` the task neither writes to the buffer nor frees it (2, 3).
                unsafe { (*live).read(f) }
            }
            Claim::Given(copy) => {
                // SAFETY: nobody writes to a copy, or to a block that the task has given away.
                let result = unsafe { copy.read(f) };
                self.recycle.done_with(copy);
                result
            }
            Claim::Taken => unreachable!("each block is read once"),
        }
    }
}

/// The blocks of a view, by rising group.
#[derive(Debug)]
pub(crate) struct ByGroup<K, V> {
    frozen: Frozen<K, V>,
    /// Group and number of the blocks that have not been read. Sorted when they are first asked for, which
    /// is in the writer's thread.
    rest: Option<vec::IntoIter<(u16, usize)>>,
}

impl<K: Clone, V: Clone> ByGroup<K, V> {
    /// Calls `f` with the entries of each block of `group`. Groups must be asked for in rising order; those left
    /// out are passed over.
    pub(crate) fn drain<E>(
        &mut self,
        group: u16,
        mut f: impl FnMut(&[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&(next, number)) = self.rest().as_slice().first()
            && next <= group
        {
            self.rest().next();
            if next == group {
                self.frozen.read(number, &mut f)?;
            }
        }
        Ok(())
    }

    fn rest(&mut self) -> &mut vec::IntoIter<(u16, usize)> {
        let Self { frozen, rest } = self;
        rest.get_or_insert_with(|| {
            if frozen.pressed {
                frozen.take_aside();
            }
            frozen.through.clear();
            let group = |number| frozen.side.cell(number).group.load(Ordering::Relaxed);
            let mut order: Vec<_> = (0..frozen.side.blocks).map(|n| (group(n), n)).collect();
            order.sort_unstable();
            order.into_iter()
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
    slot: &'a Slot<Buffer<K, V>>,
    recycle: &'a mut Recycle<K, V>,
}

impl<K, V> Drop for Done<'_, K, V> {
    fn drop(&mut self) {
        if let Some(given) = self.slot.done() {
            self.recycle.done_with(given);
        }
    }
}
