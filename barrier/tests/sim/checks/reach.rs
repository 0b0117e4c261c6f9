//! The runs together reach everything that the coordinator can do: a simulation that never aborts a
//! checkpoint proves nothing about aborts.

use std::collections::BTreeMap;

use cutwater_barrier::Kind;
use cutwater_barrier::coordinate::{Abort, Effect, JobFailure, Refusal};

use crate::task::Part;

#[derive(Debug, Default)]
pub(crate) struct Reach {
    times: BTreeMap<&'static str, u64>,
}

/// Everything that must be reached.
const ALL: [&str; 23] = [
    "abort: declined",
    "abort: expired",
    "abort: halted",
    "abort: not durable",
    "answer: aborted",
    "answer: ending",
    "answer: halted",
    "answer: not running",
    "answer: ok",
    "answer: subsumed",
    "answer: too many requests",
    "decide",
    "decide: some have finished",
    "discard",
    "end",
    "fail: stop failed",
    "fail: too many failures",
    "fail: undecided",
    "leave",
    "complete: checkpoint",
    "complete: savepoint",
    "subsumed",
    "trigger",
];

impl Reach {
    pub(crate) fn effect(&mut self, effect: &Effect<Part>) {
        let name = match effect {
            Effect::Trigger { .. } => "trigger",
            Effect::Decide(decision) if decision.finished.is_empty() => "decide",
            Effect::Decide(_) => "decide: some have finished",
            Effect::NotifyComplete {
                kind: Kind::Checkpoint,
                ..
            } => "complete: checkpoint",
            Effect::NotifyComplete {
                kind: Kind::Savepoint,
                ..
            } => "complete: savepoint",
            Effect::NotifyAborted { reason, .. } => match reason {
                Abort::Declined { .. } => "abort: declined",
                Abort::Expired => "abort: expired",
                Abort::Halted => "abort: halted",
                Abort::NotDurable(_) => "abort: not durable",
                _ => "abort: other",
            },
            Effect::NotifySubsumed { .. } => "subsumed",
            Effect::Discard { .. } => "discard",
            Effect::Leave { .. } => "leave",
            Effect::Answer { outcome: Ok(_), .. } => "answer: ok",
            Effect::Answer {
                outcome: Err(refusal),
                ..
            } => match refusal {
                Refusal::Aborted(_) => "answer: aborted",
                Refusal::Subsumed => "answer: subsumed",
                Refusal::Ending => "answer: ending",
                Refusal::Halted => "answer: halted",
                Refusal::NotRunning { .. } => "answer: not running",
                Refusal::TooManyRequests => "answer: too many requests",
                _ => "answer: other",
            },
            Effect::End { .. } => "end",
            Effect::FailJob(failure) => match failure {
                JobFailure::StopFailed { .. } => "fail: stop failed",
                JobFailure::TooManyFailures { .. } => "fail: too many failures",
                JobFailure::Undecided { .. } => "fail: undecided",
                _ => "fail: other",
            },
        };
        *self.times.entry(name).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, times) in &other.times {
            *self.times.entry(name).or_default() += times;
        }
    }

    pub(crate) fn assert_all(&self) {
        let missing: Vec<_> = ALL
            .iter()
            .filter(|name| !self.times.contains_key(*name))
            .collect();
        assert!(missing.is_empty(), "no run reaches {missing:?}");
    }
}
