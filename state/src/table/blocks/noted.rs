//! Where the entries of the coming batch are: as pointers, for as long as no block changes its shape.

use std::{fmt, ptr::NonNull};

use super::{Blocks, block_in, fetch, is_wanted, settle::COPIES_AT_ONCE};

/// Where an entry is, until the table is written to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spot {
    /// Where the note of this number says.
    Noted(usize),
    /// In this block, at this position.
    At(usize, usize),
}

/// What was noted of each record of a batch.
pub(super) struct Notes<K, V> {
    notes: Vec<Note<K, V>>,
    good_for: GoodFor,
}

/// Where one entry is: block, position, and as long as that is of use, a pointer. None if the key was not there.
struct Note<K, V> {
    entry: Option<NonNull<(K, V)>>,
    number: u32,
    at: u32,
}

/// What pointers may be followed for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum GoodFor {
    Nothing,
    Reading,
    /// All blocks are settled.
    Writing,
}

// SAFETY: the pointers are to entries that the blocks own, next to which the notes are.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Notes<K, V> {}

impl<K, V> Notes<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            notes: Vec::new(),
            good_for: GoodFor::Nothing,
        }
    }

    /// No pointer is to be followed any more.
    #[inline]
    pub(super) const fn fall(&mut self) {
        self.good_for = GoodFor::Nothing;
    }

    #[inline]
    fn entry(&self, note: usize, needed: GoodFor) -> Option<NonNull<(K, V)>> {
        if self.good_for >= needed {
            self.notes.get(note)?.entry
        } else {
            None
        }
    }
}

impl<K: Clone, V: Clone, X> Blocks<K, V, X> {
    /// Forgets all that was noted.
    pub(crate) fn forget(&mut self) {
        self.put_pending();
        self.copies_left = COPIES_AT_ONCE;
        self.notes.notes.clear();
        self.notes.good_for = GoodFor::Writing;
    }

    /// Adds a note for each of `sought`, a block's number and what `find` finds an entry by, and brings the front of
    /// the entry into the cache.
    #[inline]
    pub(crate) fn note<T>(
        &mut self,
        sought: impl Iterator<Item = (u32, T)>,
        find: impl Fn(&X, T) -> Option<usize>,
    ) {
        let Self {
            chunks,
            len,
            epoch,
            open,
            notes,
            ..
        } = self;
        let mut are_settled = true;
        notes.notes.extend(sought.map(|(number, by)| {
            let mut note = Note {
                entry: None,
                number,
                at: 0,
            };
            if let Some(block) = block_in(chunks, *len, number as usize)
                && let Some(at) = find(&block.extra, by)
                && at < block.len()
            {
                // SAFETY: there are `len` entries.
                let entry = unsafe { block.entries.add(at) };
                fetch(entry.as_ptr());
                if block.settled != *epoch {
                    are_settled = false;
                    for side in open.iter().filter(|side| is_wanted(side)) {
                        side.fetch(number as usize);
                    }
                }
                note.entry = Some(entry);
                note.at = u32::try_from(at).expect("blocks are small");
            }
            note
        }));
        if !are_settled {
            notes.good_for = notes.good_for.min(GoodFor::Reading);
        }
    }

    /// What was noted, if that still stands.
    #[inline]
    pub(crate) fn noted(&self, note: usize) -> Option<&(K, V)> {
        let entry = self.notes.entry(note, GoodFor::Reading)?;
        // SAFETY: it is in a live buffer (4), which the task alone writes to, through `&mut self`.
        Some(unsafe { entry.as_ref() })
    }

    /// What was noted, if that still stands, and may be written to.
    #[inline]
    pub(crate) fn noted_to_write(&self, note: usize) -> Option<&(K, V)> {
        let entry = self.notes.entry(note, GoodFor::Writing)?;
        // SAFETY: as for `noted`.
        Some(unsafe { entry.as_ref() })
    }

    /// The block and the position which were noted, whether or not they still stand.
    pub(crate) fn place_noted(&self, note: usize) -> Option<(usize, usize)> {
        let note = self.notes.notes.get(note)?;
        Some((note.number as usize, note.at as usize))
    }

    /// The value at a spot.
    #[inline]
    pub(crate) fn value(&self, spot: Spot) -> &V {
        let (number, at) = self.resolve(spot);
        let pending = self.pending.as_ref();
        let pending = pending.and_then(|pending| pending.value_of(number, at));
        pending.unwrap_or_else(|| &self.block(number).entries()[at].1)
    }

    /// The value at a spot, to be changed before the next call.
    #[inline]
    pub(crate) fn value_mut(&mut self, spot: Spot) -> &mut V {
        if let Some(entry) = self.entry_to_write(spot) {
            // SAFETY: it is in a live buffer (4) that only the task reads and writes (2).
            return unsafe { &mut (*entry.as_ptr()).1 };
        }
        let (number, at) = self.resolve(spot);
        self.value_at(number, at)
    }

    /// The value at a spot, to be changed in place; none if a clone is to be [put](Self::put_later) there.
    #[inline]
    pub(super) fn value_to_write(&mut self, spot: Spot) -> Option<&mut V> {
        if let Some(entry) = self.entry_to_write(spot) {
            // SAFETY: as for `value_mut`.
            return Some(unsafe { &mut (*entry.as_ptr()).1 });
        }
        let (number, at) = self.resolve(spot);
        self.settled_value(number, at)
    }

    /// Where a note leads to that is good for writing.
    #[inline]
    fn entry_to_write(&self, spot: Spot) -> Option<NonNull<(K, V)>> {
        match spot {
            Spot::Noted(note) => self.notes.entry(note, GoodFor::Writing),
            Spot::At(..) => None,
        }
    }

    /// The block and the position of a spot.
    pub(super) fn resolve(&self, spot: Spot) -> (usize, usize) {
        match spot {
            Spot::Noted(note) => self.place_noted(note).expect("it was noted"),
            Spot::At(number, at) => (number, at),
        }
    }
}

impl<K, V> fmt::Debug for Notes<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes")
            .field("notes", &self.notes.len())
            .field("good_for", &self.good_for)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whether a pointer to the first entry of each of two blocks may be followed, after they were noted and then
    /// changed: for reading, and for writing.
    fn stand_after(change: impl FnOnce(&mut Blocks<u64, String, ()>)) -> (bool, bool) {
        let mut blocks = Blocks::<u64, String, ()>::new(1);
        for group in 0..2 {
            let number = blocks.push(group, ());
            blocks.modify(number, |entries, ()| entries.push((0, "old".into())));
        }
        drop(blocks.freeze(None));
        blocks.value_mut(Spot::At(0, 0)).push('!');
        blocks.forget();
        blocks.note([(0, ())].into_iter(), |(), ()| Some(0));
        change(&mut blocks);
        (
            blocks.noted(0).is_some(),
            blocks.noted_to_write(0).is_some(),
        )
    }

    #[test]
    fn pointers_are_followed_until_blocks_change_shape_or_are_frozen() {
        assert_eq!(stand_after(|_| {}), (true, true));
        let write = |blocks: &mut Blocks<u64, String, ()>| {
            blocks.value_mut(Spot::At(1, 0)).push('!');
            blocks.value_mut(Spot::Noted(0)).push('!');
            let _number = blocks.push(0, ());
        };
        assert_eq!(stand_after(write), (true, true));

        let frozen = |blocks: &mut Blocks<u64, String, ()>| drop(blocks.freeze(None));
        assert_eq!(stand_after(frozen), (false, false));
        let added = |blocks: &mut Blocks<u64, String, ()>| {
            blocks.modify(1, |entries, ()| entries.push((1, String::new())));
        };
        assert_eq!(stand_after(added), (false, false));
        let removed = |blocks: &mut Blocks<u64, String, ()>| {
            blocks.lend(Spot::Noted(0), |slot| *slot = None, |_, _, ()| {});
        };
        assert_eq!(stand_after(removed), (false, false));
        let forgotten = Blocks::forget;
        assert_eq!(stand_after(forgotten), (false, false));
    }

    #[test]
    fn a_block_that_is_not_settled_is_read_only_and_what_is_nowhere_has_no_pointer() {
        let unsettled = |blocks: &mut Blocks<u64, String, ()>| {
            blocks.forget();
            blocks.note([(1, ())].into_iter(), |(), ()| Some(0));
        };
        assert_eq!(stand_after(unsettled), (true, false));
        for (number, at) in [(0, None), (0, Some(1)), (2, Some(0))] {
            let nowhere = |blocks: &mut Blocks<u64, String, ()>| {
                blocks.forget();
                blocks.note([(number, ())].into_iter(), |(), ()| at);
            };
            assert_eq!(stand_after(nowhere), (false, false));
        }
    }

    #[test]
    fn a_value_is_written_where_it_is_now_whether_or_not_the_note_stands() {
        stand_after(|blocks| {
            let note = |blocks: &mut Blocks<u64, String, ()>| {
                blocks.forget();
                blocks.note([(0, ())].into_iter(), |(), ()| Some(0));
            };
            let frozen = blocks.freeze(None);
            note(blocks);
            blocks.value_mut(Spot::Noted(0)).push('?'); // not in its place yet
            assert_eq!(blocks.value(Spot::Noted(0)), "old!?");
            assert!(blocks.noted(0).is_none());
            note(blocks);
            assert!(blocks.noted(0).is_some_and(|(_, value)| value == "old!?"));
            let mut found = Vec::new();
            let all: Result<(), ()> = frozen.drain(|_, entries| {
                found.extend(entries.iter().map(|(_, value)| value.clone()));
                Ok(())
            });
            all.unwrap();
            assert_eq!(found, ["old!", "old"]);
        });
    }
}
