//! What the log says: its entries, folded in order. No I/O.
//!
//! Entries are applied from any point on which the newest one's `oldest` allows, and must yield what
//! all of them would: so each says something that is still true when it is said again.

use std::collections::{BTreeMap, BTreeSet};

use cutwater_barrier::{CheckpointId, Generation, Kind};

use super::entry::{Completed, Decision, Entry};

/// The log so far.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LogState {
    /// The last entry applied.
    pub(crate) tail: Option<Tail>,
    /// Completed and not discarded, with the number of the entry that says so last.
    retained: BTreeMap<CheckpointId, (Completed, u64)>,
    /// Discarded, with what is known about them and the number of the entry that discarded them.
    /// Files may be left until [`forget`](Self::forget).
    discarded: BTreeMap<CheckpointId, (Option<Completed>, u64)>,
    /// The latest checkpoint up to which everything is committed.
    committed: Option<(CheckpointId, u64)>,
    /// Checkpoint ids below this one have been given out.
    next_id: Option<CheckpointId>,
}

/// The end of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tail {
    pub(crate) number: u64,
    pub(crate) nonce: u64,
    pub(crate) generation: Generation,
    pub(crate) oldest: u64,
}

/// Why an entry cannot follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// It is not the next number, or was written after another entry than the one before it.
    Unchained,
    /// Its generation had been replaced.
    OldGeneration,
    /// It completes a checkpoint that was discarded, or another one under the same id.
    CompletedTwice,
}

impl Fault {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Unchained => {
                "does not follow the entry before it: an entry was replaced or is missing"
            }
            Self::OldGeneration => "was written by a generation that had been replaced",
            Self::CompletedTwice => "completes a checkpoint that was completed or discarded before",
        }
    }
}

impl LogState {
    /// Applies the next entry; the first one may have any number.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<(), Fault> {
        if let Some(tail) = self.tail {
            if entry.number != tail.number + 1 || entry.previous != tail.nonce {
                return Err(Fault::Unchained);
            }
            let takes_over = matches!(entry.decision, Decision::TookOver { .. });
            if entry.generation < tail.generation
                || (takes_over && entry.generation == tail.generation)
            {
                return Err(Fault::OldGeneration);
            }
            // Only taking over changes the generation.
            if entry.generation > tail.generation && !takes_over {
                return Err(Fault::Unchained);
            }
        }
        match &entry.decision {
            Decision::TookOver { .. } => {}
            Decision::Completed(completed) => self.completed(completed, entry.number)?,
            Decision::Committed(checkpoint) => {
                if self.committed.is_none_or(|(id, _)| id <= *checkpoint) {
                    self.committed = Some((*checkpoint, entry.number));
                }
            }
            Decision::Discarded(checkpoint) => {
                let known = self
                    .retained
                    .remove(checkpoint)
                    .map(|(completed, _)| completed);
                self.discarded.insert(*checkpoint, (known, entry.number));
            }
        }
        self.next_id = self.next_id.max(Some(entry.next_id));
        self.tail = Some(Tail {
            number: entry.number,
            nonce: entry.nonce,
            generation: entry.generation,
            oldest: entry.oldest,
        });
        Ok(())
    }

    fn completed(&mut self, completed: &Completed, number: u64) -> Result<(), Fault> {
        let id = completed.checkpoint;
        let other = self
            .retained
            .get(&id)
            .is_some_and(|(known, _)| known != completed);
        if other || self.discarded.contains_key(&id) {
            return Err(Fault::CompletedTwice);
        }
        self.retained.insert(id, (completed.clone(), number));
        Ok(())
    }

    /// The generation that leads.
    pub(crate) fn generation(&self) -> Option<Generation> {
        self.tail.map(|tail| tail.generation)
    }

    /// The number of the next entry.
    pub(crate) fn next_number(&self) -> u64 {
        self.tail.map_or(1, |tail| tail.number + 1)
    }

    /// Checkpoint ids below this one have been given out.
    pub(crate) fn next_id(&self) -> CheckpointId {
        self.next_id.unwrap_or(CheckpointId::new(1))
    }

    /// Completed and not discarded, by id.
    pub(crate) fn retained(&self) -> impl DoubleEndedIterator<Item = &Completed> {
        self.retained.values().map(|(completed, _)| completed)
    }

    pub(crate) fn get(&self, id: CheckpointId) -> Option<&Completed> {
        self.retained.get(&id).map(|(completed, _)| completed)
    }

    /// Discarded, and not known to be deleted.
    pub(crate) fn discarded(&self) -> impl Iterator<Item = (CheckpointId, Option<&Completed>)> {
        self.discarded
            .iter()
            .map(|(id, (completed, _))| (*id, completed.as_ref()))
    }

    pub(crate) fn is_discarded(&self, id: CheckpointId) -> bool {
        self.discarded.contains_key(&id)
    }

    /// Everything prepared up to here is visible.
    pub(crate) fn committed(&self) -> Option<CheckpointId> {
        self.committed.map(|(id, _)| id)
    }

    /// A discarded checkpoint has no file left.
    pub(crate) fn forget(&mut self, id: CheckpointId) {
        self.discarded.remove(&id);
    }

    /// Completed and without a `Committed` that covers them, oldest first.
    pub(crate) fn uncommitted(&self) -> impl Iterator<Item = &Completed> {
        let committed = self.committed();
        self.retained()
            .filter(move |completed| Some(completed.checkpoint) > committed)
    }

    /// Those that retention drops now, oldest first: all but the `keep` newest checkpoints, the
    /// uncommitted ones, those `in_use`, and savepoints.
    pub(crate) fn expired(
        &self,
        keep: usize,
        in_use: &BTreeSet<CheckpointId>,
    ) -> Vec<CheckpointId> {
        let committed = self.committed();
        let checkpoints = self
            .retained()
            .filter(|completed| completed.kind == Kind::Checkpoint);
        let mut expired: Vec<_> = checkpoints
            .map(|completed| completed.checkpoint)
            .rev()
            .skip(keep)
            .filter(|id| Some(*id) <= committed && !in_use.contains(id))
            .collect();
        expired.reverse();
        expired
    }

    /// The number of the oldest entry that still says something nobody else says. Always below the
    /// tail, whose predecessor proves to its writer that it counts.
    pub(crate) fn oldest_needed(&self) -> u64 {
        let Some(tail) = self.tail else { return 1 };
        let retained = self.retained.values().map(|(_, number)| *number);
        let discarded = self.discarded.values().map(|(_, number)| *number);
        let committed = self.committed.map(|(_, number)| number);
        let before_tail = tail.number.saturating_sub(1).max(1);
        retained
            .chain(discarded)
            .chain(committed)
            .fold(before_tail, u64::min)
    }

    /// What to say again at the tail, so that old entries can go: the oldest needed decision, if it
    /// is more than `behind_max` entries back and can be said again.
    pub(crate) fn restate(&self, behind_max: u64) -> Option<Decision> {
        // Each decision that is needed has an entry, so they cannot all be closer than their number.
        let decisions = self.retained.len() + self.discarded.len() + 2;
        let behind_max = behind_max.max(2 * decisions as u64);
        let needed = self.oldest_needed();
        if self.next_number() - needed <= behind_max {
            return None;
        }
        let at = |number: u64| number == needed;
        if let Some((completed, _)) = self.retained.values().find(|(_, number)| at(*number)) {
            return Some(Decision::Completed(completed.clone()));
        }
        match self.committed {
            Some((id, number)) if at(number) => Some(Decision::Committed(id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of these decisions, by one generation.
    fn log(decisions: impl IntoIterator<Item = Decision>) -> Result<LogState, Fault> {
        let mut state = LogState::default();
        for (number, decision) in (1..).zip(decisions) {
            let entry = Entry {
                number,
                generation: Generation::new(1),
                nonce: number,
                previous: number - 1,
                oldest: 1,
                next_id: decision.next_id(),
                decision,
            };
            state.apply(&entry)?;
        }
        Ok(state)
    }

    const ID: CheckpointId = CheckpointId::new(5);

    fn took_over() -> Decision {
        Decision::TookOver {
            first: CheckpointId::new(1),
        }
    }

    fn completed() -> Decision {
        Decision::Completed(Completed {
            checkpoint: ID,
            kind: Kind::Checkpoint,
            metadata: "metadata".to_owned(),
            metadata_bytes: 8,
            root_hash: 1,
            last_with_transactions: None,
        })
    }

    #[test]
    fn what_was_discarded_is_not_completed_again() {
        let again = log([took_over(), Decision::Discarded(ID), completed()]);
        assert_eq!(again, Err(Fault::CompletedTwice));
    }

    #[test]
    fn a_discard_is_needed_until_no_file_is_left() {
        let more = [6, 7, 8].map(|id| Decision::Committed(CheckpointId::new(id)));
        let decisions = [took_over(), completed(), Decision::Discarded(ID)];
        let mut state = log(decisions.into_iter().chain(more)).unwrap();
        assert_eq!(state.oldest_needed(), 3);
        state.forget(ID);
        assert_eq!(state.oldest_needed(), 5, "the one before the tail");
    }
}
