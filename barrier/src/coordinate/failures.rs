//! How many checkpoints may fail in a row before the job does.
//!
//! Only real failures count (F018): a checkpoint that was subsumed, or that a task could not join
//! because it was finishing, says nothing about the job's health.

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Failures {
    in_a_row: u32,
    tolerable: u32,
}

impl Failures {
    pub(super) const fn new(tolerable: u32) -> Self {
        Self {
            in_a_row: 0,
            tolerable,
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
    }

    /// Whether this one was too many.
    pub(super) fn failed(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row > self.tolerable
    }
}
