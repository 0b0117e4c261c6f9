//! Value state: one value per key.

use cutwater_keygroups::{Key, KeyGroup, KeyHash};

use crate::{
    Data, Keyed, Result,
    keyed_table::{KeyedState, KeyedTable},
    place::Place,
    restore::Unreadable,
    snapshot::Frozen,
};

/// One value per key.
///
/// In memory the value stands in the hash table itself. The first write to a block of up to 256
/// entries after a snapshot clones the block, so a value that owns much memory (a long `Vec`, a map) is better
/// an `Arc` of it, or a [`ListState`](crate::ListState) or [`MapState`](crate::MapState).
///
/// In a snapshot: the value as postcard.
#[derive(Debug)]
pub struct ValueState<K, V> {
    table: KeyedTable<K, V>,
}

// All methods: `WrongGroup` if the key's group is not owned; nothing is read or written then.
#[expect(
    clippy::missing_errors_doc,
    reason = "one for all, said on the crate's first page"
)]
impl<K: Key, V: Data> ValueState<K, V> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            table: KeyedTable::new(place),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, keyed: Keyed<'_, K>) -> Result<Option<&V>> {
        self.table.get(keyed)
    }

    /// The value of a key, to change in place.
    #[inline]
    pub fn get_mut(&mut self, keyed: Keyed<'_, K>) -> Result<Option<&mut V>> {
        self.table.get_mut(keyed)
    }

    /// The value of a key, to change in place; first what `default` makes, if there is none. The
    /// fastest way to update: the value is not moved.
    #[inline]
    pub fn or_insert_with(
        &mut self,
        keyed: Keyed<'_, K>,
        default: impl FnOnce() -> V,
    ) -> Result<&mut V> {
        self.table.or_insert_with(keyed, default)
    }

    /// Lends the value of a key, or `None`, to change, set or clear.
    ///
    /// If `f` panics, what is in the slot by then stays.
    #[inline]
    pub fn update<R>(
        &mut self,
        keyed: Keyed<'_, K>,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> Result<R> {
        self.table.update(keyed, f)
    }

    /// Sets the value of a key.
    #[inline]
    pub fn put(&mut self, keyed: Keyed<'_, K>, value: V) -> Result<()> {
        self.table.update(keyed, |slot| *slot = Some(value))
    }

    /// Forgets the value of a key.
    #[inline]
    pub fn clear(&mut self, keyed: Keyed<'_, K>) -> Result<()> {
        self.table.update(keyed, |slot| *slot = None)
    }

    /// Each key with its value, once, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.table.iter()
    }
}

impl<K: Key, V: Data> KeyedState for ValueState<K, V> {
    fn freeze(&mut self) -> Box<dyn Frozen> {
        self.table.freeze()
    }

    fn prefetch(&mut self, hashes: &[KeyHash]) {
        self.table.prefetch(hashes);
    }

    fn load(&mut self, group: KeyGroup, bytes: &mut &[u8]) -> Result<(), Unreadable> {
        self.table.load(group, bytes)
    }
}
