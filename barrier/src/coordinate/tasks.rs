//! How far each task of the attempt is.
//!
//! ```text
//!   Created ─▶ Running ─▶ Drained ─▶ Finished
//! ```
//!
//! A step may be skipped, and a message that comes late does not lead back. A checkpoint is triggered
//! only when no task is `Created`: naming the one good state, not the bad ones, is what case B09 asks.

use alloc::{vec, vec::Vec};

use super::{CoordinateError, Plan, TaskId};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Tasks {
    pub(super) plan: Plan,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum State {
    Created,
    Running,
    /// Running, with all its input processed.
    Drained,
    Finished,
}

impl Tasks {
    pub(super) fn new(plan: Plan) -> Self {
        let states = vec![State::Created; plan.tasks().count()];
        Self { plan, states }
    }

    pub(super) fn enter(&mut self, task: TaskId, state: State) -> Result<(), CoordinateError> {
        self.check(task)?;
        let current = &mut self.states[task.0];
        if *current == State::Finished {
            return Err(CoordinateError::AfterFinish { task });
        }
        *current = state.max(*current);
        Ok(())
    }

    pub(super) fn check(&self, task: TaskId) -> Result<(), CoordinateError> {
        if self.plan.contains(task) {
            Ok(())
        } else {
            Err(CoordinateError::UnknownTask { task })
        }
    }

    pub(super) fn has_finished(&self, task: TaskId) -> bool {
        self.states[task.0] == State::Finished
    }

    pub(super) fn first_created(&self) -> Option<TaskId> {
        let created = |state: &State| *state == State::Created;
        self.states.iter().position(created).map(TaskId)
    }

    /// Whether all have processed all input there will ever be.
    pub(super) fn all_drained(&self) -> bool {
        self.states.iter().all(|state| *state >= State::Drained)
    }

    pub(super) fn partly_finished(&self) -> Option<TaskId> {
        self.plan.partly_finished(|task| self.has_finished(task))
    }
}
