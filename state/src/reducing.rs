//! Reducing state: one value per key, the sum of all that were added, by the operator's own idea of a sum.

use cutwater_keygroups::Key;

use crate::{
    Data, Forever, Keyed, Lifetime, Result, Timestamp,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, TypedState},
    place::Place,
    schema::Reading,
    single::Single,
};

/// Folds a value into the one that is there.
///
/// A function without captures: what a state holds must follow from what was added, in this run and the next.
pub type Reduce<V> = fn(&mut V, V);

/// One value per key, and per namespace `N` if the state has such: all that were added, reduced.
///
/// In a snapshot: the value as postcard, behind its stamp if it expires.
#[derive(Debug)]
pub struct ReducingState<K, V: Data, N = (), L: Lifetime = Forever> {
    single: Single<K, V, N, L>,
    reduce: Reduce<V>,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, V: Data, N: Key, L: Lifetime> ReducingState<K, V, N, L> {
    pub(crate) fn new(place: Place, lifetime: L, reduce: Reduce<V>) -> Self {
        Self {
            single: Single::new(place, lifetime),
            reduce,
        }
    }

    /// The reduced value of a key; `None` if nothing was added.
    #[inline]
    pub fn get(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<&V>> {
        self.single.get(&keyed)
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, keyed: Keyed<'_, K, N>, value: V) -> Result<()> {
        self.single
            .update(&keyed, |slot| reduce(self.reduce, slot, value))
    }

    /// Forgets what was added to a key.
    #[inline]
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.single.set(&keyed, None)
    }

    /// Adds what stands in the namespaces `from` to `into`, in this order, and leaves them empty.
    pub fn merge(
        &mut self,
        keyed: Keyed<'_, K>,
        into: N,
        from: impl IntoIterator<Item = N>,
    ) -> Result<()> {
        let reduce_two = self.reduce;
        self.single.merge(keyed, into, from, |slot, value| {
            reduce(reduce_two, slot, value);
        })
    }

    /// The namespaces in which a key has a value, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely.
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.single.namespaces(keyed)
    }

    /// Calls `f` with each key and namespace and the value, once, in no particular order.
    pub fn for_each_namespaced(&mut self, f: impl FnMut(&K, &N, &V)) -> Result<()> {
        self.single.for_each(f)
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, V: Data, L: Lifetime> ReducingState<K, V, (), L> {
    /// Calls `f` with each key and its value, once, in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, &V)) -> Result<()> {
        self.single.for_each(|key, (), value| f(key, value))
    }
}

impl<K: Key, V: Data, N: Key, L: Lifetime> TypedState<K> for ReducingState<K, V, N, L> {
    const KIND: Kind = Kind::Reducing;

    type Element = V;
    type Namespace = N;
    type Lifetime = L;

    fn read_as(&mut self, reading: Reading<V>) {
        self.single.read_as(reading);
    }
}

impl<K: Key, V: Data, N: Key, L: Lifetime> KeyedState<K> for ReducingState<K, V, N, L> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        self.single.table()
    }

    fn set_time(&mut self, now: Timestamp) {
        self.single.set_time(now);
    }
}

#[inline]
fn reduce<V>(reduce: Reduce<V>, slot: &mut Option<V>, value: V) {
    match slot {
        Some(sum) => reduce(sum, value),
        None => *slot = Some(value),
    }
}
