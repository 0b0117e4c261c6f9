//! What must hold in every run, one property per file.

mod answers;
mod cut;
mod ids;
mod reach;
mod reports;

pub(crate) use reach::Reach;

use cutwater_barrier::coordinate::Decision;

use crate::{scenario::Scenario, task::Part};

#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) answers: answers::Answers,
    pub(crate) cut: cut::Cut,
    pub(crate) ids: ids::Ids,
    pub(crate) reach: Reach,
    pub(crate) reports: reports::Reports,
}

impl Checks {
    pub(crate) fn new() -> Self {
        Self {
            answers: answers::Answers::default(),
            cut: cut::Cut,
            ids: ids::Ids::default(),
            reach: Reach::default(),
            reports: reports::Reports::default(),
        }
    }

    /// The coordinator will say no more.
    pub(crate) fn attempt_gave_up(&self) {
        self.answers.all_answered();
        self.reports.all_out();
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
