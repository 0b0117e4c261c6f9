//! Which record of the coming batch accesses its state next, so that each access need not search again.
//!
//! A prefetch looks for every key's entry anyway, and the blocks note where each was ([`Blocks::note`]). An access is
//! told the number of its note: that of the next record whose hash is its own; records that do not access the state are
//! passed over. A note may be out of date (an entry moved, a block split, another batch): whoever follows it
//! compares the key that is there now.
//!
//! [`Blocks::note`]: super::Blocks::note

use std::cell::Cell;

use cutwater_keygroups::KeyHash;

/// So many records that do not access the state are passed over at once.
const SKIPPED_MAX: usize = 8;

/// The hashes of one batch.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    hashes: Vec<KeyHash>,
    /// The one after the last that was taken.
    next: Cell<usize>,
}

impl Hints {
    /// Starts with the first of these hashes.
    pub(crate) fn start(&mut self, hashes: &[KeyHash]) {
        self.hashes.clear();
        self.hashes.extend_from_slice(hashes);
        self.next.set(0);
    }

    /// The number of the next record in the batch, if it accesses `hash`.
    #[inline]
    pub(crate) fn next_if(&self, hash: KeyHash) -> Option<usize> {
        let next = self.next.get();
        if *self.hashes.get(next)? != hash {
            return None;
        }
        self.next.set(next + 1);
        Some(next)
    }

    /// The number of the last record taken, as a record may access its key's state several times, or of the next one,
    /// or of one a few records on.
    pub(crate) fn near(&self, hash: KeyHash) -> Option<usize> {
        let last = self.next.get().saturating_sub(1);
        let mut ahead = self.hashes.get(last..)?.iter().take(SKIPPED_MAX + 2);
        let at = last + ahead.position(|&ahead| ahead == hash)?;
        self.next.set(at + 1);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use cutwater_keygroups::{Key, KeyHash};

    use super::{super::Table, Hints, SKIPPED_MAX};

    /// Which records of a batch with these hashes the accesses are taken for.
    fn taken(hashes: &[u64], accesses: &[u64]) -> Vec<Option<usize>> {
        let mut hints = Hints::default();
        let hashes: Vec<KeyHash> = hashes.iter().copied().map(KeyHash).collect();
        hints.start(&hashes);
        let next = |&hash: &u64| {
            let hash = KeyHash(hash);
            hints.next_if(hash).or_else(|| hints.near(hash))
        };
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
        let hash = 4_u64.key_hash();
        let find = |table: &Table<u64, u64>| {
            let found = table.find(0, hash, &4).map(|spot| *table.value(spot));
            found.or(table.recall(hash, &4).copied())
        };
        let spot = table.recall_to_write(hash, &4).unwrap();
        table.lend(spot, hash, |slot| *slot = None);
        assert_eq!(find(&table), None);
        insert(&mut table, 5); // stands where 4 stood
        assert_eq!(find(&table), None);
        insert(&mut table, 4);
        assert_eq!(find(&table), Some(4));
    }
}
