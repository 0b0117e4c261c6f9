//! Filling a table from a snapshot: most of it in one go, block by block.
//!
//! An insertion grows its block step by step until it splits, which would be most of a restore's work. Here a group is
//! laid out for what will come, and entries that follow each other in a snapshot, which nearly always come from
//! one block, go to theirs together. Keys are still looked for: nobody promises that they differ.

use cutwater_keygroups::{Key, KeyHash};

use super::{DIRECTORY_BITS, HOME_BITS, Table};

impl<K: Key, V: Clone> Table<K, V> {
    /// Lays an empty group out for so many entries, so that its blocks need not split on the way there.
    pub(crate) fn expect(&mut self, group: usize, entries: usize) {
        if entries == 0 || !self.groups[group].is_empty() {
            return;
        }
        // Those that get too many by chance split.
        let depth = (0..DIRECTORY_BITS).find(|depth| entries >> depth <= Self::FULL / 8 * 7);
        let depth = depth.unwrap_or(DIRECTORY_BITS);
        let each = (entries >> depth) + (entries >> depth >> 4);
        // Not made yet: what an index is made of would be out of the cache again when its first entry comes.
        let room = u16::try_from(each.min(Self::FULL)).expect("positions have 8 bits");
        self.groups[group] = (0..1 << depth)
            .map(|_| {
                let number = self.add_block(group, depth);
                self.blocks.extra_mut(number as usize).room = room;
                number
            })
            .collect();
    }

    /// Adds entries of one group, or replaces those of the same keys, and leaves `entries` empty.
    pub(crate) fn load(&mut self, group: usize, hashes: &[KeyHash], entries: &mut Vec<(K, V)>) {
        let mut entries = entries.drain(..);
        let mut hashes = hashes;
        while let [first, ..] = hashes {
            let block = self.block_of(group, *first);
            let depth = block.map_or(0, |number| self.header(number).depth);
            // What all of a block have in common; cheaper than to look each one's block up.
            let bits = |hash: &KeyHash| hash.lower() >> HOME_BITS & ((1 << depth) - 1);
            let same = |hash: &&KeyHash| bits(hash) == bits(first);
            let (run, rest) = hashes.split_at(hashes.iter().take_while(same).count());
            let run = run.iter().zip(entries.by_ref());
            match block.filter(|&number| self.has_room_for(number, run.len())) {
                Some(number) => self.load_run(number, run),
                None => run.for_each(|(hash, entry)| self.load_one(group, *hash, entry)),
            }
            hashes = rest;
        }
    }

    fn has_room_for(&self, number: usize, count: usize) -> bool {
        let is_whole = self.header(number).next.is_none();
        is_whole && self.entries(number).len() + count <= Self::FULL
    }

    fn load_one(&mut self, group: usize, hash: KeyHash, (key, value): (K, V)) {
        match self.search(group, hash, &key) {
            Some(spot) => *self.value_mut(spot) = value,
            None => _ = self.insert(group, hash, (key, value)),
        }
    }

    fn load_run<'a>(
        &mut self,
        number: usize,
        run: impl ExactSizeIterator<Item = (&'a KeyHash, (K, V))>,
    ) {
        self.blocks.modify(number, |entries, header| {
            Self::reserve(entries, header, entries.len() + run.len());
            for (hash, (key, value)) in run {
                let (hash, next) = (hash.lower(), entries.len());
                let is = |at: usize| entries.get(at).is_some_and(|(found, _)| *found == key);
                match header.index.find_or_insert(hash, next, is) {
                    Some(at) => entries[at].1 = value,
                    None => entries.push((key, value)),
                }
            }
        });
    }
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

    /// Loads these keys, each twice with another value, and compares with a map.
    fn loads<K: Key + Ord>(keys: &[K], expected: usize) {
        let mut table = Table::<K, u32>::new(1);
        table.expect(0, expected);
        let mut map = BTreeMap::new();
        for (value, keys) in keys.chunks(100).chain(keys.chunks(70)).enumerate() {
            let value = u32::try_from(value).unwrap();
            let hashes: Vec<KeyHash> = keys.iter().map(Key::key_hash).collect();
            let mut entries: Vec<(K, u32)> = keys.iter().map(|k| (k.clone(), value)).collect();
            map.extend(entries.iter().cloned());
            table.load(0, &hashes, &mut entries);
            assert!(entries.is_empty());
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
    fn keys_with_the_same_hash_are_loaded() {
        let keys: Vec<Clashing> = (0..2000).map(Clashing).collect();
        for expected in [0, 2000] {
            loads(&keys, expected);
        }
    }
}
