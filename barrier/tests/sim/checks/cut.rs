//! A checkpoint is consistent: the last layer has processed exactly the records before the sources'
//! positions, each once; with at-least-once each at least once. And the job's last one is complete.

use std::collections::BTreeMap;

use cutwater_barrier::{Then, coordinate::Decision};

use crate::{
    scenario::Scenario,
    task::{Part, Record},
};

#[derive(Debug)]
pub(crate) struct Cut;

impl Cut {
    pub(crate) fn decided(&self, scenario: &Scenario, decision: &Decision<Part>) {
        let checkpoint = decision.barrier.checkpoint;
        let mut positions = scenario.records.clone(); // where a source has finished
        let mut processed: BTreeMap<Record, u32> = BTreeMap::new();
        for report in &decision.reports {
            if scenario.is_source(report.task.0) {
                positions[report.task.0] = report.part.position;
            }
            for (&record, &times) in &report.part.processed {
                *processed.entry(record).or_default() += times;
            }
        }
        let tasks = decision.reports.len() + decision.finished.len();
        assert_eq!(
            tasks,
            scenario.inputs.len(),
            "each task has a part or has finished"
        );
        if scenario.inputs.iter().all(Vec::is_empty) {
            return; // Sources only: nothing is sent.
        }
        let before = |source| (0..positions[source]).map(move |position| (source, position));
        for record in (0..positions.len()).flat_map(before) {
            let times = processed.remove(&record).unwrap_or(0);
            let fine = if scenario.exactly_once {
                times == 1
            } else {
                times >= 1
            };
            assert!(
                fine,
                "{record:?} is {times} times in checkpoint {checkpoint}"
            );
        }
        if scenario.exactly_once {
            assert_eq!(
                processed,
                BTreeMap::new(),
                "behind the barrier of {checkpoint}"
            );
        }
    }

    pub(crate) fn ended<'a>(
        &self,
        scenario: &Scenario,
        log: impl Iterator<Item = &'a Decision<Part>>,
    ) {
        let last = log.max_by_key(|decision| decision.barrier.checkpoint);
        let last = last.expect("a job ends with a checkpoint");
        self.decided(scenario, last);
        let drained = last.barrier.then == Then::Drain;
        for report in &last.reports {
            if let Some(&records) = scenario.records.get(report.task.0)
                && drained
            {
                assert_eq!(report.part.position, records, "all input was read");
            }
        }
    }
}
