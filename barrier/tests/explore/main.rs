//! Every state that small jobs can reach, over the shipped machines: what the simulation samples and
//! `interleavings` does for one task is done here for whole jobs, with coordinator, log and crashes.
//!
//! A job has one to three tasks with up to three channels each, and takes two checkpoints. In each
//! state everything that may happen next is tried, including, as often as the [`Budget`] allows, that a
//! message is lost or doubled, that a checkpoint expires, or that the process dies. States that were
//! reached before, by another order of the same events, are not explored again. In each:
//!
//! - what is complete is a cut: replayed, each record passes each channel once ([`replay`]);
//! - ids are never reused, and a decision is made at most once;
//! - wherever nothing can happen any more, all input has been processed, and a further checkpoint,
//!   undisturbed, completes and leaves nothing behind ([`heal`]).
//!
//! `cargo xtask explore` sets `EXPLORE=long` and does the same with more going on at once.
//!
//! [`replay`]: world::World::replay
//! [`heal`]: world::World::heal

mod job;
mod search;
mod task;
mod world;

use std::time::Duration;

use cutwater_barrier::Mode::{self, Aligned, AlignedFor, Unaligned};
use cutwater_barrier::align::Input::{Feedback, Overtakable, Strict};

use job::Job;
use search::explore;

/// The time itself is not explored: a task may find at any moment that it has passed.
const FOR_A_WHILE: Mode = AlignedFor(Duration::from_secs(1));

/// How much a job does, and how much goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Budget {
    /// Of each source.
    records: u8,
    checkpoints: u8,
    faults: u8,
}

const fn budget(records: u8, checkpoints: u8, faults: u8) -> Budget {
    Budget {
        records,
        checkpoints,
        faults,
    }
}

/// Explores a job with few states in every mode.
fn explore_small(name: &str, job: impl Fn(Job) -> Job) {
    explore_all(
        name,
        job,
        &[budget(1, 2, 1)],
        &[budget(2, 2, 1), budget(1, 2, 2)],
    );
}

/// The same for a job with many.
fn explore_large(name: &str, job: impl Fn(Job) -> Job) {
    explore_all(
        name,
        job,
        &[budget(1, 1, 1), budget(1, 2, 0)],
        &[budget(1, 2, 1)],
    );
}

fn explore_all(name: &str, job: impl Fn(Job) -> Job, short: &[Budget], long: &[Budget]) {
    let is_long = std::env::var("EXPLORE").is_ok_and(|value| value == "long");
    let budgets = if is_long { long } else { short };
    for mode in [Aligned, FOR_A_WHILE, Unaligned] {
        for &budget in budgets {
            explore(name, &job(Job::new(mode, budget)));
        }
    }
}

#[test]
fn one_channel() {
    explore_small("one channel", |job| job.edge(0, 1, Overtakable));
}

/// SPEC 2.7: the head of the loop is its body, too.
#[test]
fn a_loop_of_one_task() {
    explore_small("loop", |job| {
        job.edge(0, 1, Overtakable).edge(1, 1, Feedback)
    });
}

#[test]
fn a_loop_of_two_tasks() {
    explore_large("long loop", |job| {
        let job = job.edge(0, 1, Overtakable);
        job.edge(1, 2, Overtakable).edge(2, 1, Feedback)
    });
}

#[test]
fn a_chain() {
    explore_large("chain", |job| {
        job.edge(0, 1, Overtakable).edge(1, 2, Overtakable)
    });
}

#[test]
fn a_fan_in() {
    explore_large("fan-in", |job| {
        job.edge(0, 2, Overtakable).edge(1, 2, Overtakable)
    });
}

/// SPEC 2.3, F074: edges of both kinds at one task.
#[test]
fn a_fan_in_over_a_strict_edge() {
    explore_large("strict", |job| {
        job.edge(0, 2, Strict).edge(1, 2, Overtakable)
    });
}

/// The same records on three channels, at different speeds.
#[test]
fn parallel_channels() {
    explore_large("parallel", |job| {
        let job = job.edge(0, 1, Overtakable);
        job.edge(0, 1, Strict).edge(0, 1, Overtakable)
    });
}

#[test]
fn a_detour() {
    explore_large("detour", |job| {
        let job = job.edge(0, 1, Overtakable);
        job.edge(0, 2, Overtakable).edge(1, 2, Overtakable)
    });
}

/// SPEC 2.9, F033, F042: the source finishes while barriers are under way.
#[test]
fn a_source_that_finishes() {
    explore_large("finishing", |job| {
        let job = job.edge(0, 1, Overtakable);
        job.edge(1, 2, Overtakable).with_ends()
    });
}

/// SPEC 2.3, F009, F057: the second checkpoint is a savepoint.
#[test]
fn a_savepoint_in_between() {
    explore_small("savepoint", |job| {
        let job = job.edge(0, 1, Overtakable);
        job.edge(0, 1, Overtakable).with_savepoint()
    });
}
