//! What comes before the task's writes: open snapshots get, or keep, what they have not read yet.
//!
//! Once in an epoch a block is settled: each snapshot that wants it has read it, or is given it. After that the task
//! writes in place. Where it has copied many blocks just now, and changes only few values of another, it keeps these for
//! the snapshot as they were ([`kept`](super::kept)), which spares it the copy for now. The writer may come for the block at
//! any moment but those in which the task swaps two values. So what is lent is a clone, and it gets to its place when
//! its user is through with it: with the next call.

use std::{
    mem::{self, ManuallyDrop},
    sync::atomic::Ordering,
};

use super::{
    Blocks, CHUNK, Chunk, fetch,
    frozen::Side,
    is_wanted,
    kept::{KEPT_MAX, Kept},
    slot::State,
    sync::Arc,
};

/// So many blocks are copied after a [prefetch](Blocks::forget) before values are kept: it is cheaper in the end, but a
/// copy takes one or two microseconds. The tests are about what is kept.
pub(super) const COPIES_AT_ONCE: usize = if cfg!(any(test, loom)) { 0 } else { 4 };

/// What an entry has from now on, whose block is not settled: not in its place yet, as somebody may be changing it.
pub(super) struct Pending<V> {
    number: usize,
    at: usize,
    value: V,
}

impl<V> Pending<V> {
    pub(super) fn value_of(&self, number: usize, at: usize) -> Option<&V> {
        ((self.number, self.at) == (number, at)).then_some(&self.value)
    }
}

/// The one open snapshot that is still to get a block, and what its slot says: values can be kept for it.
struct Keeper<'a, K, V> {
    side: &'a Side<K, V>,
    state: State<Kept<V>>,
}

impl<K: Clone, V: Clone, X> Blocks<K, V, X> {
    /// The value of the entry at `at`, to be changed before the next call.
    #[inline(never)]
    pub(super) fn value_at(&mut self, number: usize, at: usize) -> &mut V {
        if self.settle_or_keep(number) {
            return self.value_in_place(number, at);
        }
        let value = self.block(number).entries()[at].1.clone();
        self.put_later(number, at, value)
    }

    /// The value of the entry at `at`, to be changed in place; none if a clone is to be [put](Self::put_later) there.
    #[inline(never)]
    pub(super) fn settled_value(&mut self, number: usize, at: usize) -> Option<&mut V> {
        self.settle_or_keep(number)
            .then(|| self.value_in_place(number, at))
    }

    /// Settles a block, unless its values can be kept.
    fn settle_or_keep(&mut self, number: usize) -> bool {
        if self.is_settled(number) {
            return true;
        }
        self.put_pending();
        if self.copies_left == 0
            && let Some(Keeper { state, .. }) = self.keeper(number)
        {
            if let State::Kept(kept) = state {
                fetch(kept.as_ptr()); // by the time that the next value is put there
            }
            return false;
        }
        self.settle_with_snapshots(number);
        true
    }

    /// Gives the entry at `at` another value, with the next call. There is none that waits for that yet.
    pub(super) fn put_later(&mut self, number: usize, at: usize, value: V) -> &mut V {
        self.notes.fall(); // they would lead to the old value
        &mut self.pending.insert(Pending { number, at, value }).value
    }

    /// Puts the value in its place that waits for that, if one does.
    #[inline]
    pub(crate) fn put_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.put(pending);
        }
    }

    fn put(&mut self, Pending { number, at, value }: Pending<V>) {
        if let Err(value) = self.put_and_keep(number, at, value) {
            self.put_later(number, at, value); // a user's `clone` may panic
            self.settle(number);
            if let Some(Pending { value, .. }) = self.pending.take() {
                *self.value_in_place(number, at) = value;
            }
        }
    }

    /// Gives the entry at `at` another value and keeps the old one, if that can be.
    fn put_and_keep(&mut self, number: usize, at: usize, value: V) -> Result<(), V> {
        let Some(Keeper { side, state }) = self.keeper(number) else {
            return Err(value);
        };
        let slot = side.slot(number);
        let block = self.block(number);
        assert!(at < block.len(), "an entry was found there");
        if !slot.begin(state) {
            return Err(value); // the writer is faster
        }
        self.watched(number);
        // SAFETY: `at` is one of the entries, of a buffer that only the task reads and writes for the moment (2). So it is
        // with what is kept of it.
        let count = unsafe {
            let (kept, count) = match state {
                State::Kept(kept) => (kept, block.kept + 1),
                _ => (side.kept().add(), 1),
            };
            let old = mem::replace(&mut (*block.entries.as_ptr().add(at)).1, value);
            kept.as_ref().keep(at, old);
            slot.end(kept);
            count
        };
        self.block_mut(number).kept = count;
        self.mark_written(number);
        Ok(())
    }

    /// None if the block is settled with all snapshots, or is to be.
    #[inline]
    fn keeper(&self, number: usize) -> Option<Keeper<'_, K, V>> {
        let (block, cell) = (self.block(number), self.cell(number));
        let mut keeper = None;
        for side in self.open.iter().filter(|side| is_wanted(side)) {
            if side.epoch() < block.settled {
                continue;
            }
            let slot = side.slot(number);
            let state = slot.state();
            match state {
                State::Settled => continue,
                State::Free => {
                    let is_wanted = side.wants(cell.written.load(Ordering::Relaxed));
                    if !is_wanted && slot.pass_over() {
                        continue;
                    }
                }
                State::Kept(_) if usize::from(block.kept) < KEPT_MAX => {}
                State::Kept(_) | State::Reading => return None,
            }
            if keeper.is_some() {
                return None;
            }
            keeper = Some(Keeper { side, state });
        }
        keeper
    }

    /// Before a write of any kind to a block: no snapshot needs it as it is.
    #[inline]
    pub(super) fn settle(&mut self, number: usize) {
        if !self.is_settled(number) {
            self.settle_with_snapshots(number);
        }
    }

    #[cold]
    fn settle_with_snapshots(&mut self, number: usize) {
        let Chunk { blocks, cells } = &mut self.chunks[number / CHUNK];
        let (block, cell) = (&mut blocks[number % CHUNK], &cells[number % CHUNK]);
        let written = cell.written.load(Ordering::Relaxed);
        // SAFETY: the cell owns the count that this borrows (1).
        let live = ManuallyDrop::new(unsafe { Arc::from_raw(cell.live.load(Ordering::Relaxed)) });
        let (mut copy, mut mine, mut left) = (None, None, false);
        for side in self.open.iter().filter(|side| is_wanted(side)) {
            if side.epoch() < block.settled {
                continue; // it was settled with then
            }
            let slot = side.slot(number);
            loop {
                // At most three rounds: the writer makes one step to reading and one from there. A user's `clone` may
                // panic; nothing has changed yet for this slot then.
                let expected = slot.state();
                let given = match expected {
                    State::Settled => break,
                    State::Free if !side.wants(written) => {
                        if slot.pass_over() {
                            break;
                        }
                        continue; // the writer reads it all the same
                    }
                    State::Reading => {
                        // What the task goes on with: it must be there when the block is not the task's any more.
                        mine.get_or_insert_with(|| self.recycle.copy(block.entries()));
                        Arc::clone(&live)
                    }
                    State::Free => {
                        Arc::clone(copy.get_or_insert_with(|| self.recycle.copy(block.entries())))
                    }
                    // SAFETY: what was kept is as old as its side (5).
                    State::Kept(last) => unsafe {
                        self.recycle.copy_with(block.entries(), Some(last))
                    },
                };
                if slot.give(expected, given) {
                    left |= matches!(expected, State::Reading);
                    break;
                }
            }
        }
        if let Some(mine) = mine.take_if(|_| left) {
            self.notes.fall();
            // SAFETY: just made, and nobody else refers to it.
            unsafe { mine.write(|entries| block.locate(entries)) };
            let mine = Arc::into_raw(mine).cast_mut();
            // Release: whoever reads the cell next, reads these entries.
            cell.live.store(mine, Ordering::Release);
            drop(ManuallyDrop::into_inner(live)); // the count of the cell
        }
        let is_copied = copy.is_some() || left;
        self.copies_left = self.copies_left.saturating_sub(is_copied.into());
        for unused in copy.into_iter().chain(mine) {
            self.recycle.done_with(unused); // if the writer was faster
        }
        block.settled = self.epoch;
        self.mark_written(number);
    }

    /// After a write, and after the snapshots were settled with or have what they want.
    fn mark_written(&mut self, number: usize) {
        let cell = &self.chunks[number / CHUNK].cells[number % CHUNK];
        let before = cell.written.load(Ordering::Relaxed);
        if before == self.epoch {
            return;
        }
        // Release: a writer that sees it, sees what the task has done with its slot.
        cell.written.store(self.epoch, Ordering::Release);
        let is_pressing = |side: &Arc<_>| is_wanted(side) && side.wants(before);
        self.pressed += usize::from(self.open.iter().any(is_pressing));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind},
        rc::Rc,
    };

    use super::{
        super::{Frozen, Spot},
        *,
    };

    const ENTRIES: usize = 8;

    /// A block of entries with the values 0, 10, 20...
    fn tens() -> Blocks<usize, Box<usize>, ()> {
        let mut blocks = Blocks::new(ENTRIES);
        let number = blocks.push(0, ());
        blocks.modify(number, |entries, ()| {
            entries.extend((0..ENTRIES).map(|at| (at, Box::new(10 * at))));
        });
        blocks
    }

    fn drained(frozen: Frozen<usize, Box<usize>>) -> Vec<usize> {
        let mut found = Vec::new();
        let all: Result<(), ()> = frozen.drain(|_, entries| {
            found.extend(entries.iter().map(|(_, value)| **value));
            Ok(())
        });
        all.expect("it does not fail");
        found
    }

    fn live(blocks: &mut Blocks<usize, Box<usize>, ()>) -> Vec<usize> {
        let values = blocks.iter().flatten();
        values.map(|(_, value)| **value).collect()
    }

    fn add_one(blocks: &mut Blocks<usize, Box<usize>, ()>, at: usize) {
        **blocks.value_mut(Spot::At(0, at)) += 1;
    }

    /// Changes of these entries, one after the other, and then what both sides find.
    fn changes(ats: &[usize]) {
        let mut blocks = tens();
        let frozen = blocks.freeze(None);
        let before = live(&mut blocks);
        let mut expected = before.clone();
        for &at in ats {
            add_one(&mut blocks, at);
            expected[at] += 1;
            assert_eq!(**blocks.value(Spot::At(0, at)), expected[at]);
        }
        assert_eq!(live(&mut blocks), expected, "{ats:?}");
        assert_eq!(drained(frozen), before, "{ats:?}");
        assert_eq!(live(&mut blocks), expected, "{ats:?}");
    }

    #[test]
    fn a_snapshot_has_values_as_they_were_however_many_change() {
        for count in 0..ENTRIES {
            changes(&Vec::from_iter(0..count));
            changes(&vec![1; count]);
            changes(&Vec::from_iter((0..count).map(|at| at % 2)));
        }
    }

    #[test]
    fn the_first_changes_copy_nothing_and_more_copy_the_block_once() {
        let state = |changes: usize| {
            let mut blocks = tens();
            let _frozen = blocks.freeze(None);
            (0..changes).for_each(|at| add_one(&mut blocks, at));
            blocks.put_pending();
            (
                blocks.is_settled(0),
                matches!(blocks.open[0].slot(0).state(), State::Kept(_)),
            )
        };
        assert_eq!(state(0), (false, false));
        assert_eq!(state(1), (false, true));
        assert_eq!(state(KEPT_MAX), (false, true));
        assert_eq!(state(KEPT_MAX + 1), (true, false));
    }

    #[test]
    fn what_was_kept_for_an_earlier_snapshot_does_not_count_for_the_next_one() {
        let mut blocks = tens();
        let first = blocks.freeze(None);
        (0..2).for_each(|at| add_one(&mut blocks, at));
        let before = live(&mut blocks);
        drop(first);
        let second = blocks.freeze(None);
        (0..KEPT_MAX).for_each(|at| add_one(&mut blocks, at));
        blocks.put_pending();
        assert!(!blocks.is_settled(0));
        assert_eq!(drained(second), before);
    }

    #[test]
    fn each_snapshot_has_what_changed_before_it() {
        let mut blocks = tens();
        let before = live(&mut blocks);
        let one = blocks.freeze(None);
        add_one(&mut blocks, 3);
        let two = blocks.freeze(Some(one.epoch()));
        let between = live(&mut blocks);
        add_one(&mut blocks, 3);
        add_one(&mut blocks, 4);
        assert_eq!(drained(two), between);
        assert_eq!(drained(one), before);
        let three = blocks.freeze(None);
        let last = live(&mut blocks);
        add_one(&mut blocks, 4); // kept for the third as if there had been no others
        assert_eq!(drained(three), last);
    }

    #[test]
    fn what_is_lent_goes_to_its_place_or_its_entry_goes() {
        let mut blocks = tens();
        let frozen = blocks.freeze(None);
        let before = live(&mut blocks);
        blocks.lend(
            Spot::At(0, 2),
            |value| *value = Some(Box::new(7)),
            |_, _, ()| {},
        );
        blocks.lend(
            Spot::At(0, 3),
            |value| *value = None,
            |at, entries, ()| {
                assert_eq!((at, entries.len(), *entries[3].1), (3, ENTRIES - 1, 70));
            },
        );
        assert_eq!(live(&mut blocks), [0, 10, 7, 70, 40, 50, 60]);
        assert_eq!(drained(frozen), before);
    }

    /// A number whose `clone` panics when the flag is up.
    struct Fragile(u8, Rc<Cell<bool>>);

    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(!self.1.get(), "on purpose");
            Self(self.0, Rc::clone(&self.1))
        }
    }

    /// The writer is reading the block when a value is to be put there, and the copy for the task fails: the value is
    /// not lost, and the writer has the block for itself.
    #[test]
    fn a_clone_that_panics_loses_no_change_and_changes_no_snapshot() {
        let flag = Rc::new(Cell::new(false));
        let mut blocks = Blocks::new(1);
        blocks.push(0, ());
        let fragile = Fragile(0, Rc::clone(&flag));
        blocks.modify(0, |entries, ()| entries.push((0, fragile)));
        let frozen = blocks.freeze(None);
        blocks.value_mut(Spot::At(0, 0)).0 = 1;
        let drained: Result<(), ()> = frozen.drain(|_, entries| {
            flag.set(true);
            let put = catch_unwind(AssertUnwindSafe(|| blocks.put_pending()));
            assert!(put.is_err(), "it is to be copied");
            flag.set(false);
            assert_eq!(blocks.value(Spot::At(0, 0)).0, 1);
            blocks.value_mut(Spot::At(0, 0)).0 += 1;
            blocks.put_pending();
            assert_eq!(entries[0].1.0, 0);
            Ok(())
        });
        drained.unwrap();
        assert_eq!(blocks.value(Spot::At(0, 0)).0, 2);
    }
}
