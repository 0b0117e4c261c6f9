//! Which snapshot a new one may build on: the newest that is known to be part of a completed checkpoint.
//!
//! ```text
//! written(100) ──▶ open ── confirmed(100) ──▶ the base
//!                   │ └─── confirmed(101) ──▶ forgotten, as what is older than the base
//!                   └───── aborted(100) ────▶ forgotten: its files may be deleted at any time
//! ```
//!
//! A snapshot that is not known to be complete is no base, however likely it is that it will be
//! (FLINK-24611). Notifications may be lost, late, doubled or out of order. Each of these costs at most that
//! something is stored once more than it need be.

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;

/// So many snapshots wait for their fate at most; older ones are forgotten.
const OPEN_MAX: usize = 16;

/// The snapshots of one subtask, each with a `T` to know it by.
#[derive(Clone, Debug)]
pub(crate) struct Lineage<T> {
    /// The newest snapshot that was confirmed.
    last: Option<CheckpointId>,
    base: Option<T>,
    /// Written, and neither known to be complete nor given up.
    open: BTreeMap<CheckpointId, T>,
}

impl<T> Lineage<T> {
    /// Goes on from what was restored, if anything was.
    pub(crate) fn new(restored: Option<T>) -> Self {
        Self {
            last: None,
            base: restored,
            open: BTreeMap::new(),
        }
    }

    /// What a new snapshot may build on.
    pub(crate) fn base(&self) -> Option<&T> {
        self.base.as_ref()
    }

    /// A snapshot has been written.
    pub(crate) fn written(&mut self, checkpoint: CheckpointId, snapshot: T) {
        if self.last >= Some(checkpoint) {
            return; // a later one is complete: this one never will be
        }
        self.open.insert(checkpoint, snapshot);
        while self.open.len() > OPEN_MAX {
            self.open.pop_first();
        }
    }

    /// The snapshot is part of a completed checkpoint.
    pub(crate) fn confirmed(&mut self, checkpoint: CheckpointId) {
        let Some(snapshot) = self.open.remove(&checkpoint) else {
            return; // told before, or given up, or none of ours
        };
        self.last = Some(checkpoint);
        self.base = Some(snapshot);
        self.open = self.open.split_off(&checkpoint);
    }

    /// The snapshot will never be part of a completed checkpoint.
    pub(crate) fn aborted(&mut self, checkpoint: CheckpointId) {
        self.open.remove(&checkpoint);
    }

    /// The base is no longer there. The next snapshot builds on nothing.
    pub(crate) fn lost(&mut self) {
        self.base = None;
    }
}

impl<T> Default for Lineage<T> {
    fn default() -> Self {
        Self::new(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C100: CheckpointId = CheckpointId::new(100);
    const C101: CheckpointId = CheckpointId::new(101);
    const C102: CheckpointId = CheckpointId::new(102);

    #[test]
    fn lost_late_and_doubled_notifications_do_no_harm() {
        let mut lineage = Lineage::default();
        lineage.written(C100, "a");
        lineage.written(C101, "b");
        lineage.confirmed(C101); // C100's was lost
        assert_eq!(lineage.base(), Some(&"b"));
        lineage.confirmed(C100); // no, it was late
        lineage.confirmed(C101);
        lineage.aborted(C101); // which cannot be
        assert_eq!(lineage.base(), Some(&"b"));
        lineage.written(C102, "c");
        lineage.confirmed(C102);
        lineage.written(C101, "x"); // a writer that took its time
        lineage.confirmed(C101);
        assert_eq!(lineage.base(), Some(&"c"));
    }

    #[test]
    fn what_was_aborted_is_never_a_base() {
        let mut lineage = Lineage::default();
        lineage.written(C100, "a");
        lineage.aborted(C100);
        lineage.confirmed(C100); // as little as it makes sense
        assert_eq!(lineage.base(), None);
    }

    #[test]
    fn memory_is_bounded_if_no_notification_ever_comes() {
        let mut lineage = Lineage::default();
        for id in 1..1000 {
            lineage.written(CheckpointId::new(id), id);
        }
        assert_eq!(lineage.open.len(), OPEN_MAX);
        lineage.confirmed(CheckpointId::new(999));
        assert!(lineage.open.is_empty());
    }
}
