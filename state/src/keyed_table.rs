//! What all keyed states have in common: a place, rows, and how both meet keys and snapshots.

use std::{any::Any, fmt};

use cutwater_keygroups::{Key, KeyGroup, KeyHash};

use crate::{
    Data, Keyed, Lifetime, Result, Timestamp,
    append::append,
    encoded::{Cache, FrozenRows},
    expiry::{Expiry, Left},
    format::Kind,
    images::writer::ImageWriter,
    key::Address,
    place::Place,
    restore::Unreadable,
    schema::{self, Read, Reading},
    snapshot::{Frozen, FrozenBlocks, Writer},
    table::{self, BlockId, Lookup, Spot, Table},
};

/// A state in the registry, its kind erased.
pub(crate) trait KeyedState<K>: Any + Send {
    /// Where its entries are.
    fn table(&mut self) -> &mut dyn AnyTable<K>;

    /// Which time it is, for elements that expire.
    fn set_time(&mut self, now: Timestamp);
}

/// A kind of state with its types: what it is declared with.
pub(crate) trait TypedState<K>: KeyedState<K> {
    const KIND: Kind;

    /// What the schema is about: the value, or each element.
    type Element: Data;

    type Namespace: Key;

    type Lifetime: Lifetime;

    /// How elements are read that are loaded from now on.
    fn read_as(&mut self, reading: Reading<Self::Element>);

    /// All that is to be loaded has been.
    fn loaded(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A [`KeyedTable`], its types erased but for the key.
pub(crate) trait AnyTable<K> {
    /// Fixes a view of the state as of now; or, in memory, of what has changed since the freeze whose epoch
    /// was `base`.
    fn freeze(&mut self, base: Option<u64>) -> View;

    /// Brings what accesses to these hashes would read into the processor's cache.
    fn prefetch(&mut self, hashes: &[KeyHash]);

    /// Brings the rows of these keys into memory, if they are elsewhere.
    fn announce(&mut self, keys: &[Keyed<'_, K>]) -> Result<()>;

    /// Makes room: about so many entries of `group` are going to be loaded.
    fn expect(&mut self, group: KeyGroup, entries: u64);

    /// Takes so many entries of `group` from the front of `bytes`, as [`Frozen::write`] wrote them.
    fn load(&mut self, group: KeyGroup, entries: u64, bytes: &mut &[u8]) -> Result<(), Unreadable>;
}

/// A view of a state as of one moment.
pub(crate) enum View {
    /// Of its entries.
    Typed(Box<dyn FrozenBlocks>),
    /// Of the rows that are in memory, of which the others are in a byte backend.
    Rows(Box<dyn FrozenRows>),
}

/// A table that knows its place: for each key, and namespace if the state has such, an `S`.
pub(crate) struct KeyedTable<K, S, N = ()> {
    place: Place,
    road: Road<Address<K, N>, S>,
    /// Reads what was stored, if it was stored as something else.
    read: Option<Box<Read<S>>>,
    expiry: Option<Expiry<S>>,
}

/// Where the entries are.
enum Road<A, S> {
    Memory(Table<A, S>),
    Encoded(Cache<A, S>),
}

impl<K: Key, S: Data, N: Key> KeyedTable<K, S, N> {
    /// A table whose entries stay.
    pub(crate) fn new(place: Place) -> Self {
        Self::expiring(place, None)
    }

    pub(crate) fn expiring(place: Place, expiry: Option<Expiry<S>>) -> Self {
        let road = match place.store() {
            None => Road::Memory(Table::new(place.count())),
            Some(store) => Road::Encoded(Cache::new(place.clone(), store)),
        };
        Self {
            place,
            road,
            read: None,
            expiry,
        }
    }

    /// Which time it is, if entries expire. Those that did are removed bit by bit: in memory in turn, in a byte backend
    /// when it comes across them.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        let Some(expiry) = &mut self.expiry else {
            return;
        };
        expiry.set_time(now);
        match (&mut self.road, self.place.store()) {
            (Road::Memory(table), _) => expiry.sweep(table),
            (Road::Encoded(_), Some(store)) => expiry.tell(&self.place, store),
            (Road::Encoded(_), None) => {}
        }
    }

    /// Reads what is loaded from now on as an `S` with `read`; without it, as it is.
    pub(crate) fn read_as(&mut self, read: Option<Box<Read<S>>>) {
        self.read = read;
    }

    #[inline]
    pub(crate) fn get(&mut self, keyed: &Keyed<'_, K, N>) -> Result<Option<&S>> {
        let hash = keyed.address_hash();
        match &mut self.road {
            Road::Memory(table) => {
                if let Some(value) = table.recall(hash, keyed) {
                    return Ok(Some(value));
                }
                let spot = search(&self.place, table, hash, keyed)?;
                Ok(spot.map(|spot| table.value(spot)))
            }
            Road::Encoded(cache) => cache.get(self.place.locate(keyed)?, hash, keyed),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, keyed: &Keyed<'_, K, N>) -> Result<Option<&mut S>> {
        let hash = keyed.address_hash();
        match &mut self.road {
            Road::Memory(table) => {
                if let Some(spot) = table.recall_to_write(hash, keyed) {
                    return Ok(Some(table.value_mut(spot)));
                }
                let spot = search(&self.place, table, hash, keyed)?;
                Ok(spot.map(|spot| table.value_mut(spot)))
            }
            Road::Encoded(cache) => cache.get_mut(self.place.locate(keyed)?, hash, keyed),
        }
    }

    #[inline]
    pub(crate) fn or_insert_with(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        default: impl FnOnce() -> S,
    ) -> Result<&mut S> {
        let hash = keyed.address_hash();
        match &mut self.road {
            Road::Memory(table) => {
                if let Some(spot) = table.recall_to_write(hash, keyed) {
                    return Ok(table.value_mut(spot));
                }
                search_or_insert(&self.place, table, hash, keyed, default)
            }
            Road::Encoded(cache) => {
                cache.or_insert_with(self.place.locate(keyed)?, hash, keyed, default)
            }
        }
    }

    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<R> {
        let hash = keyed.address_hash();
        match &mut self.road {
            Road::Memory(table) => {
                if let Some(spot) = table.recall_to_write(hash, keyed) {
                    return Ok(table.lend(spot, hash, f));
                }
                if let Some(spot) = search(&self.place, table, hash, keyed)? {
                    return Ok(table.lend(spot, hash, f));
                }
                let mut stored = None;
                let result = f(&mut stored);
                if let Some(stored) = stored {
                    insert(&self.place, table, hash, keyed, stored)?;
                }
                Ok(result)
            }
            Road::Encoded(cache) => cache.update(self.place.locate(keyed)?, hash, keyed, f),
        }
    }

    /// Sets or removes an entry, whatever there was: on the way to a byte backend cheaper than an update.
    #[inline]
    pub(crate) fn set(&mut self, keyed: &Keyed<'_, K, N>, stored: Option<S>) -> Result<()> {
        match &mut self.road {
            Road::Memory(_) => self.update(keyed, |slot| *slot = stored),
            Road::Encoded(cache) => {
                let group = self.place.locate(keyed)?;
                cache.set(group, keyed.address_hash(), keyed, stored)
            }
        }
    }

    /// Calls `f` with each entry, once, in no particular order.
    pub(crate) fn for_each(&mut self, mut f: impl FnMut(&K, &N, &S)) -> Result<()> {
        let mut f =
            |address: &Address<K, N>, stored: &S| f(&address.key, &address.namespace, stored);
        match &mut self.road {
            Road::Memory(table) => table
                .iter()
                .for_each(|(address, stored)| f(address, stored)),
            Road::Encoded(cache) => cache.for_each(f)?,
        }
        Ok(())
    }

    /// The namespaces of a key whose entries count: in memory found by a look at all entries of its group.
    pub(crate) fn namespaces(
        &mut self,
        keyed: Keyed<'_, K>,
        counts: impl Fn(&S) -> bool,
    ) -> Result<Vec<N>> {
        let group = self.place.locate(&keyed)?;
        let mut found = Vec::new();
        let mut f = |address: &Address<K, N>, stored: &S| {
            if address.key == *keyed.key() && counts(stored) {
                found.push(address.namespace.clone());
            }
        };
        match &mut self.road {
            Road::Memory(table) => {
                let entries = table.iter_group(group);
                entries.for_each(|(address, stored)| f(address, stored));
            }
            Road::Encoded(cache) => {
                let mut prefix = Vec::new();
                keyed.key().encode(&mut prefix);
                cache.for_each_from(group, &prefix, f)?;
            }
        }
        Ok(found)
    }

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

/// Where an entry is. Out of the way of accesses to those of which the prefetch has left a pointer.
#[inline(never)]
fn search<K: Key, S: Data, N: Key>(
    place: &Place,
    table: &Table<Address<K, N>, S>,
    hash: KeyHash,
    keyed: &Keyed<'_, K, N>,
) -> Result<Option<Spot>> {
    Ok(table.find(place.locate(keyed)?, hash, keyed))
}

#[inline(never)]
fn search_or_insert<'a, K: Key, S: Data, N: Key>(
    place: &Place,
    table: &'a mut Table<Address<K, N>, S>,
    hash: KeyHash,
    keyed: &Keyed<'_, K, N>,
    default: impl FnOnce() -> S,
) -> Result<&'a mut S> {
    let spot = match search(place, table, hash, keyed)? {
        Some(spot) => spot,
        None => insert(place, table, hash, keyed, default())?,
    };
    Ok(table.value_mut(spot))
}

#[cold]
fn insert<K: Key, S: Data, N: Key>(
    place: &Place,
    table: &mut Table<Address<K, N>, S>,
    hash: KeyHash,
    keyed: &Keyed<'_, K, N>,
    stored: S,
) -> Result<Spot> {
    let group = place.locate(keyed)?;
    Ok(table.insert(group, hash, (keyed.stored(), stored)))
}

impl<K: Key, S: Data, N: Key> AnyTable<K> for KeyedTable<K, S, N> {
    fn freeze(&mut self, base: Option<u64>) -> View {
        match &mut self.road {
            Road::Memory(table) => View::Typed(Box::new(FrozenEntries {
                first_group: self.place.groups().start(),
                table: table.freeze(base),
                expiry: self
                    .expiry
                    .as_ref()
                    .map(|expiry| -> Box<Prune<S>> { Box::new(expiry.as_of_now()) }),
            })),
            Road::Encoded(cache) => View::Rows(cache.freeze()),
        }
    }

    fn prefetch(&mut self, hashes: &[KeyHash]) {
        if size_of::<N>() > 0 {
            return; // hashes of keys do not tell where an entry of key and namespace is
        }
        let place = &self.place;
        match &mut self.road {
            Road::Memory(table) => table.prefetch(hashes, |hash| place.number(K::GROUPING, hash)),
            Road::Encoded(cache) => cache.prefetch(hashes),
        }
    }

    fn announce(&mut self, keys: &[Keyed<'_, K>]) -> Result<()> {
        // A type without size has one value, which has no bytes.
        let Ok(none) = N::decode(&mut &[][..]) else {
            return Ok(()); // nobody knows in which namespaces the keys will be
        };
        let Road::Encoded(cache) = &mut self.road else {
            return Ok(());
        };
        let keys: Vec<_> = keys.iter().map(|keyed| keyed.at(none.clone())).collect();
        let keys: Vec<_> = keys
            .iter()
            .map(|keyed| (keyed.address_hash(), keyed))
            .collect();
        cache.announce(&keys)
    }

    fn expect(&mut self, group: KeyGroup, entries: u64) {
        if let Road::Memory(table) = &mut self.road {
            let entries = usize::try_from(entries).unwrap_or(usize::MAX);
            table.expect(self.place.number_of(group), entries);
        }
    }

    fn load(&mut self, group: KeyGroup, entries: u64, bytes: &mut &[u8]) -> Result<(), Unreadable> {
        let number = self.place.number_of(group);
        let (place, read) = (&self.place, self.read.as_deref());
        let is_there = |hash: &KeyHash| place.group(K::GROUPING, *hash) == group;
        let mut rest = *bytes;
        let mut left = usize::try_from(entries).unwrap_or(usize::MAX);
        match &mut self.road {
            Road::Memory(table) => {
                while left > 0 {
                    let mut incoming = table.incoming(left);
                    let filled = incoming.fill(|| decode(read, is_there, &mut rest));
                    if !incoming.hashes().iter().all(is_there) {
                        return Err(Unreadable::Key);
                    }
                    filled?;
                    left -= incoming.hashes().len();
                    table.load(number, incoming);
                }
            }
            Road::Encoded(cache) => {
                for _ in 0..left {
                    let (address, stored) = decode(read, is_there, &mut rest)?;
                    let hash = address.key_hash();
                    if !is_there(&hash) {
                        return Err(Unreadable::Key);
                    }
                    let set = cache.set(number, hash, &address, Some(stored));
                    set.map_err(Unreadable::NotKept)?;
                }
            }
        }
        *bytes = rest;
        Ok(())
    }
}

/// Takes an entry from the front of `bytes`. Where its key belongs is asked only if the value cannot be read.
#[inline]
fn decode<K: Key, S: Data, N: Key>(
    read: Option<&Read<S>>,
    is_there: impl Fn(&KeyHash) -> bool,
    bytes: &mut &[u8],
) -> Result<(Address<K, N>, S), Unreadable> {
    let address = Address::decode(bytes).map_err(|_| Unreadable::Key)?;
    let stored = match read {
        None => schema::take(bytes),
        Some(read) => {
            let mut rest = *bytes; // so that `bytes` can be in registers
            let stored = read(&mut rest);
            *bytes = rest;
            stored
        }
    };
    match stored {
        Ok(stored) => Ok((address, stored)),
        Err(error) if is_there(&address.key_hash()) => Err(Unreadable::Value(error)),
        Err(_) => Err(Unreadable::Key),
    }
}

impl<K, S, N> fmt::Debug for KeyedTable<K, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.place, f)
    }
}

/// What is left of an entry.
type Prune<S> = dyn Fn(&S) -> Left<S> + Send;

struct FrozenEntries<A, S> {
    first_group: u16,
    table: table::Frozen<A, S>,
    /// None if all entries stay.
    expiry: Option<Box<Prune<S>>>,
}

impl<A: Key, S: Data> Frozen for FrozenEntries<A, S> {
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()> {
        let Self {
            first_group,
            table,
            expiry,
        } = *self;
        let encode = encoder(expiry);
        table.drain(|number, entries| out.entries(first_group + number, entries, &encode))
    }
}

impl<A: Key, S: Data> FrozenBlocks for FrozenEntries<A, S> {
    fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    fn wanted(&self) -> Vec<BlockId> {
        self.table.wanted()
    }

    fn write_images(
        self: Box<Self>,
        blocks: Vec<BlockId>,
        out: &mut ImageWriter<'_>,
    ) -> Result<()> {
        let Self {
            first_group,
            table,
            expiry,
        } = *self;
        let encode = encoder(expiry);
        table.drain_blocks(blocks, |block, entries| {
            out.image(block, first_group + block.group, entries, &encode)
        })
    }
}

/// What writes an entry, or what is left of it, and says whether anything is.
fn encoder<A: Key, S: Data>(
    expiry: Option<Box<Prune<S>>>,
) -> impl Fn(&(A, S), &mut Vec<u8>) -> Result<bool, postcard::Error> {
    move |(address, stored), bytes| {
        let left = expiry.as_ref().map_or(Left::All, |left| left(stored));
        let stored = match &left {
            Left::All => stored,
            Left::Some(some) => some,
            Left::Nothing => return Ok(false),
        };
        address.encode(bytes);
        append(stored, bytes)?;
        Ok(true)
    }
}
