//! What one run is about: a small dataflow, its input, its faults.

use std::time::Duration;

use cutwater_barrier::coordinate::{Config, Plan, TaskId};

use crate::random::Random;

/// A job of one to three layers. The first layer reads sources, the last one is what counts.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// For each task, the tasks that feed it, by channel.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// For each task, where its outputs lead: task and channel there.
    pub(crate) outputs: Vec<Vec<(usize, usize)>>,
    /// For each source, how many records it has. Sources are the first tasks.
    pub(crate) records: Vec<u64>,
    pub(crate) exactly_once: bool,
    pub(crate) config: Config,
    pub(crate) faults: Faults,
    /// Whether tasks that have no state end before the job does.
    pub(crate) finishes_early: bool,
}

/// How likely things go wrong, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) declined: u64,
    pub(crate) undecided: u64,
    pub(crate) crashes_max: u64,
    pub(crate) requests: u64,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        lost: 0,
        doubled: 0,
        declined: 0,
        undecided: 0,
        crashes_max: 0,
        requests: 0,
    };
}

impl Scenario {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let widths: Vec<usize> = (0..=random.index(3)).map(|_| 1 + random.index(3)).collect();
        let mut inputs: Vec<Vec<usize>> = vec![Vec::new(); widths[0]];
        for pair in widths.windows(2) {
            let first = inputs.len() - pair[0];
            let all_to_all = pair[0] != pair[1] || random.percent(50);
            for i in 0..pair[1] {
                inputs.push(if all_to_all {
                    (first..first + pair[0]).collect()
                } else {
                    vec![first + i]
                });
            }
        }
        let mut outputs = vec![Vec::new(); inputs.len()];
        for (task, from) in inputs.iter().enumerate() {
            for (channel, &input) in from.iter().enumerate() {
                outputs[input].push((task, channel));
            }
        }
        let mut config = Config::every(Duration::from_millis(10 + random.below(30)));
        config.initial_delay = Duration::from_millis(random.below(20));
        config.min_pause = Duration::from_millis(random.below(20));
        config.concurrent_max = 1 + random.index(3);
        config.timeout = Duration::from_millis(30 + random.below(100));
        config.tolerable_failures = [0, 3, 1_000][random.index(3)];
        config.requests_max = 1 + random.index(2);
        Self {
            inputs,
            outputs,
            records: (0..widths[0]).map(|_| random.below(25)).collect(),
            exactly_once: random.percent(75),
            config,
            faults: Faults {
                lost: [0, 3, 15][random.index(3)],
                doubled: [0, 3, 15][random.index(3)],
                declined: [0, 3, 15][random.index(3)],
                undecided: [0, 10][random.index(2)],
                crashes_max: random.below(4),
                requests: [0, 1][random.index(2)],
            },
            finishes_early: random.percent(50),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        for inputs in &self.inputs {
            plan.task(inputs.iter().copied().map(TaskId));
        }
        plan
    }

    pub(crate) fn is_source(&self, task: usize) -> bool {
        self.inputs[task].is_empty()
    }

    pub(crate) fn is_last(&self, task: usize) -> bool {
        self.outputs[task].is_empty()
    }
}
