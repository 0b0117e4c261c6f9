//! One checkpoint between trigger and decision.
//!
//! Invariant: `missing` is the number of tasks whose part is still awaited; a task's part is accepted
//! once, and only if the plan at the trigger asked for it.

use alloc::vec::Vec;

use super::{Decision, Effect, Plan, Report, RequestId, TaskId, tasks::Tasks};
use crate::{
    Barrier, CheckpointId, Generation, Kind, Time,
    stats::{AckedTask, CheckpointStats, TaskStats},
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Pending<R> {
    pub(super) barrier: Barrier,
    pub(super) origin: Origin,
    /// Whether the decision is under way; the reports are then the driver's.
    pub(super) deciding: bool,
    deadline: Time,
    parts: Vec<Part>,
    missing: usize,
    reports: Vec<Report<R>>,
    acked: Vec<AckedTask>,
}

/// Who wanted a checkpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Origin {
    Periodic,
    Request(RequestId),
    /// All input has ended: the last checkpoint of a bounded job.
    Final,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Part {
    Awaited {
        /// Whether the task injects the barrier itself.
        triggered: bool,
    },
    Acked,
    /// The task finished before the barrier: it has no part.
    Finished,
}

/// What became of an acknowledgement.
pub(super) enum Ack<R> {
    Accepted,
    /// The task's part had been accepted before.
    Double(Report<R>),
    /// The task has no part.
    Foreign(Report<R>),
}

impl<R> Pending<R> {
    pub(super) fn new(barrier: Barrier, origin: Origin, deadline: Time, tasks: &Tasks) -> Self {
        let parts: Vec<Part> = tasks
            .plan
            .tasks()
            .map(|task| {
                if tasks.has_finished(task) {
                    Part::Finished
                } else {
                    Part::Awaited { triggered: false }
                }
            })
            .collect();
        Self {
            barrier,
            origin,
            deciding: false,
            deadline,
            missing: parts.iter().filter(|&&part| part != Part::Finished).count(),
            parts,
            reports: Vec::new(),
            acked: Vec::new(),
        }
    }

    pub(super) fn checkpoint(&self) -> CheckpointId {
        self.barrier.checkpoint
    }

    /// When it expires, unless all parts are in.
    pub(super) fn deadline(&self) -> Option<Time> {
        (self.missing > 0).then_some(self.deadline)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.missing == 0 && !self.deciding
    }

    /// Whether a completed checkpoint `by` makes it superfluous. A savepoint never is (F009), nor does it
    /// make others so, unless it is the job's last; nor is the checkpoint that stops the job (F010).
    pub(super) fn is_subsumed(&self, by: &Barrier) -> bool {
        (by.kind == Kind::Checkpoint || by.then.is_stop())
            && self.checkpoint() < by.checkpoint
            && self.barrier.kind == Kind::Checkpoint
            && !self.barrier.then.is_stop()
            && !self.deciding
    }

    /// Has the barrier injected where nothing upstream will send it, unless that was done before.
    pub(super) fn take_triggers(&mut self, plan: &Plan) -> Vec<Effect<R>> {
        let mut triggers = plan.triggers(|task| self.has_finished(task));
        triggers.retain(|task| self.parts[task.0] == Part::Awaited { triggered: false });
        let barrier = self.barrier;
        triggers
            .into_iter()
            .map(|task| {
                self.parts[task.0] = Part::Awaited { triggered: true };
                Effect::Trigger { task, barrier }
            })
            .collect()
    }

    pub(super) fn partly_finished(&self, plan: &Plan) -> Option<TaskId> {
        plan.partly_finished(|task| self.has_finished(task))
    }

    /// Whether the task has a part in it.
    pub(super) fn involves(&self, task: TaskId) -> bool {
        let part = self.parts.get(task.0);
        part.is_some_and(|&part| part != Part::Finished)
    }

    fn has_finished(&self, task: TaskId) -> bool {
        self.parts[task.0] == Part::Finished
    }

    pub(super) fn ack(&mut self, now: Time, report: Report<R>, stats: TaskStats) -> Ack<R> {
        let task = report.task;
        match self.parts.get_mut(task.0) {
            Some(part @ Part::Awaited { .. }) => {
                *part = Part::Acked;
                self.missing -= 1;
                self.reports.push(report);
                self.acked.push(AckedTask::new(task, now, stats));
                Ack::Accepted
            }
            Some(Part::Acked) => Ack::Double(report),
            Some(Part::Finished) | None => Ack::Foreign(report),
        }
    }

    /// The task finished. `last` is the newest checkpoint it knew: if that is older than this one, all
    /// its output comes before the barrier and it has no part.
    pub(super) fn finish(&mut self, task: TaskId, last: Option<CheckpointId>) {
        let part = &mut self.parts[task.0];
        if matches!(part, Part::Awaited { .. }) && last < Some(self.barrier.checkpoint) {
            *part = Part::Finished;
            self.missing -= 1;
        }
    }

    pub(super) fn decide(&mut self, generation: Generation) -> Decision<R> {
        self.deciding = true;
        self.reports.sort_unstable_by_key(|report| report.task);
        self.acked.sort_unstable_by_key(|acked| acked.task);
        let triggered_at = self.barrier.triggered_at;
        let acked_at = self.acked.iter().map(|acked| acked.at).max();
        Decision {
            generation,
            barrier: self.barrier,
            reports: core::mem::take(&mut self.reports),
            finished: (0..self.parts.len())
                .map(TaskId)
                .filter(|&task| self.has_finished(task))
                .collect(),
            stats: CheckpointStats::new(
                self.barrier,
                acked_at.unwrap_or(triggered_at),
                core::mem::take(&mut self.acked),
            ),
        }
    }

    pub(super) fn into_reports(self) -> Vec<Report<R>> {
        self.reports
    }
}
