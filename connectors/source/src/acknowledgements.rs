//! Which position to acknowledge to the outside, for systems that forget what was acknowledged: a
//! consumer group, a replication slot.

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;

/// Positions of snapshots whose checkpoints are not known to be complete.
///
/// A reader that acknowledges where it *is* when a checkpoint completes lets the outside forget records
/// that only a later checkpoint will hold (CASES B55). Record in
/// [`Reader::snapshot`](crate::Reader::snapshot), ask in
/// [`Reader::notify_complete`](crate::Reader::notify_complete).
#[derive(Clone, Debug)]
pub struct Acknowledgements<P> {
    open: BTreeMap<CheckpointId, P>,
}

impl<P> Acknowledgements<P> {
    /// Nothing is recorded.
    pub fn new() -> Self {
        Self {
            open: BTreeMap::new(),
        }
    }

    /// The snapshot of `checkpoint` stands at `position`.
    pub fn snapshot(&mut self, checkpoint: CheckpointId, position: P) {
        self.open.insert(checkpoint, position);
    }

    /// `checkpoint` is complete: the position to acknowledge now, `None` if this or a newer notice was
    /// here before. Positions of older checkpoints are forgotten with it.
    pub fn complete(&mut self, checkpoint: CheckpointId) -> Option<P> {
        let newer = self.open.split_off(&checkpoint.next());
        let done = std::mem::replace(&mut self.open, newer);
        done.into_iter()
            .next_back()
            .filter(|(recorded, _)| *recorded == checkpoint)
            .map(|(_, position)| position)
    }
}

impl<P> Default for Acknowledgements<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(id: u64) -> CheckpointId {
        CheckpointId::new(id)
    }

    /// CASES B55: position 10 at the snapshot, 20 when the notice comes.
    #[test]
    fn what_the_snapshot_held_is_acknowledged_not_what_was_read_since() {
        let mut acknowledgements = Acknowledgements::new();
        acknowledgements.snapshot(n(1), 10);
        acknowledgements.snapshot(n(2), 20);
        assert_eq!(acknowledgements.complete(n(1)), Some(10));
    }

    #[test]
    fn a_later_notice_covers_a_lost_one_and_a_late_one_acknowledges_nothing() {
        let mut acknowledgements = Acknowledgements::new();
        acknowledgements.snapshot(n(1), 10);
        acknowledgements.snapshot(n(2), 20);
        acknowledgements.snapshot(n(3), 30);
        assert_eq!(acknowledgements.complete(n(2)), Some(20));
        assert_eq!(acknowledgements.complete(n(1)), None);
        assert_eq!(acknowledgements.complete(n(2)), None);
        assert_eq!(acknowledgements.complete(n(3)), Some(30));
        assert_eq!(acknowledgements.open.len(), 0);
    }

    #[test]
    fn a_checkpoint_this_reader_was_not_part_of_acknowledges_nothing() {
        let mut acknowledgements = Acknowledgements::new();
        acknowledgements.snapshot(n(1), 10);
        assert_eq!(acknowledgements.complete(n(2)), None);
    }
}
