//! List state: a list per key, appended to at its end.
//!
//! The list of a key is a shared vector of shared chunks of up to 64 elements. A snapshot shares all
//! of it; the first append afterwards copies the pointers to that key's chunks (8 bytes per 64
//! elements) and its last chunk, not the list.

use std::{fmt, marker::PhantomData, sync::Arc};

use cutwater_keygroups::Key;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
    ser::SerializeSeq,
};

use crate::{
    Data, Keyed, Result,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, KeyedTable, TypedState},
    place::Place,
    schema::{self, Reading},
};

/// Elements of a chunk. An append after a snapshot copies at most so many.
const CHUNK: usize = 64;

/// A list per key, and per namespace `N` if the state has such. A list without elements is the same as none.
///
/// An append costs what a lookup costs, and amortised constant time; the first to a key's list after
/// a snapshot copies up to 64 elements and 8 bytes for every 64. In a snapshot: a postcard sequence.
#[derive(Debug)]
pub struct ListState<K, T, N = ()> {
    table: KeyedTable<K, Chunks<T>, N>,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, T: Data, N: Key> ListState<K, T, N> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            table: KeyedTable::new(place),
        }
    }

    /// The elements of a key's list, in order.
    pub fn get(
        &mut self,
        keyed: Keyed<'_, K, N>,
    ) -> Result<impl Iterator<Item = &T> + use<'_, K, T, N>> {
        let chunks = self.table.get(&keyed)?;
        Ok(chunks.into_iter().flat_map(Chunks::iter))
    }

    /// Adds an element at the end.
    pub fn append(&mut self, keyed: Keyed<'_, K, N>, element: T) -> Result<()> {
        self.table
            .or_insert_with(&keyed, Chunks::default)?
            .append(element);
        Ok(())
    }

    /// Replaces the list.
    pub fn update(
        &mut self,
        keyed: Keyed<'_, K, N>,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let mut chunks = Chunks::default();
        for element in elements {
            chunks.append(element);
        }
        let replacement = (!chunks.0.is_empty()).then_some(chunks);
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
        self.table
            .merge(keyed, into, from, |slot, chunks| match slot {
                Some(into) => chunks
                    .iter()
                    .for_each(|element| into.append(element.clone())),
                None => *slot = Some(chunks),
            })
    }

    /// The namespaces in which a key has a list, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely. An operator that asks
    /// for every record keeps the namespaces in a [`MapState`](crate::MapState).
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.table.namespaces(keyed)
    }

    /// Calls `f` with each key and namespace that has a list, once, and its elements; in no particular
    /// order.
    pub fn for_each_namespaced(
        &mut self,
        mut f: impl FnMut(&K, &N, &mut dyn Iterator<Item = &T>),
    ) -> Result<()> {
        self.table
            .for_each(|key, namespace, chunks| f(key, namespace, &mut chunks.iter()))
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, T: Data> ListState<K, T> {
    /// Calls `f` with each key that has a list, once, and its elements; keys in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, &mut dyn Iterator<Item = &T>)) -> Result<()> {
        self.for_each_namespaced(|key, (), elements| f(key, elements))
    }
}

impl<K: Key, T: Data, N: Key> TypedState<K> for ListState<K, T, N> {
    const KIND: Kind = Kind::List;

    type Element = T;
    type Namespace = N;

    fn read_as(&mut self, reading: Reading<T>) {
        self.table.read_as(reading.of_all(|reading, bytes| {
            let mut chunks = Chunks::default();
            for _ in 0..schema::take::<usize>(bytes)? {
                chunks.append(reading.element(bytes)?);
            }
            Ok(chunks)
        }));
    }
}

impl<K: Key, T: Data, N: Key> KeyedState<K> for ListState<K, T, N> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }
}

/// A list in chunks, each of them full but the last.
struct Chunks<T>(Arc<Vec<Arc<Vec<T>>>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Chunks<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Chunks<T> {
    fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|chunk| chunk.iter())
    }

    fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }
}

impl<T: Clone> Chunks<T> {
    fn append(&mut self, element: T) {
        let chunks = Arc::make_mut(&mut self.0);
        match chunks.last_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(element),
            _ => chunks.push(Arc::new(vec![element])),
        }
    }
}

impl<T: Serialize> Serialize for Chunks<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        for element in self.iter() {
            seq.serialize_element(element)?;
        }
        seq.end()
    }
}

impl<'de, T: Data> Deserialize<'de> for Chunks<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Data> Visitor<'de> for Elements<T> {
    type Value = Chunks<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Chunks<T>, A::Error> {
        let mut chunks = Chunks::default();
        while let Some(element) = seq.next_element()? {
            chunks.append(element);
        }
        Ok(chunks)
    }
}
