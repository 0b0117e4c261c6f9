//! Where the keys of the coming batch are, so that each access need not search again.
//!
//! A prefetch looks for every key's entry anyway. It leaves the places here, in the order of the batch, and
//! an access takes the next one whose hash is its own; records that do not access the state are passed over.
//! A hint may be out of date (an entry moved, a block split, another batch): whoever takes it compares the key
//! that is there now.

use std::cell::Cell;

use cutwater_keygroups::KeyHash;

use super::Spot;

/// A place that was right when the batch was prefetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) hash: KeyHash,
    /// [`NOWHERE`] if there is none for the hash.
    pub(crate) block: u32,
    /// [`NOWHERE`] if the key was not there.
    pub(crate) at: u32,
}

/// No block, or no position in one.
const NOWHERE: u32 = u32::MAX;

/// So many records that do not access the state are passed over at once.
const SKIPPED_MAX: usize = 8;

/// The places of one batch.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    hints: Vec<Hint>,
    /// The one after the last that was taken.
    next: Cell<usize>,
}

impl Hints {
    pub(crate) fn clear(&mut self) {
        self.hints.clear();
        self.next.set(0);
    }

    /// Adds hints for the next records, and lends them, to be made precise.
    #[inline]
    pub(crate) fn add(&mut self, hints: impl Iterator<Item = Hint>) -> &mut [Hint] {
        let start = self.hints.len();
        self.hints.extend(hints);
        &mut self.hints[start..]
    }

    /// Where an access to `hash` is told to look: by the next hint, nearly always.
    #[inline]
    pub(crate) fn next_for(&self, hash: KeyHash) -> Option<Spot> {
        let next = self.next.get();
        match self.hints.get(next) {
            Some(hint) if hint.hash == hash => {
                self.next.set(next + 1);
                Some(hint.spot())
            }
            _ => self.near(hash),
        }
    }

    /// By the last hint taken, as a record may access its key's state several times, or by one a few records on.
    #[inline(never)]
    fn near(&self, hash: KeyHash) -> Option<Spot> {
        let last = self.next.get().saturating_sub(1);
        let mut ahead = self.hints.get(last..)?.iter().take(SKIPPED_MAX + 2);
        let at = last + ahead.position(|hint| hint.hash == hash)?;
        self.next.set(at + 1);
        Some(self.hints[at].spot())
    }
}

impl Hint {
    /// The block where `hash` belongs; where in it is to be found out.
    #[inline]
    pub(crate) fn new(hash: KeyHash, block: Option<u32>) -> Self {
        Self {
            hash,
            block: block.unwrap_or(NOWHERE),
            at: NOWHERE,
        }
    }

    #[inline]
    fn spot(&self) -> Spot {
        (self.block as usize, self.at as usize)
    }
}

#[cfg(test)]
mod tests {
    use cutwater_keygroups::{Key, KeyHash};

    use super::{super::Table, Hint, Hints, SKIPPED_MAX};

    /// Takes the hints for these hashes, of a batch in which the n-th record has the n-th of `hashes`, and block n.
    fn taken(hashes: &[u64], accesses: &[u64]) -> Vec<Option<usize>> {
        let mut hints = Hints::default();
        let hint = |(hash, block)| Hint {
            at: 0,
            ..Hint::new(KeyHash(hash), Some(block))
        };
        hints.add(hashes.iter().copied().zip(0..).map(hint));
        let next = |hash: &u64| hints.next_for(KeyHash(*hash)).map(|(block, _)| block);
        accesses.iter().map(next).collect()
    }

    #[test]
    fn a_record_may_access_its_state_again() {
        let places = [Some(0), Some(0), Some(1), Some(1), None];
        assert_eq!(taken(&[7, 8], &[7, 7, 8, 8, 7]), places);
    }

    #[test]
    fn a_key_that_comes_twice_holds_nobody_up() {
        assert_eq!(taken(&[7, 7, 8, 9], &[7, 7, 8, 9]), [0, 1, 2, 3].map(Some));
        assert_eq!(taken(&[7, 7, 8], &[7, 8]), [0, 2].map(Some));
    }

    #[test]
    fn records_that_do_not_access_the_state_are_passed_over() {
        assert_eq!(taken(&[7, 8, 9, 10], &[8, 10]), [1, 3].map(Some));
        let many: Vec<u64> = (0..100).collect();
        let near = SKIPPED_MAX + 1;
        assert_eq!(taken(&many, &[0, many[near]]), [Some(0), Some(near)]);
        assert_eq!(taken(&many, &[0, many[near + 1]]), [Some(0), None]);
    }

    #[test]
    fn a_hint_that_is_out_of_date_leads_to_no_other_key() {
        let mut table = Table::<u64, u64>::new(1);
        let insert = |table: &mut Table<u64, u64>, key: u64| {
            table.insert(0, key.key_hash(), (key, key));
        };
        (0..5).for_each(|key| insert(&mut table, key));
        table.prefetch(&[4_u64.key_hash()], |_| 0);
        let find = |table: &Table<u64, u64>| table.find(0, 4_u64.key_hash(), &4);
        let spot = find(&table).unwrap();
        table.lend(spot, 4_u64.key_hash(), |slot| *slot = None);
        assert_eq!(find(&table), None);
        insert(&mut table, 5); // stands where 4 stood
        assert_eq!(find(&table), None);
        insert(&mut table, 4);
        assert_eq!(find(&table).map(|spot| *table.value(spot)), Some(4));
    }
}
