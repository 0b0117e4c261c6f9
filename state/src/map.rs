//! Map state: a sorted map per key.

mod chunks;

use std::borrow::Borrow;

use cutwater_keygroups::Key;

use crate::{
    Data, Forever, Keyed, Lifetime, Result, Timestamp,
    expiry::{Expiry, Left},
    format::Kind,
    keyed_table::{AnyTable, KeyedState, KeyedTable, TypedState},
    place::Place,
    schema::{self, Reading},
};
use chunks::Chunks;

/// A sorted map per key, and per namespace `N` if the state has such. A map without entries is the same as none.
///
/// Reads and writes take two binary searches, an insertion moves up to 64 entries; the first write to a key's map after a
/// snapshot copies up to 64 entries and 8 bytes for every 32 to 64. For very large maps (millions of
/// entries under one key) put the inner key into the operator's key instead. In a snapshot: a postcard map, sorted, each entry
/// behind its stamp if they expire.
///
/// In a byte backend the map of a key is one row, read and written whole: there, do so from some thousand entries on.
#[derive(Debug)]
pub struct MapState<K, M: Data, V: Data, N = (), L: Lifetime = Forever> {
    table: KeyedTable<K, Chunks<M, V, L>, N>,
    lifetime: L,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, M: Data + Ord, V: Data, N: Key, L: Lifetime> MapState<K, M, V, N, L> {
    pub(crate) fn new(place: Place, lifetime: L) -> Self {
        let expiry = Expiry::new(&lifetime, |lifetime: &L, chunks: &Chunks<M, V, L>| {
            if !chunks.iter().any(|of| lifetime.is_over(of)) {
                return Left::All;
            }
            let left = chunks.iter().filter(|of| !lifetime.is_over(of));
            let left = Chunks::of_sorted(left.cloned());
            if left.is_empty() {
                Left::Nothing
            } else {
                Left::Some(left)
            }
        });
        Self {
            table: KeyedTable::expiring(place, expiry),
            lifetime,
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
        if self.lifetime.reads_refresh() {
            self.get_mut(keyed.clone(), map_key)?;
        }
        let Self { table, lifetime } = self;
        let of = table.get(&keyed)?.and_then(|chunks| chunks.get(map_key));
        let visible = of.filter(|of| lifetime.is_visible(of));
        Ok(visible.map(|of| &L::get(of).1))
    }

    /// Whether there is a value under `map_key`. Not counted as a read of it.
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
        let Self { table, lifetime } = self;
        let chunks = table.get_mut(&keyed)?;
        let of = chunks.and_then(|chunks| chunks.get_mut(map_key));
        Ok(of.map(|of| &mut lifetime.get_mut(of).1))
    }

    /// Sets the value under `map_key`; returns the former one.
    pub fn put(&mut self, keyed: Keyed<'_, K, N>, map_key: M, value: V) -> Result<Option<V>> {
        let Self { table, lifetime } = self;
        let chunks = table.or_insert_with(&keyed, Chunks::default)?;
        let former = chunks.put(lifetime.of((map_key, value)));
        let visible = former.filter(|of| lifetime.is_visible(of));
        Ok(visible.map(|of| L::take(of).1))
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
            slot.take_if(|chunks| chunks.is_empty());
            removed.map(|of| L::take(of).1)
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
    ) -> Result<impl Iterator<Item = (&M, &V)> + use<'_, K, M, V, N, L>> {
        let Self { table, lifetime } = self;
        if lifetime.reads_refresh()
            && let Some(chunks) = table.get_mut(&keyed)?
        {
            for of in chunks.iter_mut().filter(|of| lifetime.is_visible(of)) {
                lifetime.get_mut(of);
            }
        }
        let entries = table.get(&keyed)?.into_iter().flat_map(Chunks::iter);
        Ok(visible_entries(lifetime, entries))
    }

    /// The namespaces in which a key has a map, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record makes the namespace a key of the map.
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        let Self { table, lifetime } = self;
        table.namespaces(keyed, |chunks| {
            chunks.iter().any(|of| lifetime.is_visible(of))
        })
    }

    fn holds<Q: Ord + ?Sized>(&mut self, keyed: &Keyed<'_, K, N>, map_key: &Q) -> Result<bool>
    where
        M: Borrow<Q>,
    {
        let Self { table, lifetime } = self;
        let of = table.get(keyed)?.and_then(|chunks| chunks.get(map_key));
        Ok(of.is_some_and(|of| lifetime.is_visible(of)))
    }

    /// Calls `f` with each key and namespace that has a map, once, and its entries; in no particular
    /// order.
    pub fn for_each_namespaced(
        &mut self,
        mut f: impl FnMut(&K, &N, &mut dyn Iterator<Item = (&M, &V)>),
    ) -> Result<()> {
        let Self { table, lifetime } = self;
        table.for_each(|key, namespace, chunks| {
            let mut entries = visible_entries(lifetime, chunks.iter()).peekable();
            if entries.peek().is_some() {
                f(key, namespace, &mut entries);
            }
        })
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, M: Data + Ord, V: Data, L: Lifetime> MapState<K, M, V, (), L> {
    /// Calls `f` with each key that has a map, once, and its entries; keys in no particular order.
    pub fn for_each(
        &mut self,
        mut f: impl FnMut(&K, &mut dyn Iterator<Item = (&M, &V)>),
    ) -> Result<()> {
        self.for_each_namespaced(|key, (), entries| f(key, entries))
    }
}

impl<K: Key, M: Data + Ord, V: Data, N: Key, L: Lifetime> TypedState<K>
    for MapState<K, M, V, N, L>
{
    const KIND: Kind = Kind::Map;

    type Element = (M, V);
    type Namespace = N;
    type Lifetime = L;

    fn read_as(&mut self, reading: Reading<(M, V)>) {
        let lifetime = self.lifetime.clone();
        let read = reading.of_all(move |entries, bytes| {
            let mut chunks = Chunks::default();
            for _ in 0..schema::take::<usize>(bytes)? {
                chunks.put(entries.element(&lifetime, bytes)?); // the order may be another one now
            }
            Ok(chunks)
        });
        self.table.read_as(read);
    }
}

impl<K: Key, M: Data + Ord, V: Data, N: Key, L: Lifetime> KeyedState<K>
    for MapState<K, M, V, N, L>
{
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }

    fn set_time(&mut self, now: Timestamp) {
        self.lifetime.set_time(now);
        self.table.set_time(now);
    }
}

/// Those of the entries that are to be seen.
fn visible_entries<'a, M: Data, V: Data, L: Lifetime>(
    lifetime: &L,
    entries: impl Iterator<Item = &'a L::Of<(M, V)>>,
) -> impl Iterator<Item = (&'a M, &'a V)> {
    entries
        .filter(|of| lifetime.is_visible(of))
        .map(|of| L::get(of))
        .map(|(map_key, value)| (map_key, value))
}
