//! The index of a block: finds an entry by its hash.
//!
//! Linear probing over 16-bit slots, each with a tag of 8 bits of the hash and the entry's position
//! in the block. At most half of the slots are in use, and 32 of them are one cache line, so a search
//! reads one line here and, but for one in some 250, one entry. Removal moves later slots back, so that there are
//! no tombstones; for this and for growing, hashes are computed again from the keys.

use allocator_api2::{boxed::Box, vec::Vec};

use super::blocks::Slabs;

/// Bits of a hash, from the lowest, that choose a slot.
pub(super) const HOME_BITS: u32 = 9;

/// Entries of a block at most: positions are 8 bits wide.
pub(super) const ENTRIES_MAX: usize = 1 << 8;

const EMPTY: u16 = 0;

/// Positions by hash.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them, [`EMPTY`] or a tag above a position.
    slots: Box<[u16], Slabs>,
}

impl Index {
    /// An empty index with room for `entries`.
    pub(super) fn with_room_for(entries: usize, slabs: &Slabs) -> Self {
        let mut slots = Vec::new_in(slabs.clone());
        slots.resize(Self::slots_for(entries), EMPTY);
        Self {
            slots: slots.into_boxed_slice(),
        }
    }

    /// Whether `entries` fit.
    pub(super) fn has_room_for(&self, entries: usize) -> bool {
        Self::slots_for(entries) <= self.slots.len()
    }

    fn slots_for(entries: usize) -> usize {
        2 * entries.next_power_of_two()
    }

    /// Where the search for this hash starts, to be prefetched.
    #[inline]
    pub(super) fn home(&self, hash: u32) -> &u16 {
        &self.slots[hash as usize & self.mask()]
    }

    /// The first position with the tag of this hash which `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl FnMut(usize) -> bool) -> Option<usize> {
        self.search(hash, is).ok()
    }

    /// Adds a position for which there is room.
    pub(super) fn insert(&mut self, hash: u32, position: usize) {
        let _none = self.find_or_insert(hash, position, |_| false);
    }

    /// As [`find`](Self::find), and adds `position`, for which there is room, if that finds none.
    #[inline]
    pub(super) fn find_or_insert(
        &mut self,
        hash: u32,
        position: usize,
        is: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        match self.search(hash, is) {
            Ok(found) => Some(found),
            Err(empty) => {
                self.slots[empty] = slot(hash, position);
                None
            }
        }
    }

    /// The position that is looked for, or else the empty slot where the search ends.
    #[inline]
    fn search(&self, hash: u32, mut is: impl FnMut(usize) -> bool) -> Result<usize, usize> {
        let tag = tag(hash);
        let mut at = hash as usize & self.mask();
        loop {
            let slot = self.slots[at];
            if slot & TAG == tag && is(position(slot)) {
                return Ok(position(slot));
            }
            if slot == EMPTY {
                return Err(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Removes a position. `hash_of` tells the hash of the entry at another one.
    pub(super) fn remove(
        &mut self,
        hash: u32,
        position: usize,
        mut hash_of: impl FnMut(usize) -> u32,
    ) {
        let mask = self.mask();
        let Some(mut gap) = self.slot_of(hash, position) else {
            return;
        };
        let mut at = (gap + 1) & mask;
        while self.slots[at] != EMPTY {
            let home = hash_of(self::position(self.slots[at])) as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[gap] = EMPTY;
    }

    /// Notes that an entry has moved.
    pub(super) fn moved(&mut self, hash: u32, from: usize, to: usize) {
        if let Some(at) = self.slot_of(hash, from) {
            self.slots[at] = self.slots[at] & TAG | slot(0, to) & !TAG;
        }
    }

    /// Where a position stands. Searched everywhere if need be, as a hash that was not the key's may
    /// have brought it where this one does not lead: a slot left behind would never be freed.
    fn slot_of(&self, hash: u32, position: usize) -> Option<usize> {
        let wanted = slot(hash, position);
        let mut at = hash as usize & self.mask();
        while self.slots[at] != wanted {
            if self.slots[at] == EMPTY {
                let same = |&slot: &u16| slot != EMPTY && self::position(slot) == position;
                return self.slots.iter().position(same);
            }
            at = (at + 1) & self.mask();
        }
        Some(at)
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }
}

const TAG: u16 = 0xff00;

/// From the highest bits of the hash, which neither the home nor a small directory uses; never zero.
#[inline]
fn tag(hash: u32) -> u16 {
    let [highest, ..] = hash.to_be_bytes();
    u16::from_be_bytes([highest.max(1), 0])
}

fn slot(hash: u32, position: usize) -> u16 {
    tag(hash) | u16::try_from(position).expect("below `ENTRIES_MAX`")
}

#[inline]
fn position(slot: u16) -> usize {
    (slot & !TAG) as usize
}
