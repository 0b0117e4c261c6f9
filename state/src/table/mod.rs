//! The table of one state: a hash table in blocks, by key group, which can be frozen in no time.
//!
//! ```text
//! hash ─ upper half ─▶ key group ─▶ directory ─ bits 9.. of the lower half ─▶ block ─ index ─▶ entry
//! ```
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979) with small blocks as buckets. The
//! entries of a block stand one after the other, without gaps and without hashes, which makes them quick to copy
//! and to write; what finds them is the task's alone. A full block splits alone, so growth never stops
//! the task for a rehash of everything: the longest steps are one block's split (some microseconds)
//! and the doubling of one group's directory of 4-byte numbers. Blocks are not merged when keys go; a
//! restore packs them anew.

mod blocks;
mod hints;
mod index;
mod load;

use std::{iter, mem};

use cutwater_keygroups::{Key, KeyHash};

pub(crate) use blocks::{BlockId, ByGroup, Frozen, Spot};
use blocks::{Blocks, Entries};
use hints::Hints;
use index::{ENTRIES_MAX, HOME_BITS, Index};

/// So many keys are best [prefetched](crate::KeyedStates::prefetch) at a time: a few times as many misses as a
/// processor has under way, and few enough entries to be in the nearest cache when it is their turn.
pub const AHEAD: usize = 64;

/// The number of no block.
const NOWHERE: u32 = u32::MAX;

/// Bits of a hash that are left for the directory: the upper half of it chose the group.
const DIRECTORY_BITS: u32 = 32 - HOME_BITS;

/// A value that owns memory counts for so many bytes more, as a guess at what it owns.
const OWNED: usize = 96;

/// A block splits only if its entries differ in one of so many directory bits: each doubles the
/// directory.
const BITS_AHEAD: u32 = 4;

/// Entries of all owned groups, which are counted from zero here.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    /// For each group a directory: for each value of the lowest directory bits, the number of the block.
    /// Empty as long as the group is.
    groups: Box<[Vec<u32>]>,
    blocks: Blocks<K, V, Header>,
    /// Which of the blocks' notes is for which access of the current batch.
    hints: Hints,
}

/// What the table knows of a block.
#[derive(Debug)]
struct Header {
    index: Index,
    /// About so many entries will come, as a restore knows: room is made for them, once there is one.
    expected: u32,
    /// How many directory bits all its entries have in common.
    depth: u32,
    /// A block for more entries whose hashes agree in all bits that could tell them apart.
    next: Option<u32>,
}

/// A key to be looked for, which may be in other pieces than the stored ones.
pub(crate) trait Lookup<K>: Copy {
    /// Whether `found` is this key.
    fn is(self, found: &K) -> bool;

    /// This key, to be stored.
    fn stored(self) -> K;
}

impl<K: Clone + Eq> Lookup<K> for &K {
    #[inline]
    fn is(self, found: &K) -> bool {
        self == found
    }

    #[inline]
    fn stored(self) -> K {
        self.clone()
    }
}

impl<K: Key, V: Clone> Table<K, V> {
    /// Entries of a full block: about 4 KiB, the bytes that the first write after a snapshot copies, and that
    /// the next one writes. 256 for a `u64` key and an `i64` value.
    const FULL: usize = {
        let owned = if mem::needs_drop::<V>() { OWNED } else { 0 };
        let mut entries = 8;
        while entries < ENTRIES_MAX && 2 * entries * (size_of::<(K, V)>() + owned) <= 4096 {
            entries *= 2;
        }
        entries
    };

    pub(crate) fn new(groups: usize) -> Self {
        Self {
            groups: vec![Vec::new(); groups].into(),
            blocks: Blocks::new(Self::FULL),
            hints: Hints::default(),
        }
    }

    /// The value at a spot.
    #[inline]
    pub(crate) fn value(&self, spot: Spot) -> &V {
        self.blocks.value(spot)
    }

    /// The value at a spot, to change in place.
    #[inline]
    pub(crate) fn value_mut(&mut self, spot: Spot) -> &mut V {
        self.blocks.value_mut(spot)
    }

    /// Lends the value at a spot, whose key has this hash, to be changed or taken: then the entry is removed.
    #[inline]
    pub(crate) fn lend<R>(
        &mut self,
        spot: Spot,
        hash: KeyHash,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> R {
        self.blocks.lend(spot, f, |at, entries, header| {
            // The last entry stands at `at` now, or `at` was the last one. (None at all is there
            // for a position if hashes were not those of the keys.)
            let last = entries.len();
            let hash_of = |position| {
                let position = if position == last { at } else { position };
                entries.get(position).map_or(hash.lower(), lower)
            };
            header.index.remove(hash.lower(), at, hash_of);
            if at < last {
                header.index.moved(lower(&entries[at]), last, at);
            }
        })
    }

    /// The value of `key`, if it is the next one that was prefetched, and still where it was. Keys of groups that
    /// are not owned were not looked for.
    #[inline]
    pub(crate) fn recall(&self, hash: KeyHash, key: impl Lookup<K>) -> Option<&V> {
        let note = self.hints.next_if(hash)?;
        let (found, value) = self.blocks.noted(note)?;
        key.is(found).then_some(value)
    }

    /// As [`recall`](Self::recall), where the value is, if nothing stands between it and a write.
    #[inline]
    pub(crate) fn recall_to_write(&self, hash: KeyHash, key: impl Lookup<K>) -> Option<Spot> {
        let note = self.hints.next_if(hash)?;
        let (found, _) = self.blocks.noted_to_write(note)?;
        key.is(found).then_some(Spot::Noted(note))
    }

    /// Where `key` is.
    pub(crate) fn find(&self, group: usize, hash: KeyHash, key: impl Lookup<K>) -> Option<Spot> {
        self.find_near(hash, key)
            .or_else(|| self.search(group, hash, key))
    }

    /// Where `key` is, if it is one of the next that were prefetched, or the last.
    fn find_near(&self, hash: KeyHash, key: impl Lookup<K>) -> Option<Spot> {
        let next = self.hints.next_if(hash);
        let note = next.or_else(|| self.hints.near(hash))?;
        let (number, at) = self.blocks.place_noted(note)?;
        let (found, _) = self.blocks.get(number)?.entries().get(at)?;
        key.is(found).then_some(Spot::At(number, at))
    }

    /// Where `key` is, without a hint.
    pub(crate) fn search(&self, group: usize, hash: KeyHash, key: impl Lookup<K>) -> Option<Spot> {
        let mut number = self.block_of(group, hash)?;
        loop {
            let block = self.blocks.block(number);
            let (header, entries) = (block.extra(), block.entries());
            let is = |at: usize| entries.get(at).is_some_and(|(found, _)| key.is(found));
            if let Some(at) = header.index.find(hash.lower(), is) {
                return Some(Spot::At(number, at));
            }
            number = header.next? as usize;
        }
    }

    /// The first block for `hash`; `None` only if the group never had an entry.
    #[inline]
    fn block_of(&self, group: usize, hash: KeyHash) -> Option<usize> {
        block_of(&self.groups, group, hash).map(|number| number as usize)
    }

    /// Brings what accesses to these hashes would read into the cache, and remembers where each was,
    /// for accesses in the same order. `group_of` tells the group, which may be none of ours.
    ///
    /// In passes over a few hashes at a time, each of which asks for what the next one reads: the block's head, its
    /// index, the entry. So dozens of cache misses are under way at once; and the less a pass does for a hash, the
    /// further ahead the processor works by itself.
    pub(crate) fn prefetch(&mut self, hashes: &[KeyHash], group_of: impl Fn(KeyHash) -> usize) {
        self.hints.start(hashes);
        self.blocks.forget();
        for hashes in hashes.chunks(AHEAD) {
            let mut numbers = [NOWHERE; AHEAD];
            for (&hash, number) in hashes.iter().zip(&mut numbers) {
                *number = block_of(&self.groups, group_of(hash), hash).unwrap_or(NOWHERE);
            }
            let sought = || {
                numbers
                    .iter()
                    .zip(hashes)
                    .map(|(&number, hash)| (number, hash.lower()))
            };
            for (number, _) in sought() {
                if let Some(block) = self.blocks.get(number as usize) {
                    blocks::fetch(block);
                }
            }
            for (number, hash) in sought() {
                if let Some(block) = self.blocks.get(number as usize) {
                    blocks::fetch(block.extra().index.home(hash));
                }
            }
            self.blocks
                .note(sought(), |header, hash| header.index.find(hash, |_| true));
        }
    }

    /// Each entry once, in no particular order.
    pub(crate) fn iter(&mut self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.blocks.iter().flatten();
        entries.map(|(key, value)| (key, value))
    }

    /// The entries of one group, in no particular order.
    pub(crate) fn iter_group(&mut self, group: usize) -> impl Iterator<Item = (&K, &V)> {
        self.blocks.put_pending();
        let directory = &self.groups[group];
        let firsts = directory.iter().enumerate().filter(|&(at, &number)| {
            at >> self.header(number as usize).depth == 0 // not once more with a higher bit set
        });
        firsts
            .flat_map(|(_, &number)| self.chain(number as usize))
            .flat_map(|number| self.entries(number))
            .map(|(key, value)| (key, value))
    }

    /// The entries of a block, of which there are so many as [`blocks`](Self::blocks) says.
    pub(crate) fn block(&mut self, number: usize) -> Option<&[(K, V)]> {
        self.blocks.put_pending();
        (number < self.blocks.len()).then(|| self.entries(number))
    }

    /// A view of all entries as of now, by group, which later writes do not change; or only of the blocks
    /// written to since the freeze whose epoch was `base`.
    pub(crate) fn freeze(&mut self, base: Option<u64>) -> Frozen<K, V> {
        self.blocks.freeze(base)
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Removes the entries of a block whose values `keep` refuses; returns how many those were.
    pub(crate) fn retain_in(&mut self, number: usize, keep: impl FnMut(&V) -> bool) -> usize {
        self.blocks.put_pending();
        let values = self.entries(number).iter().map(|(_, value)| value);
        let kept: Vec<bool> = values.map(keep).collect();
        let before = kept.len();
        if kept.iter().all(|&kept| kept) {
            return 0; // not even copied aside for a snapshot
        }
        self.blocks.modify(number, |entries, header| {
            let mut kept = kept.into_iter();
            entries.retain(|_| kept.next().expect("one for each entry"));
            header.index = Index::with_room_for(entries.len().max(1), entries.allocator());
            for (at, entry) in entries.iter().enumerate() {
                header.index.insert(lower(entry), at);
            }
            before - entries.len()
        })
    }

    /// Adds an entry whose key is not there yet; returns where.
    #[cold]
    pub(crate) fn insert(&mut self, group: usize, hash: KeyHash, entry: (K, V)) -> Spot {
        if self.groups[group].is_empty() {
            let number = self.add_block(group, 0);
            self.groups[group].push(number);
        }
        loop {
            let first = self.block_of(group, hash).expect("made above if missing");
            if let Some(number) = self.with_room(first) {
                return Spot::At(number, self.append(number, hash.lower(), entry));
            }
            if !self.split(group, first) {
                self.prolong(group, first);
            }
        }
    }

    #[inline]
    fn header(&self, number: usize) -> &Header {
        self.blocks.block(number).extra()
    }

    #[inline]
    fn entries(&self, number: usize) -> &[(K, V)] {
        self.blocks.block(number).entries()
    }

    /// The block `first` and those which continue it.
    fn chain(&self, first: usize) -> impl Iterator<Item = usize> {
        let next = |&number: &usize| self.header(number).next.map(|next| next as usize);
        iter::successors(Some(first), next)
    }

    fn with_room(&self, first: usize) -> Option<usize> {
        self.chain(first)
            .find(|&number| self.entries(number).len() < Self::FULL)
    }

    fn add_block(&mut self, group: usize, depth: u32) -> u32 {
        let group = u16::try_from(group).expect("groups are numbered in 16 bits");
        let header = Header {
            index: Index::with_room_for(1, self.blocks.slabs()),
            expected: 0,
            depth,
            next: None,
        };
        u32::try_from(self.blocks.push(group, header)).expect("fewer blocks than 2^32")
    }

    /// Adds an entry to a block that is not full; returns its position.
    fn append(&mut self, number: usize, hash: u32, entry: (K, V)) -> usize {
        self.blocks.modify(number, |entries, header| {
            let at = entries.len();
            Self::reserve(entries, header, at + 1);
            header.index.insert(hash, at);
            entries.push(entry);
            at
        })
    }

    /// Makes room in a block for so many entries altogether.
    #[inline]
    fn reserve(entries: &mut Entries<K, V>, header: &mut Header, count: usize) {
        let count = count.max(Self::room(header));
        if count > entries.capacity() {
            entries.reserve_exact(Self::capacity_for(count) - entries.len());
        }
        Self::reserve_index(entries, header, count);
    }

    /// Makes room in the index alone.
    #[inline]
    fn reserve_index(entries: &Entries<K, V>, header: &mut Header, count: usize) {
        let count = count.max(Self::room(header));
        if !header.index.has_room_for(count) {
            let mut index = Index::with_room_for(count, entries.allocator());
            for (at, entry) in entries.iter().enumerate() {
                index.insert(lower(entry), at);
            }
            header.index = index;
        }
    }

    /// Room for the entries that a block expects, some more by chance, and no more than it can have.
    fn room(header: &Header) -> usize {
        let expected = header.expected as usize;
        (expected + expected / 16).min(Self::FULL)
    }

    /// Room for so many entries or a few more: powers of two in small blocks, so that 32768 groups with
    /// one key each stay small, and eighths of a full block after that.
    fn capacity_for(entries: usize) -> usize {
        if entries <= Self::FULL / 2 {
            entries.next_power_of_two().max(2)
        } else {
            entries.next_multiple_of(Self::FULL / 8)
        }
    }

    /// Distributes the entries of `first`, and of the blocks that continue it, over it and a new block
    /// by one more bit of their hashes. `false` if there is no bit that would separate them.
    fn split(&mut self, group: usize, first: usize) -> bool {
        let depth = self.header(first).depth;
        let chain: Vec<usize> = self.chain(first).collect();
        // All hashes before anything moves: a user's `key_hash` may panic.
        let entries = chain.iter().flat_map(|&n| self.entries(n));
        let hashes: Vec<u32> = entries.map(lower).collect();
        let bits = |hash: u32| hash >> HOME_BITS >> depth;
        let ahead = (1 << BITS_AHEAD.min(DIRECTORY_BITS - depth)) - 1;
        let differ = hashes
            .iter()
            .fold(0, |all, &hash| all | (bits(hash) ^ bits(hashes[0])));
        if differ & ahead == 0 {
            return false;
        }

        let second = self.divide(group, first, (hashes[0] >> HOME_BITS) as usize);
        let mut moving = Vec::with_capacity(hashes.len());
        for &number in &chain {
            self.blocks.modify(number, |entries, header| {
                let slabs = entries.allocator().clone();
                header.index = Index::with_room_for(1, &slabs);
                moving.extend(mem::replace(entries, Entries::new_in(slabs)));
                header.depth = depth + 1;
            });
        }
        let ones = hashes.iter().filter(|&&hash| bits(hash) & 1 == 1).count();
        for (number, count) in [(first, hashes.len() - ones), (second, ones)] {
            let room = count.min(Self::FULL);
            self.blocks.modify(number, |entries, header| {
                Self::reserve(entries, header, room);
            });
        }
        for (hash, entry) in hashes.into_iter().zip(moving) {
            let side = if bits(hash) & 1 == 1 { second } else { first };
            let number = self.with_room(side);
            let number = number.unwrap_or_else(|| self.prolong(group, side));
            self.append(number, hash, entry);
        }
        true
    }

    /// Adds a block for those keys of `first` whose next bit is one, and returns its number. The lowest bits of
    /// `prefix` are what all keys of `first` have in common.
    fn divide(&mut self, group: usize, first: usize, prefix: usize) -> usize {
        let Header {
            depth, expected, ..
        } = *self.header(first);
        let directory = &mut self.groups[group];
        if directory.len() == 1 << depth {
            directory.extend_from_within(..);
        }
        let second = self.add_block(group, depth + 1);
        let common = prefix & ((1 << depth) - 1);
        let ones = self.groups[group][common | 1 << depth..].iter_mut();
        for number in ones.step_by(2 << depth) {
            *number = second;
        }
        let second = second as usize;
        for number in [first, second] {
            let header = self.blocks.extra_mut(number);
            (header.depth, header.expected) = (depth + 1, expected / 2);
        }
        second
    }

    /// Adds a block to the end of a chain.
    fn prolong(&mut self, group: usize, first: usize) -> usize {
        let last = self.chain(first).last().expect("at least the first");
        let added = self.add_block(group, self.header(last).depth);
        self.blocks.extra_mut(last).next = Some(added);
        added as usize
    }
}

/// As [`Table::block_of`]; `None` also if there is no such group.
#[inline]
fn block_of(groups: &[Vec<u32>], group: usize, hash: KeyHash) -> Option<u32> {
    let directory = groups.get(group)?;
    // An empty directory wraps to a mask of all ones, which finds nothing.
    let mask = directory.len().wrapping_sub(1);
    let at = (hash.lower() >> HOME_BITS) as usize & mask;
    directory.get(at).copied()
}

/// The half of the hash that tells the keys of a group apart.
fn lower<K: Key, V>((key, _): &(K, V)) -> u32 {
    key.key_hash().lower()
}
