//! A task's part of the checkpoint in progress, from its cut to its acknowledgement.

use std::time::Duration;

use cutwater_barrier::Barrier;

use crate::{in_flight::Captured, stage::OperatorSnapshot};

/// What a task has taken so far.
pub(crate) struct Part {
    pub(crate) barrier: Barrier,
    pub(crate) operators: Vec<OperatorSnapshot>,
    /// Records in flight, in order, with the channel they were in.
    pub(crate) in_flight: Vec<(usize, Box<dyn Captured>)>,
    /// How long the operators took to fix their views.
    pub(crate) sync: Duration,
}
