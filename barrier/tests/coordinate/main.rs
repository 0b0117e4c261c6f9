//! What the coordinator does, told as transcripts: `event => effects`, and `; wake T` where the
//! deadline matters. `c` is a checkpoint, `s` a savepoint, `t` a task, `r` a request.

mod begin;
mod collect;
mod end;
mod finish;
mod transcript;

use std::time::Duration;

use cutwater_barrier::coordinate::{Attempt, Config, Effect, Plan, TaskId};
use cutwater_barrier::{CheckpointId, Coordinator, Generation};
use transcript::{parse, show};

/// A source and a sink.
const LINE: &[&[usize]] = &[&[], &[0]];
/// Two sources, all-to-all into two sinks.
const SQUARE: &[&[usize]] = &[&[], &[], &[0, 1], &[0, 1]];
/// Two lines side by side.
const LADDER: &[&[usize]] = &[&[], &[], &[0], &[1]];

/// Every 100 ms, the first after 100 ms, each within 500 ms, no failure tolerated.
fn config() -> Config {
    let mut config = Config::every(Duration::from_millis(100));
    config.timeout = Duration::from_millis(500);
    config
}

fn on_request() -> Config {
    let mut config = Config::on_request();
    config.timeout = Duration::from_millis(500);
    config
}

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config();
    change(&mut config);
    config
}

fn plan(inputs: &[&[usize]]) -> Plan {
    let mut plan = Plan::new();
    for inputs in inputs {
        plan.task(inputs.iter().copied().map(TaskId));
    }
    plan
}

/// Plays a transcript on a job whose tasks all run since time 0.
#[track_caller]
fn check_running(inputs: &[&[usize]], config: Config, transcript: &str) {
    let running: String = (0..inputs.len())
        .map(|task| format!("0 running t{task} => *\n"))
        .collect();
    check(inputs, config, &(running + transcript));
}

#[track_caller]
fn check(inputs: &[&[usize]], config: Config, transcript: &str) {
    check_plan(plan(inputs), config, transcript);
}

/// The only place that calls the machine, so its API can change without touching a test.
#[track_caller]
fn check_plan(plan: Plan, config: Config, transcript: &str) {
    let attempt = Attempt::new(Generation::new(7), CheckpointId::new(1));
    let mut coordinator = Coordinator::new(config, plan, attempt);
    let mut handed_out = Vec::new();
    let lines = transcript.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let (input, expected) = line.split_once("=>").expect("`event => effects`");
        let (expected, wake) = expected.split_once("; wake ").unwrap_or((expected, ""));
        let (now, event) = parse(input, &mut handed_out);
        let mut got = Vec::new();
        match coordinator.handle(now, event) {
            Ok(()) => {
                while let Some(effect) = coordinator.poll() {
                    got.push(show(&effect));
                    if let Effect::Decide(decision) = effect {
                        handed_out = decision.reports;
                    }
                }
            }
            Err(error) => got.push(format!("error: {error}")),
        }
        if expected.trim() != "*" {
            assert_eq!(got.join(", "), expected.trim(), "after `{}`", input.trim());
        }
        if !wake.is_empty() {
            let deadline = coordinator.deadline().map_or("none".to_owned(), |at| {
                at.since_start().as_millis().to_string()
            });
            assert_eq!(deadline, wake.trim(), "deadline after `{}`", input.trim());
        }
    }
}
