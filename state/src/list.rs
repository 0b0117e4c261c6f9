//! List state: a list per key, appended to at its end.

mod chunks;

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

/// A list per key, and per namespace `N` if the state has such. A list without elements is the same as none.
///
/// An append costs what a lookup costs, and amortised constant time; the first to a key's list after
/// a snapshot copies up to 64 elements and 8 bytes for every 64. In a snapshot: a postcard sequence, each
/// element behind its stamp if they expire.
///
/// In a byte backend the list of a key is one row, read and written whole. Rows that are in memory are appended to
/// as fast as without one; for long lists of keys that are not, a value with a namespace for each part is better.
#[derive(Debug)]
pub struct ListState<K, T: Data, N = (), L: Lifetime = Forever> {
    table: KeyedTable<K, Chunks<L::Of<T>>, N>,
    lifetime: L,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, T: Data, N: Key, L: Lifetime> ListState<K, T, N, L> {
    pub(crate) fn new(place: Place, lifetime: L) -> Self {
        let expiry = Expiry::new(&lifetime, |lifetime: &L, chunks: &Chunks<L::Of<T>>| {
            if !chunks.iter().any(|of| lifetime.is_over(of)) {
                return Left::All;
            }
            let left = chunks.iter().filter(|of| !lifetime.is_over(of));
            let left: Chunks<_> = left.cloned().collect();
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

    /// The elements of a key's list, in order.
    pub fn get(
        &mut self,
        keyed: Keyed<'_, K, N>,
    ) -> Result<impl Iterator<Item = &T> + use<'_, K, T, N, L>> {
        let Self { table, lifetime } = self;
        if lifetime.reads_refresh()
            && let Some(chunks) = table.get_mut(&keyed)?
        {
            for of in chunks.iter_mut().filter(|of| lifetime.is_visible(of)) {
                lifetime.get_mut(of);
            }
        }
        let elements = table.get(&keyed)?.into_iter().flat_map(Chunks::iter);
        Ok(elements.filter(|of| lifetime.is_visible(of)).map(L::get))
    }

    /// Adds an element at the end.
    pub fn append(&mut self, keyed: Keyed<'_, K, N>, element: T) -> Result<()> {
        let of = self.lifetime.of(element);
        let chunks = self.table.or_insert_with(&keyed, Chunks::default)?;
        chunks.append(of);
        Ok(())
    }

    /// Replaces the list.
    pub fn update(
        &mut self,
        keyed: Keyed<'_, K, N>,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let elements = elements.into_iter();
        let chunks: Chunks<_> = elements.map(|element| self.lifetime.of(element)).collect();
        let replacement = (!chunks.is_empty()).then_some(chunks);
        self.table.set(&keyed, replacement)
    }

    /// Forgets the list.
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.table.set(&keyed, None)
    }

    /// Appends what stands in the namespaces `from` to `into`, in this order, and leaves them empty.
    pub fn merge(
        &mut self,
        keyed: Keyed<'_, K>,
        into: N,
        from: impl IntoIterator<Item = N>,
    ) -> Result<()> {
        let Self { table, lifetime } = self;
        table.merge(keyed, into, from, |slot, chunks| {
            let into = slot.get_or_insert_default();
            let left = chunks.iter().filter(|of| !lifetime.is_over(of));
            left.for_each(|of| into.append(of.clone()));
            slot.take_if(|chunks| chunks.is_empty());
        })
    }

    /// The namespaces in which a key has a list, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record keeps the namespaces in a [`MapState`](crate::MapState).
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        let Self { table, lifetime } = self;
        table.namespaces(keyed, |chunks| {
            chunks.iter().any(|of| lifetime.is_visible(of))
        })
    }

    /// Calls `f` with each key and namespace that has a list, once, and its elements; in no particular
    /// order.
    pub fn for_each_namespaced(
        &mut self,
        mut f: impl FnMut(&K, &N, &mut dyn Iterator<Item = &T>),
    ) -> Result<()> {
        let Self { table, lifetime } = self;
        table.for_each(|key, namespace, chunks| {
            let visible = chunks.iter().filter(|of| lifetime.is_visible(of));
            let mut elements = visible.map(L::get).peekable();
            if elements.peek().is_some() {
                f(key, namespace, &mut elements);
            }
        })
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, T: Data, L: Lifetime> ListState<K, T, (), L> {
    /// Calls `f` with each key that has a list, once, and its elements; keys in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, &mut dyn Iterator<Item = &T>)) -> Result<()> {
        self.for_each_namespaced(|key, (), elements| f(key, elements))
    }
}

impl<K: Key, T: Data, N: Key, L: Lifetime> TypedState<K> for ListState<K, T, N, L> {
    const KIND: Kind = Kind::List;

    type Element = T;
    type Namespace = N;
    type Lifetime = L;

    fn read_as(&mut self, reading: Reading<T>) {
        let lifetime = self.lifetime.clone();
        let read = reading.of_all(move |elements, bytes| {
            let count = schema::take::<usize>(bytes)?;
            (0..count)
                .map(|_| elements.element(&lifetime, bytes))
                .collect()
        });
        self.table.read_as(read);
    }
}

impl<K: Key, T: Data, N: Key, L: Lifetime> KeyedState<K> for ListState<K, T, N, L> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }

    fn set_time(&mut self, now: Timestamp) {
        self.lifetime.set_time(now);
        self.table.set_time(now);
    }
}
