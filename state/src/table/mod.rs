//! The table of one state: a hash table in regions, by key group, which can be frozen in no time.
//!
//! ```text
//! hash ─ upper half ─▶ key group ─▶ directory ─ bits 10.. of the lower half ─▶ region ─ bits 1..10 ─▶ slot
//! ```
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979) with a small open-addressing
//! table as bucket. A group's regions stay together, as the group is what a snapshot lists and a
//! restore asks for. A full region splits alone, so growth never stops the task for a rehash of
//! everything: the longest steps are one region's split (some microseconds) and the doubling of one
//! group's directory of 4-byte numbers. Regions are not merged when keys go; a restore packs them anew.

mod hints;
mod recycle;
mod region;
mod slots;

use std::{hint, sync::Arc};

use cutwater_keygroups::KeyHash;

use hints::{Hint, Hints};
use recycle::{Recycle, Returned};
use region::Region;
use slots::{DIRECTORY_BITS, Entry, SLOTS_MIN, Slots, Tag, home, probe_tag, slots_max};

/// So many slots are fetched at once: about as many misses as a processor has under way.
const TOGETHER: usize = 32;

/// Entries of all owned groups, which are counted from zero here.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    groups: Vec<Group<K, V>>,
    recycle: Recycle<K, V>,
    /// Where the keys of the current batch were when it was prefetched.
    hints: Hints,
}

#[derive(Debug)]
struct Group<K, V> {
    /// For each value of the `depth` lowest directory bits, an index into `regions`. Empty as long as
    /// the group is.
    directory: Vec<u32>,
    regions: Vec<Bucket<K, V>>,
}

/// A region, and how many directory bits all its entries have in common.
#[derive(Debug)]
struct Bucket<K, V> {
    region: Region<K, V>,
    depth: u32,
}

impl<K: Eq + Clone, V: Clone> Table<K, V> {
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            groups: (0..groups).map(|_| Group::new()).collect(),
            recycle: Recycle::new(slots_max::<K, V>()),
            hints: Hints::default(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, group: usize, hash: KeyHash, key: &K) -> Option<&V> {
        let (number, at) = self.find(group, hash, key)?;
        let slots = self.groups[group].regions[number].region.slots();
        Some(&slots[at].as_ref().expect("an entry was found there").2)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, group: usize, hash: KeyHash, key: &K) -> Option<&mut V> {
        let (number, at) = self.find(group, hash, key)?;
        let region = &mut self.groups[group].regions[number].region;
        Some(region.value_mut(at, &mut self.recycle))
    }

    /// Lends the value of `key`, or else what `default` makes.
    #[inline]
    pub(crate) fn or_insert_with(
        &mut self,
        group: usize,
        hash: KeyHash,
        key: &K,
        default: impl FnOnce() -> V,
    ) -> &mut V {
        let (number, at) = self.find(group, hash, key).unwrap_or_else(|| {
            let entry = (Tag::of(hash), key.clone(), default());
            self.groups[group].insert(entry, &mut self.recycle)
        });
        self.groups[group].regions[number]
            .region
            .value_mut(at, &mut self.recycle)
    }

    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        group: usize,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> R {
        if let Some((number, at)) = self.find(group, hash, key) {
            let region = &mut self.groups[group].regions[number].region;
            return region.update(at, &mut self.recycle, f);
        }
        let mut value = None;
        let result = f(&mut value);
        if let Some(value) = value {
            let entry = (Tag::of(hash), key.clone(), value);
            self.groups[group].insert(entry, &mut self.recycle);
        }
        result
    }

    /// The region and slot of `key`: where the prefetch saw it, if it is still there.
    #[inline]
    fn find(&self, group: usize, hash: KeyHash, key: &K) -> Option<(usize, usize)> {
        let group = &self.groups[group];
        if let Some(Hint { region, slot, .. }) = self.hints.next_for(hash) {
            let (number, at) = (region as usize, slot as usize);
            if let Some(bucket) = group.regions.get(number)
                && let Some(Some((_, found, _))) = bucket.region.slots().get(at)
                && found == key
            {
                return Some((number, at));
            }
        }
        let tag = Tag::of(hash);
        let number = group.region_of(tag)?;
        Some((number, group.regions[number].region.find(tag, key)?))
    }

    /// Brings what accesses to these hashes would read into the cache, and remembers where each was,
    /// for accesses in the same order. `group_of` tells the group, or `None` if it is not owned.
    ///
    /// In three passes over a few hashes at a time. The first finds out which slot to look at, from
    /// directories that are mostly cached; the second only reads these slots, in a loop so short that
    /// the processor has dozens of its misses under way at once; the third looks at what has arrived.
    pub(crate) fn prefetch(
        &mut self,
        hashes: &[KeyHash],
        group_of: impl Fn(KeyHash) -> Option<usize>,
    ) {
        self.hints.clear();
        for hashes in hashes.chunks(TOGETHER) {
            let mut starts = [None; TOGETHER];
            for (start, &hash) in starts.iter_mut().zip(hashes) {
                *start = group_of(hash).and_then(|group| {
                    let group = &self.groups[group];
                    let number = group.region_of(Tag::of(hash))?;
                    Some((number, group.regions[number].region.slots()))
                });
            }
            let mut filled = 0_usize;
            for (start, &hash) in starts.iter().zip(hashes) {
                if let Some((_, slots)) = start {
                    // The search may go on in the next slot, and that in the next cache line.
                    let first = home(Tag::of(hash), slots.len());
                    let second = (first + 1) & (slots.len() - 1);
                    filled += usize::from(slots[first].is_some());
                    filled += usize::from(slots[second].is_some());
                }
            }
            hint::black_box(filled); // or the compiler merges this loop with the next
            for (start, &hash) in starts.iter().zip(hashes) {
                if let Some((number, slots)) = *start
                    && let Some(slot) = probe_tag(slots, Tag::of(hash))
                {
                    self.hints.push(hash, number, slot);
                }
            }
        }
    }

    /// Each entry once, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let buckets = self.groups.iter().flat_map(|group| &group.regions);
        let slots = buckets.flat_map(|bucket| bucket.region.slots());
        slots.flatten().map(|(_, key, value)| (key, value))
    }

    /// A view of all entries as of now, which later writes do not change.
    pub(crate) fn freeze(&mut self) -> FrozenTable<K, V> {
        let mut regions = Vec::with_capacity(self.groups.iter().map(|g| g.regions.len()).sum());
        for (number, group) in self.groups.iter_mut().enumerate() {
            let filled = group.regions.iter_mut().filter(|b| !b.region.is_empty());
            regions.extend(filled.map(|bucket| (number, bucket.region.freeze())));
        }
        FrozenTable {
            regions,
            returned: self.recycle.returned(),
        }
    }
}

impl<K: Eq + Clone, V: Clone> Group<K, V> {
    const fn new() -> Self {
        Self {
            directory: Vec::new(),
            regions: Vec::new(),
        }
    }

    /// The number of the region for `tag`; `None` only if the group has no entry.
    #[inline]
    fn region_of(&self, tag: Tag) -> Option<usize> {
        // An empty directory wraps to a mask of all ones, which finds nothing.
        let mask = self.directory.len().wrapping_sub(1);
        Some(*self.directory.get(tag.directory_bits() & mask)? as usize)
    }

    /// Adds an entry whose key is not there yet; returns its region and slot.
    #[cold]
    fn insert(&mut self, entry: Entry<K, V>, recycle: &mut Recycle<K, V>) -> (usize, usize) {
        if self.directory.is_empty() {
            self.directory.push(0);
            let region = Region::new(recycle.empty(SLOTS_MIN));
            self.regions.push(Bucket { region, depth: 0 });
        }
        loop {
            let number = self.region_of(entry.0).expect("made above if missing");
            if !self.regions[number].region.is_full() {
                return (number, self.regions[number].region.insert(entry, recycle));
            }
            if self.can_split(number) {
                self.split(number, recycle);
            } else {
                self.enlarge(number, recycle);
            }
        }
    }

    /// Whether a region has its full size, and splitting it would separate some of its entries.
    ///
    /// Entries whose hashes agree in all these bits would double the directory for nothing; then
    /// the region outgrows its size instead.
    fn can_split(&self, number: usize) -> bool {
        let Bucket { region, depth } = &self.regions[number];
        if region.slots().len() < slots_max::<K, V>() || *depth >= DIRECTORY_BITS {
            return false;
        }
        let mut sides = region.slots().iter().flatten().map(|e| side(e.0, *depth));
        let first = sides.next();
        sides.any(|side| Some(side) != first)
    }

    fn split(&mut self, number: usize, recycle: &mut Recycle<K, V>) {
        let depth = self.regions[number].depth;
        if self.directory.len() == 1 << depth {
            self.directory.extend_from_within(..);
        }
        let mut slots = self.regions[number].region.take_slots(recycle);
        let mut halves = [(); 2].map(|()| Region::new(recycle.empty(slots.len())));
        let mut common = 0; // the directory bits below `depth`
        for entry in slots.iter_mut().filter_map(Option::take) {
            common = entry.0.directory_bits() & ((1 << depth) - 1);
            halves[side(entry.0, depth)].insert(entry, recycle);
        }
        recycle.keep(slots);
        let added =
            u32::try_from(self.regions.len()).expect("fewer regions than directory bits allow");
        let ones = common | 1 << depth;
        for pointer in self.directory[ones..].iter_mut().step_by(2 << depth) {
            *pointer = added;
        }
        let [zeros, ones] = halves.map(|region| Bucket {
            region,
            depth: depth + 1,
        });
        self.regions[number] = zeros;
        self.regions.push(ones);
    }

    fn enlarge(&mut self, number: usize, recycle: &mut Recycle<K, V>) {
        let region = &mut self.regions[number].region;
        let mut slots = region.take_slots(recycle);
        let mut larger = Region::new(recycle.empty(2 * slots.len()));
        for entry in slots.iter_mut().filter_map(Option::take) {
            larger.insert(entry, recycle);
        }
        *region = larger;
    }
}

/// On which side of a split a tag falls.
fn side(tag: Tag, depth: u32) -> usize {
    tag.directory_bits() >> depth & 1
}

/// A table as of one moment, for the snapshot's writer.
#[derive(Debug)]
pub(crate) struct FrozenTable<K, V> {
    /// In order of groups.
    regions: Vec<(usize, Arc<Slots<K, V>>)>,
    returned: Returned<K, V>,
}

impl<K, V> FrozenTable<K, V> {
    /// Calls `f` with the group, key and value of each entry, group by group, and lets go of each
    /// region as soon as it is through with it, so that the task need not copy it any more.
    pub(crate) fn drain<E>(
        self,
        mut f: impl FnMut(usize, &K, &V) -> Result<(), E>,
    ) -> Result<(), E> {
        for (group, slots) in self.regions {
            for (_, key, value) in slots.iter().flatten() {
                f(group, key, value)?;
            }
            self.returned.done_with(slots);
        }
        Ok(())
    }
}
