//! Which checkpoints are over for a task, in bounded memory.
//!
//! A checkpoint that was snapshotted settles all older ones, so one number says most. An abort
//! settles only its own id, since an older checkpoint may still be on its way: those ids are kept
//! one by one, [`AHEAD_MAX`] at most. Then the smallest is folded into the number.
//!
//! Invariant: an id once over stays over. Forgetting one would start an aborted checkpoint, whose
//! writers nobody cleans up (FLINK-28474, case B08).

use alloc::collections::BTreeSet;

use crate::CheckpointId;

/// More than any engine runs concurrently (Flink recommends 1). Beyond it, an older checkpoint that
/// is still on its way may be given up with the aborted ones.
const AHEAD_MAX: usize = 16;

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Over {
    up_to: Option<CheckpointId>,
    ahead: BTreeSet<CheckpointId>,
}

impl Over {
    /// Not to be asked of a checkpoint in progress: it may have been folded in with aborted ones.
    pub(super) fn contains(&self, checkpoint: CheckpointId) -> bool {
        self.up_to >= Some(checkpoint) || self.ahead.contains(&checkpoint)
    }

    pub(super) fn newest(&self) -> Option<CheckpointId> {
        self.up_to.max(self.ahead.last().copied())
    }

    /// This one is over.
    pub(super) fn add(&mut self, checkpoint: CheckpointId) {
        if self.contains(checkpoint) {
            return;
        }
        self.ahead.insert(checkpoint);
        if self.ahead.len() > AHEAD_MAX {
            self.up_to = self.ahead.pop_first();
        }
    }

    /// This one and all older ones are over.
    pub(super) fn add_up_to(&mut self, checkpoint: CheckpointId) {
        self.up_to = self.up_to.max(Some(checkpoint));
        while self.ahead.first().is_some_and(|&first| first <= checkpoint) {
            self.ahead.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case B08: 200 abort notices before any barrier.
    #[test]
    fn two_hundred_aborts_are_remembered_in_bounded_memory() {
        let mut over = Over::default();
        for raw in 1..=200 {
            over.add(CheckpointId::new(raw));
        }
        assert!((1..=200).all(|raw| over.contains(CheckpointId::new(raw))));
        assert!(!over.contains(CheckpointId::new(201)));
        assert!(over.ahead.len() <= AHEAD_MAX);
    }

    #[test]
    fn an_abort_leaves_an_older_checkpoint_alone() {
        let mut over = Over::default();
        over.add(CheckpointId::new(6));
        assert!(!over.contains(CheckpointId::new(5)));
        over.add_up_to(CheckpointId::new(6));
        assert!(over.contains(CheckpointId::new(5)));
        assert!(over.ahead.is_empty());
    }
}
