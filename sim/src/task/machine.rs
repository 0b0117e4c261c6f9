//! The aligner or the tracker: they hear and say the same.

use cutwater_barrier::{
    Aligner, CheckpointId, Time, Tracker,
    align::{AlignError, Channel, Effect, Event, Input, Reading},
};

use crate::job::Job;

#[derive(Debug)]
pub(super) enum Machine {
    ExactlyOnce(Aligner),
    AtLeastOnce(Tracker),
}

impl Machine {
    /// A machine for a task whose channels belong to these edges. A tracker cannot stand at the head
    /// of a loop.
    pub(super) fn new(job: &Job, edges: impl Iterator<Item = usize>) -> Self {
        let inputs: Vec<Input> = edges.map(|edge| input_of(job, edge)).collect();
        if job.exactly_once || inputs.contains(&Input::Feedback) {
            Self::ExactlyOnce(Aligner::with_channels(inputs))
        } else {
            Self::AtLeastOnce(Tracker::new(inputs.len()))
        }
    }

    pub(super) fn aligns(&self) -> bool {
        matches!(self, Self::ExactlyOnce(_))
    }

    pub(super) fn handle(&mut self, now: Time, event: Event) -> Result<(), AlignError> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.handle(now, event),
            Self::AtLeastOnce(tracker) => tracker.handle(now, event),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Effect> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.poll(),
            Self::AtLeastOnce(tracker) => tracker.poll(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.deadline(),
            Self::AtLeastOnce(tracker) => tracker.deadline(),
        }
    }

    pub(super) fn reading(&self, channel: Channel) -> Reading {
        match self {
            Self::ExactlyOnce(aligner) => aligner.reading(channel),
            Self::AtLeastOnce(tracker) => tracker.reading(channel),
        }
    }

    pub(super) fn last(&self) -> Option<CheckpointId> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.last(),
            Self::AtLeastOnce(tracker) => tracker.last(),
        }
    }
}

/// What a channel of this edge is to a checkpoint.
pub(super) fn input_of(job: &Job, edge: usize) -> Input {
    match &job.edges[edge] {
        edge if edge.feedback => Input::Feedback,
        edge if edge.exchange.is_strict() => Input::Strict,
        _ => Input::Overtakable,
    }
}
