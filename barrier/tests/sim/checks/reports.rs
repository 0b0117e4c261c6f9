//! Every report that goes into a coordinator comes out once, and what a durable checkpoint holds is
//! never deleted: not by an abort, a double, a late message, nor a later attempt.

use std::collections::{BTreeMap, BTreeSet};

use cutwater_barrier::coordinate::Decision;

use crate::task::Part;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    inside: BTreeMap<u64, u32>,
    deleted: BTreeSet<u64>,
}

impl Reports {
    pub(crate) fn came_in(&mut self, serial: u64) {
        *self.inside.entry(serial).or_default() += 1;
    }

    pub(crate) fn went_out(&mut self, serial: u64) {
        let inside = self.inside.get_mut(&serial).filter(|inside| **inside > 0);
        *inside.expect("a report comes out as often as it went in") -= 1;
    }

    /// What is deleted is not part of a checkpoint that is durable.
    pub(crate) fn deleted(&mut self, serial: u64, log: &[Decision<Part>]) {
        for decision in log {
            let holds = serials(decision).any(|held| held == serial);
            assert!(
                !holds,
                "deleted a part of checkpoint {}",
                decision.barrier.checkpoint
            );
        }
        self.deleted.insert(serial);
    }

    /// What becomes durable has not been deleted.
    pub(crate) fn durable(&self, decision: &Decision<Part>) {
        let deleted = serials(decision).find(|serial| self.deleted.contains(serial));
        assert_eq!(
            deleted, None,
            "checkpoint {} lacks a part",
            decision.barrier.checkpoint
        );
    }

    /// The coordinator has given up or the job has ended.
    pub(crate) fn all_out(&self) {
        let inside = self.inside.values().sum::<u32>();
        assert_eq!(inside, 0, "reports that nobody will delete");
    }

    /// The coordinator is gone, and what it held is for the store to find.
    pub(crate) fn attempt_over(&mut self) {
        self.inside.clear();
    }
}

fn serials(decision: &Decision<Part>) -> impl Iterator<Item = u64> {
    decision.reports.iter().map(|report| report.part.serial)
}
