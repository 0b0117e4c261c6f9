//! One element per key: what value, reducing and aggregating states have in common.

use std::fmt;

use cutwater_keygroups::Key;

use crate::{
    Data, Keyed, Lifetime, Result, Timestamp,
    expiry::{Expiry, Left},
    keyed_table::{AnyTable, KeyedTable},
    place::Place,
    schema::Reading,
};

/// For each key, and namespace if there are such, a `T` that lives for `L`.
pub(crate) struct Single<K, T: Data, N, L: Lifetime> {
    table: KeyedTable<K, L::Of<T>, N>,
    lifetime: L,
}

impl<K: Key, T: Data, N: Key, L: Lifetime> Single<K, T, N, L> {
    pub(crate) fn new(place: Place, lifetime: L) -> Self {
        let expiry = Expiry::new(&lifetime, |lifetime: &L, of| {
            if lifetime.is_over(of) {
                Left::Nothing
            } else {
                Left::All
            }
        });
        Self {
            table: KeyedTable::expiring(place, expiry),
            lifetime,
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, keyed: &Keyed<'_, K, N>) -> Result<Option<&T>> {
        let Self { table, lifetime } = self;
        if lifetime.reads_refresh()
            && let Some(of) = table.get_mut(keyed)?
            && lifetime.is_visible(of)
        {
            lifetime.get_mut(of);
        }
        let of = table.get(keyed)?.filter(|of| lifetime.is_visible(of));
        Ok(of.map(L::get))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, keyed: &Keyed<'_, K, N>) -> Result<Option<&mut T>> {
        let Self { table, lifetime } = self;
        let of = table.get_mut(keyed)?.filter(|of| lifetime.is_visible(of));
        Ok(of.map(|of| lifetime.get_mut(of)))
    }

    #[inline]
    pub(crate) fn or_insert_with(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        default: impl FnOnce() -> T,
    ) -> Result<&mut T> {
        let Self { table, lifetime } = self;
        if L::STAMPED {
            table.update(keyed, |slot| {
                slot.take_if(|of| !lifetime.is_visible(of));
            })?;
        }
        let of = table.or_insert_with(keyed, || lifetime.of(default()))?;
        Ok(lifetime.get_mut(of))
    }

    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        keyed: &Keyed<'_, K, N>,
        f: impl FnOnce(&mut Option<T>) -> R,
    ) -> Result<R> {
        let Self { table, lifetime } = self;
        table.update(keyed, |slot| lifetime.lend(slot, f))
    }

    #[inline]
    pub(crate) fn set(&mut self, keyed: &Keyed<'_, K, N>, value: Option<T>) -> Result<()> {
        let of = value.map(|value| self.lifetime.of(value));
        self.table.set(keyed, of)
    }

    /// Takes what stands in the namespaces `from` of a key, and gives it to `add` with what stands in `into`.
    pub(crate) fn merge(
        &mut self,
        keyed: Keyed<'_, K>,
        into: N,
        from: impl IntoIterator<Item = N>,
        mut add: impl FnMut(&mut Option<T>, T),
    ) -> Result<()> {
        let Self { table, lifetime } = self;
        table.merge(keyed, into, from, |slot, of| {
            if !lifetime.is_over(&of) {
                lifetime.lend(slot, |slot| add(slot, L::take(of)));
            }
        })
    }

    pub(crate) fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        let Self { table, lifetime } = self;
        table.namespaces(keyed, |of| lifetime.is_visible(of))
    }

    pub(crate) fn for_each(&mut self, mut f: impl FnMut(&K, &N, &T)) -> Result<()> {
        let Self { table, lifetime } = self;
        table.for_each(|key, namespace, of| {
            if lifetime.is_visible(of) {
                f(key, namespace, L::get(of));
            }
        })
    }

    pub(crate) fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }

    pub(crate) fn set_time(&mut self, now: Timestamp) {
        self.lifetime.set_time(now);
        self.table.set_time(now);
    }

    pub(crate) fn read_as(&mut self, reading: Reading<T>) {
        let lifetime = self.lifetime.clone();
        let read = reading.of_all(move |reading, bytes| reading.element(&lifetime, bytes));
        self.table.read_as(read);
    }
}

impl<K, T: Data, N, L: Lifetime> fmt::Debug for Single<K, T, N, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Single")
            .field(&self.table)
            .field(&self.lifetime)
            .finish()
    }
}
