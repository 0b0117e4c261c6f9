//! What was checked and how it went.

use std::fmt;

/// One thing a sink has to get right.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Check {
    /// A stop before prepare: what was written is replayed, not doubled.
    Window1,
    /// A stop when prepared, before the checkpoint is complete: as if never written.
    Window2,
    /// A stop when the checkpoint is complete, before the commit: the successor commits.
    Window3,
    /// The commit took effect and its reply was lost: at least two attempts, one effect.
    Window4,
    /// The commit is confirmed and the checkpoint still names it: the successor's second commit
    /// changes nothing, and the sink says so.
    Window5,
    /// The request of a commit, or its reply, is lost while the process lives on: a probe tells
    /// which it was.
    MessageLost,
    /// An aborted transaction never becomes visible, two aborts are as one, and a commit after it
    /// is told that the transaction is lost.
    Abort,
    /// The transactions of a checkpoint that failed become visible with the next.
    Decline,
    /// What an older generation's writers flush after the fence never becomes visible.
    Zombie,
    /// After 4 → 2 subtasks without a checkpoint nothing of the four is left.
    Rescale,
    /// A checkpoint without records prepares nothing.
    Empty,
    /// Another job of the same target is not swept.
    Neighbour,
}

impl Check {
    /// Every check, in the order they are run.
    pub const ALL: [Self; 12] = [
        Self::Window1,
        Self::Window2,
        Self::Window3,
        Self::Window4,
        Self::Window5,
        Self::MessageLost,
        Self::Abort,
        Self::Decline,
        Self::Zombie,
        Self::Rescale,
        Self::Empty,
        Self::Neighbour,
    ];
}

/// The verdict for each check.
#[derive(Clone, Debug, Default)]
pub struct Report(Vec<(Check, Result<(), String>)>);

impl Report {
    pub(super) fn add(&mut self, check: Check, outcome: Result<(), String>) {
        self.0.push((check, outcome));
    }

    /// Whether no check failed.
    pub fn is_passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The checks that failed, each with what was seen.
    pub fn failed(&self) -> impl Iterator<Item = (Check, &str)> {
        self.0
            .iter()
            .filter_map(|(check, outcome)| Some((*check, outcome.as_ref().err()?.as_str())))
    }
}

impl fmt::Display for Report {
    /// One line a check.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, outcome) in &self.0 {
            match outcome {
                Ok(()) => writeln!(f, "{check:?}: passed")?,
                Err(seen) => writeln!(f, "{check:?}: FAILED: {seen}")?,
            }
        }
        Ok(())
    }
}
