//! A sorted map that snapshots share in chunks.
//!
//! The map of a key is a shared vector of shared sorted chunks of up to 64 entries, a B-tree of two
//! levels. A snapshot shares all of it; the first write afterwards copies the pointers to that key's
//! chunks (8 bytes per 32 to 64 entries) and the one chunk it writes to, not the map.

use std::{borrow::Borrow, fmt, marker::PhantomData, mem, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor},
    ser::SerializeSeq,
};

use crate::{Data, Lifetime};

/// Entries of a chunk at most. A write after a snapshot copies so many.
const CHUNK: usize = 64;

type Chunk<E> = Arc<Vec<E>>;

/// A sorted map in sorted chunks, none of them empty.
#[expect(clippy::type_complexity, reason = "an entry as it is stored")]
pub(super) struct Chunks<M: Data, V: Data, L: Lifetime>(Arc<Vec<Chunk<L::Of<(M, V)>>>>);

impl<M: Data, V: Data, L: Lifetime> Default for Chunks<M, V, L> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M: Data, V: Data, L: Lifetime> Clone for Chunks<M, V, L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Data + Ord, V: Data, L: Lifetime> Chunks<M, V, L> {
    /// Of entries that are sorted.
    pub(super) fn of_sorted(entries: impl Iterator<Item = L::Of<(M, V)>>) -> Self {
        let mut chunks = Self::default();
        for entry in entries {
            chunks.push(entry);
        }
        chunks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &L::Of<(M, V)>> {
        self.0.iter().flat_map(|chunk| chunk.iter())
    }

    /// All entries, to be written to: those that a snapshot shares are copied. Their keys stay.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut L::Of<(M, V)>> {
        let chunks = Arc::make_mut(&mut self.0);
        chunks.iter_mut().flat_map(Arc::make_mut)
    }

    fn key(entry: &L::Of<(M, V)>) -> &M {
        &L::get(entry).0
    }

    /// The chunk that holds `map_key` if any does, and where in it: `Err` is where it would go.
    fn find<Q: Ord + ?Sized>(&self, map_key: &Q) -> (usize, Result<usize, usize>)
    where
        M: Borrow<Q>,
    {
        let later = self
            .0
            .partition_point(|chunk| Self::key(&chunk[0]).borrow() <= map_key);
        let number = later.saturating_sub(1);
        let at = self.0.get(number).map_or(Err(0), |chunk| {
            chunk.binary_search_by(|entry| Self::key(entry).borrow().cmp(map_key))
        });
        (number, at)
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, map_key: &Q) -> Option<&L::Of<(M, V)>>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        Some(&self.0[number][at.ok()?])
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, map_key: &Q) -> Option<&mut L::Of<(M, V)>>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        let at = at.ok()?;
        let chunk = &mut Arc::make_mut(&mut self.0)[number];
        Some(&mut Arc::make_mut(chunk)[at])
    }

    /// Adds an entry; returns the former one of its key.
    pub(super) fn put(&mut self, entry: L::Of<(M, V)>) -> Option<L::Of<(M, V)>> {
        let (number, at) = self.find(Self::key(&entry));
        let chunks = Arc::make_mut(&mut self.0);
        if chunks.is_empty() {
            chunks.push(Arc::default());
        }
        let chunk = Arc::make_mut(&mut chunks[number]);
        match at {
            Ok(at) => return Some(mem::replace(&mut chunk[at], entry)),
            Err(at) => chunk.insert(at, entry),
        }
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            chunks.insert(number + 1, Arc::new(upper));
        }
        None
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, map_key: &Q) -> Option<L::Of<(M, V)>>
    where
        M: Borrow<Q>,
    {
        let (number, at) = self.find(map_key);
        let at = at.ok()?;
        let chunks = Arc::make_mut(&mut self.0);
        let removed = Arc::make_mut(&mut chunks[number]).remove(at);
        if chunks[number].is_empty() {
            chunks.remove(number);
        }
        Some(removed)
    }

    /// Adds an entry that comes after all others.
    fn push(&mut self, entry: L::Of<(M, V)>) {
        let chunks = Arc::make_mut(&mut self.0);
        match chunks.last_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(entry),
            _ => chunks.push(Arc::new(vec![entry])),
        }
    }

    fn last(&self) -> Option<&M> {
        Some(Self::key(self.0.last()?.last()?))
    }
}

impl<M: Data + Ord, V: Data, L: Lifetime> Serialize for Chunks<M, V, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The bytes of a postcard map are those of a sequence of pairs.
        let len = self.0.iter().map(|chunk| chunk.len()).sum();
        let mut entries = serializer.serialize_seq(Some(len))?;
        for entry in self.iter() {
            entries.serialize_element(entry)?;
        }
        entries.end()
    }
}

impl<'de, M: Data + Ord, V: Data, L: Lifetime> Deserialize<'de> for Chunks<M, V, L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

struct Entries<M, V, L>(PhantomData<(M, V, L)>);

impl<'de, M: Data + Ord, V: Data, L: Lifetime> Visitor<'de> for Entries<M, V, L> {
    type Value = Chunks<M, V, L>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sorted map")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut chunks = Chunks::<M, V, L>::default();
        while let Some(entry) = seq.next_element::<L::Of<(M, V)>>()? {
            if chunks.last() >= Some(&L::get(&entry).0) {
                return Err(A::Error::custom("the map is not sorted"));
            }
            chunks.push(entry);
        }
        Ok(chunks)
    }
}
