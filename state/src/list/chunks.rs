//! A list that snapshots share in chunks.
//!
//! The list of a key is a shared vector of shared chunks of up to 64 elements. A snapshot shares all
//! of it; the first append afterwards copies the pointers to that key's chunks (8 bytes per 64
//! elements) and its last chunk, not the list.

use std::{fmt, marker::PhantomData, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
    ser::SerializeSeq,
};

use crate::Data;

/// Elements of a chunk. An append after a snapshot copies at most so many.
const CHUNK: usize = 64;

/// A list in chunks, each of them full but the last.
pub(super) struct Chunks<T>(Arc<Vec<Arc<Vec<T>>>>);

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
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|chunk| chunk.iter())
    }

    fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }
}

impl<T: Clone> Chunks<T> {
    pub(super) fn append(&mut self, element: T) {
        let chunks = Arc::make_mut(&mut self.0);
        match chunks.last_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(element),
            _ => chunks.push(Arc::new(vec![element])),
        }
    }

    /// All elements, to be written to: those that a snapshot shares are copied.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let chunks = Arc::make_mut(&mut self.0);
        chunks.iter_mut().flat_map(Arc::make_mut)
    }
}

impl<T: Clone> FromIterator<T> for Chunks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut chunks = Self::default();
        elements
            .into_iter()
            .for_each(|element| chunks.append(element));
        chunks
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
