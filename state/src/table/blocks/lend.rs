//! Lending a value to somebody who may take it: then its entry goes.

use std::ptr;

use super::{Blocks, Spot};

impl<K: Clone, V: Clone, X> Blocks<K, V, X> {
    /// Lends the value at a spot as an `Option`, to change, replace or clear. If it is cleared, the last
    /// entry has taken the place of this one by the time that `cleared` is called with the position.
    ///
    /// The entry is kept or removed however `f` ends, also by a panic.
    #[inline]
    pub(crate) fn lend<R>(
        &mut self,
        spot: Spot,
        f: impl FnOnce(&mut Option<V>) -> R,
        cleared: impl FnOnce(usize, &[(K, V)], &mut X),
    ) -> R {
        let (place, value) = match self.value_to_write(spot) {
            // SAFETY: `Lent` writes a value back there, or removes the entry.
            Some(place) => (Some(ptr::from_mut(place)), unsafe { ptr::read(place) }),
            None => (None, self.value(spot).clone()),
        };
        let mut lent = Lent {
            blocks: self,
            spot,
            place,
            value: Some(value),
            cleared: Some(cleared),
        };
        f(&mut lent.value)
    }

    /// Removes the entry at a spot, whose value has been moved out; the last one takes its place.
    ///
    /// # Safety
    ///
    /// The value was moved out, and nobody else drops it.
    #[cold]
    unsafe fn remove_rest(&mut self, spot: Spot, then: impl FnOnce(usize, &[(K, V)], &mut X)) {
        let (number, at) = self.resolve(spot);
        self.modify(number, |entries, extra| {
            let last = entries.len() - 1;
            entries.swap(at, last);
            // SAFETY: one entry fewer than there were. The last one is ours then: its value was moved out,
            // and its key is read here, once.
            let key = unsafe {
                entries.set_len(last);
                ptr::read(&raw const (*entries.as_ptr().add(last)).0)
            };
            then(at, entries, extra);
            drop(key);
        });
    }

    /// Removes the entry at a spot; the last one takes its place.
    #[cold]
    fn remove(&mut self, spot: Spot, then: impl FnOnce(usize, &[(K, V)], &mut X)) {
        let (number, at) = self.resolve(spot);
        self.modify(number, |entries, extra| {
            let removed = entries.swap_remove(at);
            then(at, entries, extra);
            drop(removed);
        });
    }
}

/// Blocks of which one entry has its value in here.
struct Lent<'a, K: Clone, V: Clone, X, F: FnOnce(usize, &[(K, V)], &mut X)> {
    blocks: &'a mut Blocks<K, V, X>,
    spot: Spot,
    /// Where the value was moved out, from a block that is settled. None if it is a clone: a snapshot may be reading the
    /// block.
    place: Option<*mut V>,
    value: Option<V>,
    cleared: Option<F>,
}

impl<K: Clone, V: Clone, X, F: FnOnce(usize, &[(K, V)], &mut X)> Drop for Lent<'_, K, V, X, F> {
    #[inline]
    fn drop(&mut self) {
        match (self.value.take(), self.place) {
            // SAFETY: the value there was moved out, and the blocks have not been touched since.
            (Some(value), Some(place)) => unsafe { place.write(value) },
            (Some(value), None) => {
                let (number, at) = self.blocks.resolve(self.spot);
                self.blocks.put_later(number, at, value);
            }
            (None, place) => {
                let Some(cleared) = self.cleared.take() else {
                    return;
                };
                if place.is_some() {
                    // SAFETY: the value was moved out to here, and is gone.
                    unsafe { self.blocks.remove_rest(self.spot, cleared) };
                } else {
                    self.blocks.remove(self.spot, cleared);
                }
            }
        }
    }
}
