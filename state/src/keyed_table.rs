//! What all keyed states have in common: a place, a table, and how both meet keys and snapshots.

use std::{any::Any, fmt};

use cutwater_keygroups::{Key, KeyGroup, KeyHash};

use crate::{
    Data, Keyed, Result,
    place::Place,
    restore::Unreadable,
    snapshot::{self, Frozen, Writer},
    table::{self, Table},
};

/// A state in the registry, its type erased.
pub(crate) trait KeyedState: Any + Send {
    /// Fixes a view of the state as of now.
    fn freeze(&mut self) -> Box<dyn Frozen>;

    /// Brings what accesses to these hashes would read into the cache.
    fn prefetch(&mut self, hashes: &[KeyHash]);

    /// Takes one entry of `group` from the front of `bytes`, as [`Frozen::write`] wrote it.
    fn load(&mut self, group: KeyGroup, bytes: &mut &[u8]) -> Result<(), Unreadable>;
}

/// A table that knows its place.
pub(crate) struct KeyedTable<K, S> {
    place: Place,
    table: Table<K, S>,
}

impl<K: Key, S: Data> KeyedTable<K, S> {
    pub(crate) fn new(place: Place) -> Self {
        let table = Table::new(place.count());
        Self { place, table }
    }

    #[inline]
    pub(crate) fn get(&self, keyed: Keyed<'_, K>) -> Result<Option<&S>> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.get(group, keyed.hash(), keyed.key()))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, keyed: Keyed<'_, K>) -> Result<Option<&mut S>> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.get_mut(group, keyed.hash(), keyed.key()))
    }

    #[inline]
    pub(crate) fn or_insert_with(
        &mut self,
        keyed: Keyed<'_, K>,
        default: impl FnOnce() -> S,
    ) -> Result<&mut S> {
        let group = self.place.locate(keyed)?;
        Ok(self
            .table
            .or_insert_with(group, keyed.hash(), keyed.key(), default))
    }

    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        keyed: Keyed<'_, K>,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<R> {
        let group = self.place.locate(keyed)?;
        Ok(self.table.update(group, keyed.hash(), keyed.key(), f))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.table.iter()
    }

    pub(crate) fn freeze(&mut self) -> Box<dyn Frozen> {
        Box::new(FrozenEntries {
            first_group: self.place.groups().start(),
            table: self.table.freeze(),
        })
    }

    pub(crate) fn prefetch(&mut self, hashes: &[KeyHash]) {
        let Self { place, table } = self;
        let groups = place.groups();
        table.prefetch(hashes, |hash| {
            let group = place.group(K::GROUPING, hash);
            let owned = groups.contains(group);
            owned.then(|| usize::from(group.get() - groups.start()))
        });
    }

    pub(crate) fn load(&mut self, group: KeyGroup, bytes: &mut &[u8]) -> Result<(), Unreadable> {
        let key = K::decode(bytes).map_err(|_| Unreadable::Key)?;
        let keyed = Keyed::new(&key);
        if self.place.group(K::GROUPING, keyed.hash()) != group {
            return Err(Unreadable::Key);
        }
        let (stored, rest) = postcard::take_from_bytes(bytes).map_err(Unreadable::Value)?;
        *bytes = rest;
        let number = usize::from(group.get() - self.place.groups().start());
        self.table
            .update(number, keyed.hash(), &key, |slot| *slot = Some(stored));
        Ok(())
    }
}

impl<K, S> fmt::Debug for KeyedTable<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.place, f)
    }
}

struct FrozenEntries<K, S> {
    first_group: u16,
    table: table::Frozen<K, S>,
}

impl<K: Key, S: Data> Frozen for FrozenEntries<K, S> {
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()> {
        let first = self.first_group;
        self.table.drain(|number, entries| {
            out.entries(first + number, entries, |(key, stored), bytes| {
                key.encode(bytes);
                snapshot::append(stored, bytes)
            })
        })
    }
}
