//! What must hold in every run, one property per file.

mod answers;
mod cut;
mod ids;
mod reports;

use cutwater_barrier::coordinate::Decision;

use crate::{scenario::Scenario, task::Part};

#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) answers: answers::Answers,
    pub(crate) cut: cut::Cut,
    pub(crate) ids: ids::Ids,
    pub(crate) reports: reports::Reports,
}

impl Checks {
    pub(crate) fn new() -> Self {
        Self {
            answers: answers::Answers::default(),
            cut: cut::Cut,
            ids: ids::Ids::default(),
            reports: reports::Reports::default(),
        }
    }

    /// The job has ended with the newest of `log`.
    pub(crate) fn end<'a>(
        &self,
        scenario: &Scenario,
        log: impl Iterator<Item = &'a Decision<Part>>,
    ) {
        self.cut.ended(scenario, log);
    }
}
