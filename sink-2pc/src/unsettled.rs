//! What a task has prepared and no completed checkpoint is known to hold.
//!
//! A checkpoint can fail while the job goes on: its report is dropped, but the records before its
//! barrier are not sent again. So the transactions prepared for it ride along in the report of the
//! next checkpoint, until one is complete.
//!
//! Invariant: each transaction a writer returned is in here, or in a completed checkpoint.

use cutwater_barrier::CheckpointId;

use crate::Prepared;

/// Kept by the task next to its writer. It is not restored: a restored job has nothing unsettled.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    prepared: Vec<Prepared>,
}

impl Unsettled {
    /// Nothing is unsettled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what [`Writer::prepare`](crate::Writer::prepare) returned just now and gives what the
    /// report of this checkpoint has to name: that, and all of older checkpoints.
    pub fn report(&mut self, prepared: Vec<Prepared>) -> &[Prepared] {
        self.prepared.extend(prepared);
        &self.prepared
    }

    /// `checkpoint` is complete, so it holds everything up to it. A notice that is lost costs a
    /// second, idempotent commit.
    pub fn completed(&mut self, checkpoint: CheckpointId) {
        self.prepared
            .retain(|prepared| prepared.checkpoint > checkpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(checkpoint: u64) -> Prepared {
        Prepared::new(CheckpointId::new(checkpoint), vec![1])
    }

    #[test]
    fn a_failed_checkpoints_transactions_ride_with_the_next() {
        let mut unsettled = Unsettled::new();
        assert_eq!(unsettled.report(vec![prepared(1)]), [prepared(1)]);
        assert_eq!(
            unsettled.report(vec![prepared(2)]),
            [prepared(1), prepared(2)]
        );
        unsettled.completed(CheckpointId::new(2));
        assert_eq!(unsettled.report(vec![]), []);
    }

    #[test]
    fn completion_leaves_what_is_newer() {
        let mut unsettled = Unsettled::new();
        unsettled.report(vec![prepared(1)]);
        unsettled.report(vec![prepared(2)]);
        unsettled.completed(CheckpointId::new(1));
        assert_eq!(unsettled.report(vec![]), [prepared(2)]);
    }
}
