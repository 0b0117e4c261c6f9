//! Every report that goes into a coordinator comes out once, and what a durable checkpoint holds is
//! never deleted: not by an abort, a double, a late message, nor a later attempt.

use std::collections::BTreeMap;

use cutwater_barrier::coordinate::Decision;

use crate::task::Part;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    inside: BTreeMap<u64, u32>,
    deleted: Vec<u64>,
}

impl Reports {
    pub(crate) fn came_in(&mut self, serial: u64) {
        *self.inside.entry(serial).or_default() += 1;
    }

    pub(crate) fn went_out(&mut self, serial: u64) {
        let inside = self.inside.get_mut(&serial).filter(|inside| **inside > 0);
        *inside.expect("a report comes out as often as it went in") -= 1;
    }

    pub(crate) fn deleted(&mut self, serial: u64, log: &[Decision<Part>]) {
        for decision in log {
            let holds = decision
                .reports
                .iter()
                .any(|report| report.report.serial == serial);
            assert!(
                !holds,
                "deleted a part of checkpoint {}",
                decision.barrier.checkpoint
            );
        }
        self.deleted.push(serial);
    }

    pub(crate) fn attempt_over(&mut self) {
        self.inside.clear();
    }
}
