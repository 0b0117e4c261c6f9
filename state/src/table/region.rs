//! A region: one small hash table, the unit that a snapshot shares and a write copies.
//!
//! Linear probing inside the region, wrapping around, removal by backward shift, so that nothing
//! outside the region is ever touched. The slots are either owned, and then a write costs no atomic
//! operation, or shared with one or more snapshots:
//!
//! ```text
//!           freeze                      first write, a snapshot still reads: copied
//!   Owned ─────────▶ Shared ──────────▶ Owned
//!                                       first write, no snapshot reads: taken back as it is
//! ```

use std::sync::Arc;

use super::{
    recycle::Recycle,
    slots::{Entry, Slots, Tag, close_gap, first_empty, probe},
};

#[derive(Debug)]
enum Hold<K, V> {
    Owned(Slots<K, V>),
    Shared(Arc<Slots<K, V>>),
}

#[derive(Debug)]
pub(crate) struct Region<K, V> {
    hold: Hold<K, V>,
    len: usize,
}

impl<K: Eq + Clone, V: Clone> Region<K, V> {
    /// `slots` must be empty, and a power of two of them.
    pub(crate) fn new(slots: Slots<K, V>) -> Self {
        debug_assert!(slots.len().is_power_of_two(), "the probe wraps with a mask");
        Self {
            hold: Hold::Owned(slots),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Option<Entry<K, V>>] {
        match &self.hold {
            Hold::Owned(slots) => slots,
            Hold::Shared(slots) => slots,
        }
    }

    /// Whether one more entry needs more room. Beyond three quarters, linear probing takes more
    /// than two steps and a half for a hit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        (self.len + 1) * 4 > self.slots().len() * 3
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn find(&self, tag: Tag, key: &K) -> Option<usize> {
        probe(self.slots(), tag, key)
    }

    /// Shares the slots with a snapshot.
    pub(crate) fn freeze(&mut self) -> Arc<Slots<K, V>> {
        match &mut self.hold {
            Hold::Shared(slots) => Arc::clone(slots),
            Hold::Owned(slots) => {
                let shared = Arc::new(std::mem::take(slots));
                self.hold = Hold::Shared(Arc::clone(&shared));
                shared
            }
        }
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, at: usize, recycle: &mut Recycle<K, V>) -> &mut V {
        let slots = self.hold.owned(recycle);
        &mut slots[at].as_mut().expect("an entry was found there").2
    }

    /// Lends the value at `at` as an `Option`, to change, replace or clear.
    ///
    /// The entry is out of its slot meanwhile, and goes back however `f` ends, also by a panic: a
    /// hole would make other keys unreachable.
    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        at: usize,
        recycle: &mut Recycle<K, V>,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> R {
        let slots = self.hold.owned(recycle);
        let (tag, key, value) = slots[at].take().expect("an entry was found there");
        let mut lent = Lent {
            slots,
            len: &mut self.len,
            at,
            tag,
            key: Some(key),
            value: Some(value),
        };
        f(&mut lent.value)
    }

    /// Adds an entry whose key is not there yet and for which there is room; returns its slot.
    pub(crate) fn insert(&mut self, entry: Entry<K, V>, recycle: &mut Recycle<K, V>) -> usize {
        let slots = self.hold.owned(recycle);
        let at = first_empty(slots, entry.0);
        slots[at] = Some(entry);
        self.len += 1;
        at
    }

    /// Takes the slots out, leaving a region without any.
    pub(crate) fn take_slots(&mut self, recycle: &mut Recycle<K, V>) -> Slots<K, V> {
        self.len = 0;
        std::mem::take(self.hold.owned(recycle))
    }
}

impl<K: Clone, V: Clone> Hold<K, V> {
    /// The slots to write to; copies them first if a snapshot still reads them.
    #[inline]
    fn owned(&mut self, recycle: &mut Recycle<K, V>) -> &mut Slots<K, V> {
        if let Self::Shared(_) = self {
            self.unshare(recycle);
        }
        match self {
            Self::Owned(slots) => slots,
            Self::Shared(_) => unreachable!("unshared above"),
        }
    }

    #[cold]
    fn unshare(&mut self, recycle: &mut Recycle<K, V>) {
        let Self::Shared(shared) = self else { return };
        if let Some(slots) = Arc::get_mut(shared) {
            *self = Self::Owned(std::mem::take(slots));
        } else {
            // Copied before anything changes: a `clone` of the user's may panic.
            let copy = Self::Owned(recycle.copy(shared));
            if let Self::Shared(shared) = std::mem::replace(self, copy) {
                recycle.done_with(shared);
            }
        }
    }
}

/// An entry while its value is lent out.
struct Lent<'a, K, V> {
    slots: &'a mut [Option<Entry<K, V>>],
    len: &'a mut usize,
    at: usize,
    tag: Tag,
    key: Option<K>,
    value: Option<V>,
}

impl<K, V> Drop for Lent<'_, K, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key.take()
            && let Some(value) = self.value.take()
        {
            let tag = self.tag;
            self.slots[self.at] = Some((tag, key, value));
        } else {
            close_gap(self.slots, self.at);
            *self.len -= 1;
        }
    }
}
