//! Map state: a sorted map per key.
//!
//! The map of a key is a shared vector of shared sorted chunks of up to 64 entries, a B-tree of two
//! levels. A snapshot shares all of it; the first write afterwards copies the pointers to that key's
//! chunks (8 bytes per 32 to 64 entries) and the one chunk it writes to, not the map.

use std::{borrow::Borrow, fmt, marker::PhantomData, mem, sync::Arc};

use cutwater_keygroups::Key;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::SerializeMap,
};

use crate::{
    Data, Keyed, Result,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, KeyedTable, TypedState},
    place::Place,
    schema::{self, Reading},
};

/// Entries of a chunk at most. A write after a snapshot copies so many.
const CHUNK: usize = 64;

/// A sorted map per key, and per namespace `N` if the state has such. A map without entries is the same as none.
///
/// Reads and writes take two binary searches, an insertion moves up to 64 entries; the first write to a key's map after a
/// snapshot copies up to 64 entries and 8 bytes for every 32 to 64. For very large maps (millions of
/// entries under one key) put the inner key into the operator's key instead. In a snapshot: a postcard map, sorted.
#[derive(Debug)]
pub struct MapState<K, M, V, N = ()> {
    table: KeyedTable<K, Chunks<M, V>, N>,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, M: Data + Ord, V: Data, N: Key> MapState<K, M, V, N> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            table: KeyedTable::new(place),
        }
    }

    /// The value under `map_key`.
    pub fn get<Q: Ord + ?Sized>(
        &mut self,
        keyed: Keyed<'_, K, N>,
        map_key: &Q,
    ) -> Result<Option<&V>>
    where
        M: Borrow<Q>,
    {
        let chunks = self.table.get(&keyed)?;
        Ok(chunks.and_then(|chunks| chunks.get(map_key)))
    }

    /// Whether there is a value under `map_key`.
    pub fn contains<Q: Ord + ?Sized>(&mut self, keyed: Keyed<'_, K, N>, map_key: &Q) -> Result<bool>
    where
        M: Borrow<Q>,
    {
        self.holds(&keyed, map_key)
    }

    /// The value under `map_key`, to change in place.
    pub fn get_mut<Q: Ord + ?Sized>(
        &mut self,
        keyed: Keyed<'_, K, N>,
        map_key: &Q,
    ) -> Result<Option<&mut V>>
    where
        M: Borrow<Q>,
    {
        if !self.holds(&keyed, map_key)? {
            return Ok(None); // before anything that a snapshot shares is copied
        }
        let chunks = self.table.get_mut(&keyed)?;
        Ok(chunks.and_then(|chunks| chunks.get_mut(map_key)))
    }

    /// Sets the value under `map_key`; returns the former one.
    pub fn put(&mut self, keyed: Keyed<'_, K, N>, map_key: M, value: V) -> Result<Option<V>> {
        let chunks = self.table.or_insert_with(&keyed, Chunks::default)?;
        Ok(chunks.put(map_key, value))
    }

    /// Takes the value under `map_key` out.
    pub fn remove<Q: Ord + ?Sized>(
        &mut self,
        keyed: Keyed<'_, K, N>,
        map_key: &Q,
    ) -> Result<Option<V>>
    where
        M: Borrow<Q>,
    {
        if !self.holds(&keyed, map_key)? {
            return Ok(None);
        }
        self.table.update(&keyed, |slot| {
            let removed = slot.as_mut().and_then(|chunks| chunks.remove(map_key));
            slot.take_if(|chunks| chunks.0.is_empty());
            removed
        })
    }

    /// Forgets the map of a key.
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.table.set(&keyed, None)
    }

    /// The entries of a key's map, in order.
    pub fn entries(
        &mut self,
        keyed: Keyed<'_, K, N>,
    ) -> Result<impl Iterator<Item = (&M, &V)> + use<'_, K, M, V, N>> {
        let chunks = self.table.get(&keyed)?;
        Ok(chunks.into_iter().flat_map(Chunks::iter))
    }

    /// The namespaces in which a key has a map, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record makes the namespace a key of the map.
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.table.namespaces(keyed)
    }

    fn holds<Q: Ord + ?Sized>(&mut self, keyed: &Keyed<'_, K, N>, map_key: &Q) -> Result<bool>
    where
        M: Borrow<Q>,
    {
        let chunks = self.table.get(keyed)?;
        Ok(chunks.is_some_and(|chunks| chunks.get(map_key).is_some()))
    }

    /// Calls `f` with each key and namespace that has a map, once, and its entries; in no particular
    /// order.
    pub fn for_each_namespaced(
        &mut self,
        mut f: impl FnMut(&K, &N, &mut dyn Iterator<Item = (&M, &V)>),
    ) -> Result<()> {
        self.table
            .for_each(|key, namespace, chunks| f(key, namespace, &mut chunks.iter()))
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, M: Data + Ord, V: Data> MapState<K, M, V> {
    /// Calls `f` with each key that has a map, once, and its entries; keys in no particular order.
    pub fn for_each(
        &mut self,
        mut f: impl FnMut(&K, &mut dyn Iterator<Item = (&M, &V)>),
    ) -> Result<()> {
        self.for_each_namespaced(|key, (), entries| f(key, entries))
    }
}

impl<K: Key, M: Data + Ord, V: Data, N: Key> TypedState<K> for MapState<K, M, V, N> {
    const KIND: Kind = Kind::Map;

    type Element = (M, V);
    type Namespace = N;

    fn read_as(&mut self, reading: Reading<(M, V)>) {
        self.table.read_as(reading.of_all(|reading, bytes| {
            let mut chunks = Chunks::default();
            for _ in 0..schema::take::<usize>(bytes)? {
                let (map_key, value) = reading.element(bytes)?;
                chunks.put(map_key, value); // the order may be another one now
            }
            Ok(chunks)
        }));
    }
}

impl<K: Key, M: Data + Ord, V: Data, N: Key> KeyedState<K> for MapState<K, M, V, N> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }
}

type Chunk<M, V> = Arc<Vec<(M, V)>>;

/// A sorted map in sorted chunks, none of them empty.
struct Chunks<M, V>(Arc<Vec<Chunk<M, V>>>);

impl<M, V> Default for Chunks<M, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M, V> Clone for Chunks<M, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M, V> Chunks<M, V> {
    fn iter(&self) -> impl Iterator<Item = (&M, &V)> {
        let entries = self.0.iter().flat_map(|chunk| chunk.iter());
        entries.map(|(map_key, value)| (map_key, value))
    }

    /// The chunk that holds `map_key` if any does, and where in it: `Err` is where it would go.
    fn find<Q: Ord + ?Sized>(&self, map_key: &Q) -> (usize, Result<usize, usize>)
    where
        M: Borrow<Q>,
    {
        let later = self
            .0
            .partition_point(|chunk| chunk[0].0.borrow() <= map_key);
        let number = later.saturating_sub(1);
        let at = self.0.get(number).map_or(Err(0), |chunk| {
            chunk.binary_search_by(|(found, _)| found.borrow().cmp(map_key))
        });
        (number, at)
    }

    fn get<Q: Ord + ?Sized>(&self, map_key: &Q) -> Option<&V>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        Some(&self.0[number][at.ok()?].1)
    }
}

impl<M: Ord + Clone, V: Clone> Chunks<M, V> {
    fn get_mut<Q: Ord + ?Sized>(&mut self, map_key: &Q) -> Option<&mut V>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        let at = at.ok()?;
        let chunk = &mut Arc::make_mut(&mut self.0)[number];
        Some(&mut Arc::make_mut(chunk)[at].1)
    }

    fn put(&mut self, map_key: M, value: V) -> Option<V> {
        let (number, at) = self.find(&map_key);
        let chunks = Arc::make_mut(&mut self.0);
        if chunks.is_empty() {
            chunks.push(Arc::default());
        }
        let chunk = Arc::make_mut(&mut chunks[number]);
        match at {
            Ok(at) => return Some(mem::replace(&mut chunk[at].1, value)),
            Err(at) => chunk.insert(at, (map_key, value)),
        }
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            chunks.insert(number + 1, Arc::new(upper));
        }
        None
    }

    fn remove<Q: Ord + ?Sized>(&mut self, map_key: &Q) -> Option<V>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        let at = at.ok()?;
        let chunks = Arc::make_mut(&mut self.0);
        let (_, removed) = Arc::make_mut(&mut chunks[number]).remove(at);
        if chunks[number].is_empty() {
            chunks.remove(number);
        }
        Some(removed)
    }

    /// Adds an entry if it comes after all others.
    fn append(&mut self, map_key: M, value: V) -> Result<(), Unsorted> {
        let chunks = Arc::make_mut(&mut self.0);
        match chunks.last_mut() {
            Some(last)
                if last
                    .last()
                    .is_some_and(|(greatest, _)| *greatest >= map_key) =>
            {
                return Err(Unsorted);
            }
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push((map_key, value)),
            _ => chunks.push(Arc::new(vec![(map_key, value)])),
        }
        Ok(())
    }
}

/// Entries of a stored map that are not in order.
struct Unsorted;

impl<M: Serialize, V: Serialize> Serialize for Chunks<M, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = self.0.iter().map(|chunk| chunk.len()).sum();
        let mut map = serializer.serialize_map(Some(len))?;
        for (map_key, value) in self.iter() {
            map.serialize_entry(map_key, value)?;
        }
        map.end()
    }
}

impl<'de, M: Data + Ord, V: Data> Deserialize<'de> for Chunks<M, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<M, V>(PhantomData<(M, V)>);

impl<'de, M: Data + Ord, V: Data> Visitor<'de> for Entries<M, V> {
    type Value = Chunks<M, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sorted map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Chunks<M, V>, A::Error> {
        let mut chunks = Chunks::default();
        while let Some((map_key, value)) = map.next_entry()? {
            chunks
                .append(map_key, value)
                .map_err(|Unsorted| A::Error::custom("the map is not sorted"))?;
        }
        Ok(chunks)
    }
}
