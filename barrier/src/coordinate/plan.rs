//! Which tasks take part in a checkpoint, and where its barrier is injected.
//!
//! A barrier enters at the sources and flows on by itself. Where everything upstream of a task has
//! finished it cannot flow, so it enters at that task instead: the trigger set is every unfinished
//! task whose inputs are all finished (FLIP-147; cases F029, F030).
//!
//! ```text
//!   source 0 (finished) ─▶ map 2 ◀─ trigger
//!   source 1 ◀─ trigger  ─▶ map 3 ─▶ sink 4
//! ```

use alloc::vec::Vec;
use core::fmt;

/// A task of the [`Plan`], counted from 0 in the order of [`Plan::task`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a task is its place in the plan and nothing else"
)]
pub struct TaskId(pub usize);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tasks of a job and who feeds whom.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Plan {
    inputs: Vec<Vec<TaskId>>,
    together: Vec<Vec<TaskId>>,
}

impl Plan {
    /// No tasks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task that is fed by `inputs`, one entry for each task with a channel into this one;
    /// a source has none. Leave out the back edge of a loop: its barrier goes round by itself.
    ///
    /// # Panics
    ///
    /// If an input was not added before.
    pub fn task(&mut self, inputs: impl IntoIterator<Item = TaskId>) -> TaskId {
        let task = TaskId(self.inputs.len());
        let inputs: Vec<TaskId> = inputs.into_iter().collect();
        assert!(
            inputs.iter().all(|input| *input < task),
            "an input of a task is added before it"
        );
        self.inputs.push(inputs);
        task
    }

    /// Demands that of `tasks` either none or all have finished when a checkpoint is triggered, which
    /// the subtasks of an operator with union state need: a finished subtask's share of a union list
    /// would be missing from it (case F032). So such a task, once drained, stays until the final
    /// checkpoint is complete.
    ///
    /// # Panics
    ///
    /// If a task is not part of the plan.
    pub fn finish_together(&mut self, tasks: impl IntoIterator<Item = TaskId>) {
        let tasks: Vec<TaskId> = tasks.into_iter().collect();
        assert!(
            tasks.iter().all(|task| self.contains(*task)),
            "tasks that finish together are part of the plan"
        );
        self.together.push(tasks);
    }

    /// Whether there is such a task.
    pub fn contains(&self, task: TaskId) -> bool {
        task.0 < self.inputs.len()
    }

    /// All tasks, in order.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.inputs.len()).map(TaskId)
    }

    /// Tasks that are not `finished` while all their inputs are: where a barrier is injected.
    pub fn triggers(&self, finished: impl Fn(TaskId) -> bool) -> Vec<TaskId> {
        self.tasks()
            .filter(|&task| !finished(task))
            .filter(|task| self.inputs[task.0].iter().all(|&input| finished(input)))
            .collect()
    }

    /// A finished task whose [companions](Self::finish_together) have not all finished.
    pub(super) fn partly_finished(&self, finished: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        let partly = self.together.iter().find(|tasks| {
            tasks.iter().any(|&task| finished(task)) && !tasks.iter().all(|&task| finished(task))
        })?;
        partly.iter().copied().find(|&task| finished(task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished<const N: usize>(tasks: [TaskId; N]) -> impl Fn(TaskId) -> bool {
        move |task| tasks.contains(&task)
    }

    /// Case F029.
    #[test]
    fn barriers_start_where_everything_upstream_has_finished() {
        let mut plan = Plan::new();
        let a = plan.task([]);
        let b = plan.task([]);
        let map_a = plan.task([a]);
        let map_b = plan.task([b]);
        let sink = plan.task([map_a, map_b]);

        assert_eq!(plan.triggers(finished([])), [a, b]);
        assert_eq!(plan.triggers(finished([a])), [b, map_a]);
        assert_eq!(plan.triggers(finished([a, map_a])), [b]);
        assert_eq!(plan.triggers(finished([a, b, map_a, map_b])), [sink]);
        assert_eq!(plan.triggers(finished([a, b, map_a, map_b, sink])), []);
    }

    /// Case F030: the same half of the sources has finished; an all-to-all edge still carries barriers
    /// to every task, a pointwise one does not.
    #[test]
    fn an_all_to_all_edge_needs_no_new_trigger_where_a_pointwise_one_does() {
        let mut all_to_all = Plan::new();
        let [a, b] = [all_to_all.task([]), all_to_all.task([])];
        all_to_all.task([a, b]);
        all_to_all.task([a, b]);
        assert_eq!(all_to_all.triggers(finished([a])), [b]);

        let mut pointwise = Plan::new();
        let [a, b] = [pointwise.task([]), pointwise.task([])];
        let below_a = pointwise.task([a]);
        pointwise.task([b]);
        assert_eq!(pointwise.triggers(finished([a])), [b, below_a]);
    }

    /// Case F032.
    #[test]
    fn companions_are_partly_finished_until_all_are() {
        let mut plan = Plan::new();
        let [a, b] = [plan.task([]), plan.task([])];
        plan.finish_together([a, b]);
        assert_eq!(plan.partly_finished(finished([])), None);
        assert_eq!(plan.partly_finished(finished([b])), Some(b));
        assert_eq!(plan.partly_finished(finished([a, b])), None);
    }
}
