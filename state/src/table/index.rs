//! The index of a block: finds an entry by its hash.
//!
//! Buckets of eight 16-bit slots, each slot with a tag of 8 bits of the hash and the entry's position in the block.
//! A search compares all tags of a bucket at once. So it has no branch that depends on where in the bucket the entry
//! is, which the processor would often guess wrong. A full bucket goes on in the next one, which is rare: at most half
//! of the slots are in use. Those in use are the first of their bucket; removal keeps it so, and there are no
//! tombstones. For this and for growing, hashes are computed again from the keys.

use allocator_api2::{boxed::Box, vec::Vec};
use cutwater_keygroups::KeyHash;
use wide::u16x8;

use super::blocks::Slabs;

/// Bits of a hash, from the lowest, that choose a bucket.
pub(super) const HOME_BITS: u32 = (2 * ENTRIES_MAX / SLOTS).ilog2();

/// Entries of a block at most: positions are 8 bits wide.
pub(super) const ENTRIES_MAX: usize = 1 << 8;

/// Slots of a bucket.
const SLOTS: usize = 8;

const EMPTY: u16 = 0;

/// Positions by hash.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them.
    buckets: Box<[Bucket], Slabs>,
}

/// Slots, each [`EMPTY`] or a tag above a position.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Bucket([u16; SLOTS]);

/// The number of a bucket, and of a slot in it.
type Place = (usize, usize);

impl Index {
    /// An empty index with room for `entries`.
    pub(super) fn with_room_for(entries: usize, slabs: &Slabs) -> Self {
        let mut buckets = Vec::new_in(slabs.clone());
        buckets.resize(Self::buckets_for(entries), Bucket([EMPTY; SLOTS]));
        Self {
            buckets: buckets.into_boxed_slice(),
        }
    }

    /// Whether `entries` fit.
    pub(super) fn has_room_for(&self, entries: usize) -> bool {
        Self::buckets_for(entries) <= self.buckets.len()
    }

    fn buckets_for(entries: usize) -> usize {
        (2 * entries).div_ceil(SLOTS).next_power_of_two()
    }

    /// Where the search for this hash starts, to be prefetched.
    #[inline]
    pub(super) fn home(&self, hash: u32) -> &Bucket {
        &self.buckets[self.home_of(hash)]
    }

    /// The first position with the tag of this hash which `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl FnMut(usize) -> bool) -> Option<usize> {
        self.search(hash, is).ok().map(|(position, _)| position)
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
            Ok((found, _)) => Some(found),
            Err((bucket, empty)) => {
                self.buckets[bucket].0[empty] = slot(hash, position);
                None
            }
        }
    }

    /// Adds a position for each hash, counted from `first`, for which there is room; up to the one at which the same key
    /// stands as at one that is there already, as `is_same` says of two positions. Returns how many it has added.
    pub(super) fn insert_new(
        &mut self,
        hashes: &[KeyHash],
        first: usize,
        is_same: impl Fn(usize, usize) -> bool,
    ) -> usize {
        for (added, hash) in hashes.iter().enumerate() {
            let (hash, position) = (hash.lower(), first + added);
            let home = self.home_of(hash);
            let bucket = &mut self.buckets[home];
            match bucket.room() {
                // Nearly always; the rest is out of the way.
                Some(empty) if bucket.tagged(tag(hash)) == 0 => {
                    bucket.0[empty] = slot(hash, position);
                }
                _ => {
                    if self.is_known(hash, position, &is_same) {
                        return added;
                    }
                }
            }
        }
        hashes.len()
    }

    /// Whether the key at this position stands at another one; adds the position if not.
    #[cold]
    fn is_known(
        &mut self,
        hash: u32,
        position: usize,
        is_same: &impl Fn(usize, usize) -> bool,
    ) -> bool {
        let found = self.find_or_insert(hash, position, |other| is_same(other, position));
        found.is_some()
    }

    /// The position that is looked for and its place, or else the place, an empty one, where the search ends.
    #[inline]
    fn search(
        &self,
        hash: u32,
        mut is: impl FnMut(usize) -> bool,
    ) -> Result<(usize, Place), Place> {
        let mut number = self.home_of(hash);
        loop {
            let bucket = &self.buckets[number];
            let mut same = bucket.tagged(tag(hash));
            while same != 0 {
                let at = same.trailing_zeros() as usize % SLOTS;
                let position = position(bucket.0[at]);
                if is(position) {
                    return Ok((position, (number, at)));
                }
                same &= same - 1;
            }
            if let Some(empty) = bucket.room() {
                return Err((number, empty));
            }
            number = self.next(number);
        }
    }

    /// Removes a position. `hash_of` tells the hash of the entry at another one.
    pub(super) fn remove(&mut self, hash: u32, position: usize, hash_of: impl Fn(usize) -> u32) {
        let mut gap = self.place_of(hash, position);
        while let Some((number, at)) = gap {
            let was_full = self.buckets[number].take(at);
            // The room is for one that went on from here, if there is such; which leaves a gap where it was.
            gap = if was_full {
                self.gone_on_from(number, &hash_of)
            } else {
                None
            };
            if let Some((from, at)) = gap {
                self.buckets[number].0[SLOTS - 1] = self.buckets[from].0[at];
            }
        }
    }

    /// Where one stands that found this bucket full on its way from its home.
    fn gone_on_from(&self, number: usize, hash_of: impl Fn(usize) -> u32) -> Option<Place> {
        let mut at = self.next(number);
        loop {
            let way = |from: usize| at.wrapping_sub(from) & self.mask();
            let home = |slot: u16| self.home_of(hash_of(position(slot)));
            let bucket = &self.buckets[at];
            let mut used = bucket.used().iter();
            if let Some(slot) = used.position(|&slot| way(home(slot)) >= way(number)) {
                return Some((at, slot));
            }
            if bucket.room().is_some() {
                return None; // nor did any go on from here
            }
            at = self.next(at);
        }
    }

    /// Notes that an entry has moved.
    pub(super) fn moved(&mut self, hash: u32, from: usize, to: usize) {
        if let Some((bucket, at)) = self.place_of(hash, from) {
            let moved = &mut self.buckets[bucket].0[at];
            *moved = *moved & TAG | slot(0, to) & !TAG;
        }
    }

    /// The place of a position. Searched everywhere if need be, as a hash that was not the key's may
    /// have brought it where this one does not lead: a slot left behind would never be freed.
    fn place_of(&self, hash: u32, position: usize) -> Option<Place> {
        if let Ok((_, place)) = self.search(hash, |found| found == position) {
            return Some(place);
        }
        let mut buckets = self.buckets.iter().enumerate();
        buckets.find_map(|(number, bucket)| {
            let mut used = bucket.used().iter();
            let at = used.position(|&slot| self::position(slot) == position);
            at.map(|at| (number, at))
        })
    }

    #[inline]
    fn home_of(&self, hash: u32) -> usize {
        hash as usize & self.mask()
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }
}

impl Bucket {
    /// The slots with this tag, a bit for each.
    #[inline]
    fn tagged(&self, tag: u16) -> u32 {
        let tags = u16x8::new(self.0) & u16x8::splat(TAG);
        tags.simd_eq(u16x8::splat(tag)).to_bitmask()
    }

    /// The first empty slot, if any.
    #[inline]
    fn room(&self) -> Option<usize> {
        let empty = u16x8::new(self.0).simd_eq(u16x8::splat(EMPTY)).to_bitmask();
        (empty != 0).then_some(empty.trailing_zeros() as usize % SLOTS)
    }

    fn used(&self) -> &[u16] {
        &self.0[..self.room().unwrap_or(SLOTS)]
    }

    /// Empties a slot that is in use, and moves the last one there. Returns whether all were in use.
    fn take(&mut self, at: usize) -> bool {
        let used = self.used().len();
        self.0[at] = self.0[used - 1];
        self.0[used - 1] = EMPTY;
        used == SLOTS
    }
}

const TAG: u16 = 0xff00;

/// From the highest bits of the hash, which neither the home nor a small directory uses; never zero.
#[inline]
fn tag(hash: u32) -> u16 {
    let [highest, ..] = hash.to_be_bytes();
    u16::from_be_bytes([highest.max(1), 0])
}

#[inline]
fn slot(hash: u32, position: usize) -> u16 {
    tag(hash) | u16::try_from(position).expect("below `ENTRIES_MAX`")
}

#[inline]
fn position(slot: u16) -> usize {
    (slot & !TAG) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::{ENTRIES_MAX, Index, SLOTS, Slabs};

    /// Few homes, so that buckets get full and go on in others, and few tags, so that tags do not tell.
    fn hash() -> impl Strategy<Value = u32> {
        (
            prop_oneof![Just(0_u32), Just(1), Just(30), 0..32_u32],
            0..3_u32,
        )
            .prop_map(|(home, tag)| home | tag << 24)
    }

    proptest! {
        #[test]
        fn each_position_is_found_by_its_hash_as_long_as_it_is_there(
            entries in 1..=ENTRIES_MAX / 4,
            steps in vec((0..ENTRIES_MAX / 4, hash(), any::<bool>()), 1..300),
        ) {
            let mut index = Index::with_room_for(entries, &Slabs::new());
            let mut there = BTreeMap::new();
            for (position, hash, is_known) in steps {
                if let Some(known) = there.remove(&position) {
                    // One time with a hash that is not the key's.
                    let hash = if is_known { known } else { hash };
                    index.remove(hash, position, |other| there[&other]);
                } else if index.has_room_for(there.len() + 1) {
                    index.insert(hash, position);
                    there.insert(position, hash);
                }
                for (&position, &hash) in &there {
                    prop_assert_eq!(index.find(hash, |at| at == position), Some(position));
                }
                let found: usize = index.buckets.iter().map(|bucket| bucket.used().len()).sum();
                prop_assert_eq!(found, there.len(), "nothing is left behind");
                for bucket in index.buckets.iter() {
                    let rest = &bucket.0[bucket.used().len()..];
                    prop_assert!(rest.iter().all(|&slot| slot == 0));
                }
            }
        }
    }

    #[test]
    fn an_entry_that_moves_is_found_where_it_is() {
        let mut index = Index::with_room_for(2 * SLOTS, &Slabs::new());
        (0..=SLOTS).for_each(|position| index.insert(7, position));
        index.moved(7, SLOTS, 100);
        index.moved(8, 0, 101); // by a hash that is not the key's
        for (from, to) in [(SLOTS, 100), (0, 101)] {
            assert_eq!(index.find(7, |at| at == from), None);
            assert_eq!(index.find(7, |at| at == to), Some(to));
        }
    }
}
