//! Value state: one value per key.

use cutwater_keygroups::Key;

use crate::{
    Data, Forever, Keyed, Lifetime, Result, Timestamp,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, TypedState},
    place::Place,
    schema::Reading,
    single::Single,
};

/// One value per key, and per namespace `N` if the state has such.
///
/// In memory the value stands in the hash table itself. After a snapshot the first write to a block of up to 256
/// entries clones the block, or where many were cloned just now, the value; so a value that owns much memory (a long `Vec`, a map) is better
/// an `Arc` of it, or a [`ListState`](crate::ListState) or [`MapState`](crate::MapState).
///
/// In a snapshot: the value as postcard, behind its stamp if it expires.
#[derive(Debug)]
pub struct ValueState<K, V: Data, N = (), L: Lifetime = Forever> {
    single: Single<K, V, N, L>,
}

// All methods: `WrongGroup` if the key's group is not owned; nothing is read or written then.
#[expect(
    clippy::missing_errors_doc,
    reason = "one for all, said on the crate's first page"
)]
impl<K: Key, V: Data, N: Key, L: Lifetime> ValueState<K, V, N, L> {
    pub(crate) fn new(place: Place, lifetime: L) -> Self {
        Self {
            single: Single::new(place, lifetime),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<&V>> {
        self.single.get(&keyed)
    }

    /// The value of a key, to change in place.
    #[inline]
    pub fn get_mut(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<&mut V>> {
        self.single.get_mut(&keyed)
    }

    /// The value of a key, to change in place; first what `default` makes, if there is none. The
    /// fastest way to update: the value is not moved.
    #[inline]
    pub fn or_insert_with(
        &mut self,
        keyed: Keyed<'_, K, N>,
        default: impl FnOnce() -> V,
    ) -> Result<&mut V> {
        self.single.or_insert_with(&keyed, default)
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
        self.single.update(&keyed, f)
    }

    /// Sets the value of a key.
    #[inline]
    pub fn put(&mut self, keyed: Keyed<'_, K, N>, value: V) -> Result<()> {
        self.single.set(&keyed, Some(value))
    }

    /// Forgets the value of a key.
    #[inline]
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.single.set(&keyed, None)
    }

    /// The namespaces in which a key has a value, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record keeps the namespaces in a [`MapState`](crate::MapState).
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.single.namespaces(keyed)
    }

    /// Calls `f` with each key and namespace and the value, once, in no particular order.
    pub fn for_each_namespaced(&mut self, f: impl FnMut(&K, &N, &V)) -> Result<()> {
        self.single.for_each(f)
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, V: Data, L: Lifetime> ValueState<K, V, (), L> {
    /// Calls `f` with each key and its value, once, in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, &V)) -> Result<()> {
        self.single.for_each(|key, (), value| f(key, value))
    }
}

impl<K: Key, V: Data, N: Key, L: Lifetime> TypedState<K> for ValueState<K, V, N, L> {
    const KIND: Kind = Kind::Value;

    type Element = V;
    type Namespace = N;
    type Lifetime = L;

    fn read_as(&mut self, reading: Reading<V>) {
        self.single.read_as(reading);
    }
}

impl<K: Key, V: Data, N: Key, L: Lifetime> KeyedState<K> for ValueState<K, V, N, L> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        self.single.table()
    }

    fn set_time(&mut self, now: Timestamp) {
        self.single.set_time(now);
    }
}
