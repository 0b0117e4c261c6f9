//! Value state: one value per key.

use cutwater_keygroups::Key;

use crate::{
    Data, Keyed, Result,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, KeyedTable, TypedState},
    place::Place,
    schema::Reading,
};

/// One value per key, and per namespace `N` if the state has such.
///
/// In memory the value stands in the hash table itself. The first write to a block of up to 256
/// entries after a snapshot clones the block, so a value that owns much memory (a long `Vec`, a map) is better
/// an `Arc` of it, or a [`ListState`](crate::ListState) or [`MapState`](crate::MapState).
///
/// In a snapshot: the value as postcard.
#[derive(Debug)]
pub struct ValueState<K, V, N = ()> {
    table: KeyedTable<K, V, N>,
}

// All methods: `WrongGroup` if the key's group is not owned; nothing is read or written then.
#[expect(
    clippy::missing_errors_doc,
    reason = "one for all, said on the crate's first page"
)]
impl<K: Key, V: Data, N: Key> ValueState<K, V, N> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            table: KeyedTable::new(place),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<&V>> {
        self.table.get(&keyed)
    }

    /// The value of a key, to change in place.
    #[inline]
    pub fn get_mut(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<&mut V>> {
        self.table.get_mut(&keyed)
    }

    /// The value of a key, to change in place; first what `default` makes, if there is none. The
    /// fastest way to update: the value is not moved.
    #[inline]
    pub fn or_insert_with(
        &mut self,
        keyed: Keyed<'_, K, N>,
        default: impl FnOnce() -> V,
    ) -> Result<&mut V> {
        self.table.or_insert_with(&keyed, default)
    }

    /// Lends the value of a key, or `None`, to change, set or clear.
    ///
    /// If `f` panics, what is in the slot by then stays.
    #[inline]
    pub fn update<R>(
        &mut self,
        keyed: Keyed<'_, K, N>,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> Result<R> {
        self.table.update(&keyed, f)
    }

    /// Sets the value of a key.
    #[inline]
    pub fn put(&mut self, keyed: Keyed<'_, K, N>, value: V) -> Result<()> {
        self.table.set(&keyed, Some(value))
    }

    /// Forgets the value of a key.
    #[inline]
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.table.set(&keyed, None)
    }

    /// The namespaces in which a key has a value, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record keeps the namespaces in a [`MapState`](crate::MapState).
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.table.namespaces(keyed)
    }

    /// Calls `f` with each key and namespace and the value, once, in no particular order.
    pub fn for_each_namespaced(&mut self, f: impl FnMut(&K, &N, &V)) -> Result<()> {
        self.table.for_each(f)
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, V: Data> ValueState<K, V> {
    /// Calls `f` with each key and its value, once, in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, &V)) -> Result<()> {
        self.table.for_each(|key, (), value| f(key, value))
    }
}

impl<K: Key, V: Data, N: Key> TypedState<K> for ValueState<K, V, N> {
    const KIND: Kind = Kind::Value;

    type Element = V;
    type Namespace = N;

    fn read_as(&mut self, reading: Reading<V>) {
        self.table.read_as(reading.of_all(Reading::element));
    }
}

impl<K: Key, V: Data, N: Key> KeyedState<K> for ValueState<K, V, N> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }
}
