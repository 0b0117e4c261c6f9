//! Which files a new snapshot may name instead of storing them again.
//!
//! Invariant: what may be named again is in the newest snapshot that is known to be part of a completed
//! checkpoint ([`Lineage`]). It stays there at least until a newer checkpoint is complete.

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;

use crate::lineage::Lineage;

/// What became of the snapshots of one subtask, and so which of their files may be shared.
///
/// A file is identified by its name, which must never be given to other bytes, and its length.
///
/// ```
/// use cutwater_barrier::CheckpointId;
/// use cutwater_state::SharedFiles;
///
/// // C100 = {A, B, C}, and it is complete. C101 = {A, B, D} has only D to store.
/// let [c100, c101] = [100, 101].map(CheckpointId::new);
/// let mut shared = SharedFiles::new();
/// shared.written(c100, [("A", 10), ("B", 20), ("C", 30)]);
/// shared.confirmed(c100);
/// assert!(shared.contains("A", 10) && shared.contains("B", 20));
/// assert!(!shared.contains("D", 40));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SharedFiles {
    snapshots: Lineage<Files>,
}

/// Lengths by name.
type Files = BTreeMap<String, u64>;

impl SharedFiles {
    /// No file may be named.
    pub fn new() -> Self {
        Self::default()
    }

    /// A subtask that goes on from a completed checkpoint: what that consists of may be named.
    pub fn restored<N: Into<String>>(files: impl IntoIterator<Item = (N, u64)>) -> Self {
        Self {
            snapshots: Lineage::new(Some(named(files))),
        }
    }

    /// Whether a new snapshot may name the file of this name and length instead of storing it.
    pub fn contains(&self, name: &str, length: u64) -> bool {
        let base = self.snapshots.base();
        base.and_then(|files| files.get(name)) == Some(&length)
    }

    /// A snapshot has been written, and consists of these files, new or named again.
    ///
    /// Not called for a snapshot that failed or was cancelled.
    pub fn written<N: Into<String>>(
        &mut self,
        checkpoint: CheckpointId,
        files: impl IntoIterator<Item = (N, u64)>,
    ) {
        self.snapshots.written(checkpoint, named(files));
    }

    /// The snapshot is part of a completed checkpoint. May be lost, late or doubled.
    pub fn confirmed(&mut self, checkpoint: CheckpointId) {
        self.snapshots.confirmed(checkpoint);
    }

    /// The snapshot will never be part of a completed checkpoint. May be lost, late or doubled.
    pub fn aborted(&mut self, checkpoint: CheckpointId) {
        self.snapshots.aborted(checkpoint);
    }

    /// What may be named is no longer there: the next snapshot stores everything.
    pub fn lost(&mut self) {
        self.snapshots.lost();
    }
}

fn named<N: Into<String>>(files: impl IntoIterator<Item = (N, u64)>) -> Files {
    let files = files.into_iter();
    files.map(|(name, length)| (name.into(), length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const C100: CheckpointId = CheckpointId::new(100);
    const C101: CheckpointId = CheckpointId::new(101);
    const C102: CheckpointId = CheckpointId::new(102);

    /// Takes a snapshot of these files, each a letter, and returns those that had to be stored.
    fn take(shared: &mut SharedFiles, checkpoint: CheckpointId, files: &str) -> String {
        let files = || files.chars().map(|name| (name.to_string(), 1));
        let stored = files().filter(|(name, length)| !shared.contains(name, *length));
        let stored = stored.map(|(name, _)| name).collect();
        shared.written(checkpoint, files());
        stored
    }

    /// SPEC 3.5, F107: first everything, later what is new.
    #[test]
    fn a_snapshot_stores_what_the_last_confirmed_one_has_not() {
        let mut shared = SharedFiles::new();
        assert_eq!(take(&mut shared, C100, "ABC"), "ABC");
        shared.confirmed(C100);
        assert_eq!(take(&mut shared, C101, "ABD"), "D");
        shared.confirmed(C101);
        assert_eq!(take(&mut shared, C102, "BDE"), "E");
    }

    /// B28: C100 is not known to be complete, and may be deleted while C101 is written.
    #[test]
    fn files_of_an_unconfirmed_snapshot_are_stored_again() {
        let mut shared = SharedFiles::new();
        take(&mut shared, C100, "ABC");
        assert_eq!(take(&mut shared, C101, "ABC"), "ABC");
        shared.aborted(C100);
        assert_eq!(take(&mut shared, C102, "ABC"), "ABC");
    }

    /// F124: C101 is aborted between two that share a file.
    #[test]
    fn an_aborted_snapshot_takes_nothing_from_the_others() {
        let mut shared = SharedFiles::new();
        take(&mut shared, C100, "AB");
        shared.confirmed(C100);
        take(&mut shared, C101, "ABC");
        take(&mut shared, C102, "ABD");
        shared.aborted(C101);
        shared.confirmed(C102);
        assert_eq!(take(&mut shared, CheckpointId::new(103), "ABCD"), "C");
    }

    /// B30: what was stored before a snapshot failed is no part of anything.
    #[test]
    fn files_of_a_failed_snapshot_are_stored_again() {
        let mut shared = SharedFiles::new();
        take(&mut shared, C100, "A");
        shared.confirmed(C100);
        // C101 stores B and fails with C: it is never `written`.
        shared.aborted(C101);
        shared.confirmed(C101); // as little as it makes sense
        assert_eq!(take(&mut shared, C102, "ABC"), "BC");
    }

    /// B31, B32: a name that comes again with another length is another file.
    #[test]
    fn an_equal_name_alone_is_not_enough() {
        let mut shared = SharedFiles::new();
        shared.written(C100, [("12.sst", 10)]);
        shared.confirmed(C100);
        assert!(shared.contains("12.sst", 10));
        assert!(!shared.contains("12.sst", 11));
    }

    /// F123, B32: what is known is that of one attempt, and begins with what it was restored from.
    #[test]
    fn a_restored_subtask_shares_what_it_was_restored_from_and_nothing_else() {
        let mut shared = SharedFiles::restored([("A", 1), ("B", 1)]);
        assert_eq!(take(&mut shared, C101, "ABC"), "C");
        shared.lost();
        assert_eq!(take(&mut shared, C102, "AB"), "AB");
        assert_eq!(take(&mut SharedFiles::new(), C102, "AB"), "AB");
    }
}
