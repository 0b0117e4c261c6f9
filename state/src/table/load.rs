//! Filling a table from a snapshot: most of it in one go, block by block.
//!
//! An insertion grows its block step by step until it splits, which would be most of a restore's work. Here entries that
//! follow each other in a snapshot, which nearly always were a block, become one again: what they have in common
//! tells which part of their group it was. Other snapshots have the entries of a group in any order, and then it
//! is laid out for as many as will come. Keys are still looked for: nobody promises that they differ.

use cutwater_keygroups::{Key, KeyHash};

use super::{
    DIRECTORY_BITS, HOME_BITS, Header, Table, block_of,
    blocks::{self, Entries},
};

/// Entries to be loaded, in memory that can become a block's as it is.
#[derive(Debug)]
pub(crate) struct Incoming<K, V> {
    hashes: Vec<KeyHash>,
    entries: Entries<K, V>,
    /// So many there are to be.
    count: usize,
}

impl<K: Key, V> Incoming<K, V> {
    /// Adds the entries that `next` makes, up to the first that it cannot.
    #[inline]
    pub(crate) fn fill<E>(&mut self, next: impl FnMut() -> Result<(K, V), E>) -> Result<(), E> {
        let filled = blocks::extend(&mut self.entries, self.count, next);
        // In a pass of its own, so that several hashes are under way at once.
        let keys = self.entries.iter().map(|(key, _)| key);
        self.hashes.extend(keys.map(Key::key_hash));
        filled
    }

    /// The hashes of their keys.
    pub(crate) fn hashes(&self) -> &[KeyHash] {
        &self.hashes
    }
}

impl<K: Key, V: Clone> Table<K, V> {
    /// Notes that so many entries of a group will come, if it is empty.
    pub(crate) fn expect(&mut self, group: usize, entries: usize) {
        if entries == 0 || !self.groups[group].is_empty() {
            return;
        }
        let number = self.add_block(group, 0);
        self.groups[group].push(number);
        let expected = u32::try_from(entries).unwrap_or(u32::MAX);
        self.blocks.extra_mut(number as usize).expected = expected;
    }

    /// For so many entries, or as many of them as a block can have.
    pub(crate) fn incoming(&self, entries: usize) -> Incoming<K, V> {
        let count = entries.min(Self::FULL);
        self.incoming_with_room(count, count + count / 16)
    }

    fn incoming_with_room(&self, count: usize, room: usize) -> Incoming<K, V> {
        let room = Self::capacity_for(room.clamp(count, Self::FULL));
        Incoming {
            hashes: Vec::with_capacity(count),
            entries: Entries::with_capacity_in(room, self.blocks.slabs().clone()),
            count,
        }
    }

    /// Adds entries of one group, or replaces those of the same keys.
    pub(crate) fn load(&mut self, group: usize, incoming: Incoming<K, V>) {
        let Incoming {
            hashes, entries, ..
        } = incoming;
        let Some(&first) = hashes.first() else {
            return;
        };
        let common = common_bits(&hashes);
        let block = self.block_of(group, first);
        let block = block.map(|number| self.divided(group, number, first, common));
        if block.is_none_or(|number| self.header(number).depth <= common) {
            return self.load_together(group, &hashes, entries);
        }
        let block_of = |&hash| block_of(&self.groups, group, hash);
        let mut order: Vec<_> = hashes.iter().map(block_of).zip(0..).collect();
        order.sort_unstable();
        let mut entries: Vec<_> = entries.into_iter().map(Some).collect();
        for run in order.chunk_by(|(one, _), (other, _)| one == other) {
            let (block, _) = run[0];
            let room = block.map_or(0, |number| Self::room(self.header(number as usize)));
            let mut incoming = self.incoming_with_room(run.len(), room);
            for &(_, at) in run {
                let entry: Option<_> = entries[at].take();
                incoming.entries.push(entry.expect("each once"));
                incoming.hashes.push(hashes[at]);
            }
            self.load_together(group, &incoming.hashes, incoming.entries);
        }
    }

    /// Divides an empty block until keys with so many bits in common, of which `hash` is one, may be all of theirs.
    /// Returns the one for them.
    fn divided(&mut self, group: usize, block: usize, hash: KeyHash, common: u32) -> usize {
        let prefix = (hash.lower() >> HOME_BITS) as usize;
        let mut number = block;
        while self.entries(number).is_empty() && self.header(number).depth < DIRECTORY_BITS {
            let &Header {
                depth, expected, ..
            } = self.header(number);
            let expected = expected as usize;
            if depth < common && expected > Self::FULL / 2 {
                self.divide(group, number, prefix);
            } else if expected > 2 * Self::FULL {
                // They are not what was a block: there would be fewer like them.
                self.lay_out(group, number, prefix);
            } else {
                break;
            }
            number = self
                .block_of(group, hash)
                .expect("there is one for each hash");
        }
        number
    }

    /// Divides an empty block, and its parts, so that what they expect fits. Those that get too many by chance split.
    fn lay_out(&mut self, group: usize, number: usize, prefix: usize) {
        let &Header {
            depth, expected, ..
        } = self.header(number);
        if expected as usize > Self::FULL / 8 * 7 && depth < DIRECTORY_BITS {
            let second = self.divide(group, number, prefix);
            self.lay_out(group, number, prefix & !(1 << depth));
            self.lay_out(group, second, prefix | 1 << depth);
        }
    }

    /// As [`load`](Self::load), for entries that have the same block, if there is one.
    fn load_together(&mut self, group: usize, hashes: &[KeyHash], entries: Entries<K, V>) {
        let first = hashes.first();
        let block = first.and_then(|first| self.block_of(group, *first));
        let block = block.filter(|&number| self.has_room_for(number, hashes.len()));
        let (new, rest) = match block {
            Some(number) => self.load_new(number, hashes, entries),
            None => (0, entries),
        };
        for (hash, entry) in hashes[new..].iter().zip(rest) {
            self.load_one(group, *hash, entry);
        }
    }

    fn has_room_for(&self, number: usize, count: usize) -> bool {
        let is_whole = self.header(number).next.is_none();
        is_whole && self.entries(number).len() + count <= Self::FULL
    }

    /// Moves entries into a block that has room for them, up to the first whose key is there already. Returns how many,
    /// and the rest.
    fn load_new(
        &mut self,
        number: usize,
        hashes: &[KeyHash],
        mut from: Entries<K, V>,
    ) -> (usize, Entries<K, V>) {
        self.blocks.modify(number, |entries, header| {
            let there = entries.len();
            Self::reserve_index(entries, header, there + hashes.len());
            let key = |at: usize| match at.checked_sub(there) {
                Some(new) => from.get(new).map(|(key, _)| key),
                None => entries.get(at).map(|(key, _)| key),
            };
            let is_same = |one, other| key(one) == key(other);
            let new = header.index.insert_new(hashes, there, is_same);
            let rest = from.split_off(new);
            if there == 0 {
                *entries = from;
            } else {
                entries.append(&mut from);
            }
            (new, rest)
        })
    }

    fn load_one(&mut self, group: usize, hash: KeyHash, (key, value): (K, V)) {
        match self.search(group, hash, &key) {
            Some(spot) => *self.value_mut(spot) = value,
            None => _ = self.insert(group, hash, (key, value)),
        }
    }
}

/// How many directory bits all these hashes have in common.
fn common_bits(hashes: &[KeyHash]) -> u32 {
    let differs = |hash: &KeyHash| (hash.lower() ^ hashes[0].lower()) >> HOME_BITS;
    let differ = hashes.iter().fold(0, |all, hash| all | differs(hash));
    differ.trailing_zeros().min(DIRECTORY_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cutwater_keygroups::{DecodeError, Grouping, Key, KeyHash};

    use super::Table;

    /// A key of which many have the same hash.
    #[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
    struct Clashing(u64);

    impl Key for Clashing {
        const GROUPING: Grouping = u64::GROUPING;

        fn key_hash(&self) -> KeyHash {
            (self.0 % 2).key_hash()
        }

        fn encode(&self, out: &mut Vec<u8>) {
            self.0.encode(out);
        }

        fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
            u64::decode(bytes).map(Self)
        }

        fn schema() -> String {
            u64::schema()
        }
    }

    fn load<K: Key, V: Clone>(
        table: &mut Table<K, V>,
        mut entries: impl ExactSizeIterator<Item = (K, V)>,
    ) {
        let mut incoming = table.incoming(entries.len());
        let filled = incoming.fill(|| entries.next().ok_or("there are fewer"));
        assert_eq!(filled, Ok(()));
        table.load(0, incoming);
    }

    /// Loads these keys, each twice with another value, and compares with a map.
    fn loads<K: Key + Ord>(keys: &[K], expected: usize) {
        let mut table = Table::<K, u32>::new(1);
        table.expect(0, expected);
        let mut map = BTreeMap::new();
        for (value, keys) in keys.chunks(100).chain(keys.chunks(70)).enumerate() {
            let value = u32::try_from(value).unwrap();
            load(&mut table, keys.iter().map(|key| (key.clone(), value)));
            map.extend(keys.iter().map(|key| (key.clone(), value)));
        }
        let found: BTreeMap<K, u32> = table.iter().map(|(k, v)| (k.clone(), *v)).collect();
        assert_eq!(table.iter().count(), map.len());
        assert!(found == map);
        for (key, value) in &map {
            let spot = table.find(0, key.key_hash(), key).unwrap();
            assert_eq!(table.value(spot), value);
            // Where another key with this hash was found instead, nothing is recalled.
            let hashes = [key.key_hash(); 2];
            table.prefetch(&hashes, |_| 0);
            let recalled = table.recall(hashes[0], key);
            assert!(recalled.is_none_or(|recalled| recalled == value));
            let recalled = table.recall_to_write(hashes[1], key);
            assert!(recalled.is_none_or(|spot| table.value_mut(spot) == value));
        }
    }

    #[test]
    fn all_that_is_loaded_is_found_however_many_were_expected() {
        let mut keys: Vec<u64> = (0..5000).collect();
        for expected in [0, 1, 700, 5000, 90_000] {
            loads(&keys, expected);
        }
        // As they come in a snapshot: by block.
        keys.sort_by_key(|key| key.key_hash().lower().reverse_bits());
        loads(&keys, 5000);
    }

    #[test]
    fn what_was_a_block_becomes_one_again_whatever_its_size() {
        // Blocks of which some have just split, with anything from few entries to all that fit.
        for keys in [1_u64, 200, 256, 300, 5000, 7000, 9000, 11_000] {
            let mut old = Table::<u64, u64>::new(1);
            let (mut table, mut again) = (Table::new(1), Table::new(1));
            for key in 0..keys {
                old.insert(0, key.key_hash(), (key, key));
            }
            let blocks: Vec<_> = (0..old.blocks())
                .map(|number| old.block(number).unwrap().to_vec())
                .collect();
            table.expect(0, keys.try_into().unwrap());
            for block in &blocks {
                load(&mut table, block.iter().copied());
            }
            assert_eq!(sorted(&mut table), sorted(&mut old));
            // Not so if the order of entries is another one, but about as many.
            again.expect(0, keys.try_into().unwrap());
            let mixed: Vec<_> = (0..keys).map(|key| (key, key)).collect();
            mixed
                .chunks(256)
                .for_each(|chunk| load(&mut again, chunk.iter().copied()));
            assert!(again.blocks() <= 2 * old.blocks(), "{keys} keys");
            assert_eq!(again.iter().count(), old.iter().count());
        }
    }

    /// The entries of each block.
    fn sorted(table: &mut Table<u64, u64>) -> Vec<Vec<(u64, u64)>> {
        let blocks = (0..table.blocks()).map(|number| table.block(number).unwrap().to_vec());
        let mut blocks: Vec<_> = blocks.collect();
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        blocks.sort_unstable();
        blocks
    }

    #[test]
    fn what_was_made_before_a_failure_is_there() {
        let table = Table::<u64, String>::new(1);
        let mut incoming = table.incoming(5);
        let mut keys = 0..3;
        let filled = incoming.fill(|| {
            let key: u64 = keys.next().ok_or("there are fewer")?;
            Ok((key, key.to_string()))
        });
        assert_eq!(filled, Err("there are fewer"));
        assert_eq!(incoming.entries[2], (2, "2".to_owned()));
        assert_eq!(incoming.hashes(), [0, 1, 2].map(|key: u64| key.key_hash()));
    }

    #[test]
    fn keys_with_the_same_hash_are_loaded() {
        let keys: Vec<Clashing> = (0..2000).map(Clashing).collect();
        for expected in [0, 2000] {
            loads(&keys, expected);
        }
    }
}
