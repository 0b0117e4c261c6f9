//! What all keyed states have in common: a place, a table, and how both meet keys and snapshots.

use std::{any::Any, fmt};

use cutwater_keygroups::{Key, KeyGroup, KeyHash};

use crate::{
    Data, Keyed, Result,
    format::Kind,
    images::writer::ImageWriter,
    key::Address,
    place::Place,
    restore::Unreadable,
    schema::{self, Read, Reading},
    snapshot::{self, Frozen, Writer},
    table::{self, BlockId, Table},
};

/// A state in the registry, its kind erased.
pub(crate) trait KeyedState: Any + Send {
    /// Where its entries are.
    fn table(&mut self) -> &mut dyn AnyTable;
}

/// A kind of state with its types: what it is declared with.
pub(crate) trait TypedState: KeyedState {
    const KIND: Kind;

    /// What the schema is about: the value, or each element.
    type Element: Data;

    type Namespace: Key;

    /// How elements are read that are loaded from now on.
    fn read_as(&mut self, reading: Reading<Self::Element>);

    /// All that is to be loaded has been.
    fn loaded(&mut self) {}
}

/// A [`KeyedTable`], its types erased.
pub(crate) trait AnyTable {
    /// Fixes a view of the state as of now; or of what has changed since the freeze whose epoch was `base`.
    fn freeze(&mut self, base: Option<u64>) -> Box<dyn Frozen>;

    /// Brings what accesses to these hashes would read into the cache.
    fn prefetch(&mut self, hashes: &[KeyHash]);

    /// Takes one entry of `group` from the front of `bytes`, as [`Frozen::write`] wrote it.
    fn load(&mut self, group: KeyGroup, bytes: &mut &[u8]) -> Result<(), Unreadable>;
}

/// A table that knows its place: for each key, and namespace if the state has such, an `S`.
pub(crate) struct KeyedTable<K, S, N = ()> {
    place: Place,
    table: Table<Address<K, N>, S>,
    /// Reads what was stored, if it was stored as something else.
    read: Option<Box<Read<S>>>,
}

impl<K: Key, S: Data, N: Key> KeyedTable<K, S, N> {
    pub(crate) fn new(place: Place) -> Self {
        let table = Table::new(place.count());
        Self {
            place,
            table,
            read: None,
        }
    }

    /// Reads what is loaded from now on as an `S` with `read`; without it, as it is.
    pub(crate) fn read_as(&mut self, read: Option<Box<Read<S>>>) {
        self.read = read;
    }

    #[inline]
    pub(crate) fn get(&self, keyed: &Keyed<'_, K, N>) -> Result<Option<&S>> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.get(group, keyed.address_hash(), keyed))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, keyed: &Keyed<'_, K, N>) -> Result<Option<&mut S>> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.get_mut(group, keyed.address_hash(), keyed))
    }

    #[inline]
    pub(crate) fn or_insert_with(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        default: impl FnOnce() -> S,
    ) -> Result<&mut S> {
        let group = self.place.locate(keyed)?;
        Ok(self
            .table
            .or_insert_with(group, keyed.address_hash(), keyed, default))
    }

    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<R> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.update(group, keyed.address_hash(), keyed, f))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &N, &S)> {
        let entries = self.table.iter();
        entries.map(|(address, stored)| (&address.key, &address.namespace, stored))
    }

    /// The namespaces of a key: found by a look at all entries of its group.
    pub(crate) fn namespaces(&self, keyed: Keyed<'_, K>) -> Result<impl Iterator<Item = &N>> {
        let group = self.place.locate(&keyed)?;
        let entries = self.table.iter_group(group);
        let of_key = entries.filter(move |(address, _)| address.key == *keyed.key());
        Ok(of_key.map(|(address, _)| &address.namespace))
    }
}

impl<K: Key, S: Data, N: Key> KeyedTable<K, S, N> {
    /// Takes what stands in the namespaces `from` of a key, and gives it to `add` with what stands in `into`.
    pub(crate) fn merge(
        &mut self,
        keyed: Keyed<'_, K>,
        into: N,
        from: impl IntoIterator<Item = N>,
        mut add: impl FnMut(&mut Option<S>, S),
    ) -> Result<()> {
        let into = keyed.at(into);
        for namespace in from {
            if namespace == *into.namespace() {
                continue; // it is merged already
            }
            let taken = self.update(&keyed.at(namespace), Option::take)?;
            if let Some(taken) = taken {
                self.update(&into, |slot| add(slot, taken))?;
            }
        }
        Ok(())
    }
}

impl<K: Key, S: Data, N: Key> AnyTable for KeyedTable<K, S, N> {
    fn freeze(&mut self, base: Option<u64>) -> Box<dyn Frozen> {
        Box::new(FrozenEntries {
            first_group: self.place.groups().start(),
            table: self.table.freeze(base),
        })
    }

    fn prefetch(&mut self, hashes: &[KeyHash]) {
        if size_of::<N>() > 0 {
            return; // hashes of keys do not tell where an entry of key and namespace is
        }
        let Self { place, table, .. } = self;
        let groups = place.groups();
        table.prefetch(hashes, |hash| {
            let group = place.group(K::GROUPING, hash);
            let owned = groups.contains(group);
            owned.then(|| usize::from(group.get() - groups.start()))
        });
    }

    fn load(&mut self, group: KeyGroup, bytes: &mut &[u8]) -> Result<(), Unreadable> {
        let address = Address::<K, N>::decode(bytes).map_err(|_| Unreadable::Key)?;
        let hash = address.key_hash();
        if self.place.group(K::GROUPING, hash) != group {
            return Err(Unreadable::Key);
        }
        let read = self.read.as_deref().unwrap_or(&schema::take);
        let stored = read(bytes).map_err(Unreadable::Value)?;
        let number = usize::from(group.get() - self.place.groups().start());
        self.table
            .update(number, hash, &address, |slot| *slot = Some(stored));
        Ok(())
    }
}

impl<K, S, N> fmt::Debug for KeyedTable<K, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.place, f)
    }
}

struct FrozenEntries<K, S> {
    first_group: u16,
    table: table::Frozen<K, S>,
}

impl<K: Key, S: Data> Frozen for FrozenEntries<K, S> {
    fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()> {
        let first = self.first_group;
        self.table
            .drain(|number, entries| out.entries(first + number, entries, append_entry))
    }

    fn wanted(&self) -> Vec<BlockId> {
        self.table.wanted()
    }

    fn write_images(
        self: Box<Self>,
        blocks: Vec<BlockId>,
        out: &mut ImageWriter<'_>,
    ) -> Result<()> {
        let first = self.first_group;
        self.table.drain_blocks(blocks, |block, entries| {
            out.image(block, first + block.group, entries, append_entry)
        })
    }
}

fn append_entry<K: Key, S: Data>(
    (key, stored): &(K, S),
    bytes: &mut Vec<u8>,
) -> Result<(), postcard::Error> {
    key.encode(bytes);
    snapshot::append(stored, bytes)
}
