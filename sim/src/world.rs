//! One run: processes that come and go, one random step after the other, until the job has ended.

use std::time::Duration;

use cutwater_barrier::{Kind, Then};
use cutwater_storage::testkit::{Call, Failure, On};

use crate::{
    coverage::Coverage,
    env::Env,
    process::{Over, Process},
    trace::Trace,
};

/// Once nothing goes wrong any more, a job that has not ended after so many steps is stuck.
const STEPS_MAX: u64 = 25_000;

/// How often somebody asks for the end of a job whose input has none. Seldom, as a stop that expires
/// under back-pressure fails the attempt, and asking at once again would do it again.
const STOP_EVERY: u64 = 1_500;

/// How long a process that was replaced lives on after the job has ended.
const AFTERLIFE: u64 = 300;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) env: Env,
    /// The one that is meant to lead.
    current: Process,
    /// Replaced, and not aware of it.
    zombies: Vec<Process>,
    processes: u64,
    crashes: u64,
    steps: u64,
    /// Since when nothing goes wrong.
    healed_at: Option<u64>,
}

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut env = Env::new(seed, trace);
        Self {
            current: Process::start(&mut env, 1),
            env,
            zombies: Vec::new(),
            processes: 1,
            crashes: 0,
            steps: 0,
            healed_at: None,
        }
    }

    /// Runs to the job's end.
    pub(crate) fn run(&mut self) {
        loop {
            self.steps += 1;
            if self.steps == self.env.faults.until {
                self.env.heal();
                self.healed_at = Some(self.steps);
            }
            if let Some(healed_at) = self.healed_at {
                let steps = self.steps - healed_at;
                assert!(
                    steps < STEPS_MAX,
                    "stuck: not over {steps} steps after the last fault"
                );
            }
            if let Some(then) = self.step() {
                return self.end(then);
            }
        }
    }

    /// The transcript, and what was covered.
    pub(crate) fn into_parts(self) -> (Trace, Coverage) {
        let mut coverage = self.env.coverage;
        coverage.seeds = 1;
        coverage.steps = self.steps;
        coverage.longest = self.steps;
        (self.env.trace, coverage)
    }

    fn step(&mut self) -> Option<Then> {
        if std::mem::take(&mut self.env.is_idle) || self.env.random.percent(3) {
            let millis = 1 + self.env.random.below(4);
            self.env.now = self.env.now + Duration::from_millis(millis);
            if self.env.random.percent(20) {
                self.env.external.deliver_late();
            }
        }
        self.something_comes_from_outside();
        if !self.zombies.is_empty() && self.env.random.percent(30) {
            self.some_zombie_goes_on();
        } else {
            self.current.step(&mut self.env);
        }
        match self.current.over()? {
            Over::Ended(then) => {
                self.env.audit();
                let is_drained = then == Then::Drain;
                let resumes = self.env.is_faulty() && self.env.random.percent(70);
                if is_drained || !resumes {
                    return Some(then);
                }
                self.env.coverage.count("jobs resumed after a stop");
            }
            Over::Failed => {}
            Over::Fenced => self
                .env
                .coverage
                .count("leaders replaced by one thought dead"),
        }
        self.restart();
        None
    }

    fn restart(&mut self) -> Process {
        self.processes += 1;
        let next = Process::start(&mut self.env, self.processes);
        std::mem::replace(&mut self.current, next)
    }

    fn some_zombie_goes_on(&mut self) {
        let index = self.env.random.index(self.zombies.len());
        self.zombies[index].step(&mut self.env);
        if let Some(over) = self.zombies[index].over() {
            if over == Over::Fenced {
                self.env.coverage.count("zombies fenced");
            }
            self.zombies.swap_remove(index);
        }
    }

    fn something_comes_from_outside(&mut self) {
        if self.env.is_faulty() {
            let faults = self.env.faults;
            if self.env.random.below(1_000) < faults.full_of_1000 {
                self.env.coverage.count("the store was full");
                let store = self.env.blobs.0.faults();
                store.fail(On::call(Call::Create), Failure::Full);
            }
            // Later rather than at once: there is more to lose.
            let seldom = if self.env.ledger.newest().is_some() {
                150
            } else {
                900
            };
            if self.crashes < faults.crashes_max && self.env.random.below(seldom) == 0 {
                self.crashes += 1;
                self.crash();
            } else if self.env.random.below(1_000) < faults.requests_of_1000
                && let Some(attempt) = self.current.attempt()
            {
                let (kind, then) = match self.env.random.below(10) {
                    0..3 => (Kind::Checkpoint, Then::Continue),
                    3..8 => (Kind::Savepoint, Then::Continue),
                    8 => (Kind::Savepoint, Then::Suspend),
                    _ => (Kind::Savepoint, Then::Drain),
                };
                attempt.request(&mut self.env, kind, then);
            }
        } else if !self.env.job.is_bounded()
            && self.steps.is_multiple_of(STOP_EVERY)
            && let Some(attempt) = self.current.attempt()
        {
            let then = self.env.random.pick(&[Then::Suspend, Then::Drain]);
            attempt.request(&mut self.env, Kind::Savepoint, then);
        }
    }

    /// A task dies, a process dies, a process is only believed dead, or the power fails.
    fn crash(&mut self) {
        let faults = self.env.faults;
        if self.env.random.percent(faults.tasks)
            && let Some(attempt) = self.current.attempt()
        {
            return attempt.crash_some_task(&mut self.env);
        }
        let is_zombie = self.env.random.percent(faults.zombies);
        let number = self.current.number;
        self.env.note(|| {
            let lives = if is_zombie {
                "is believed dead"
            } else {
                "crashes"
            };
            format!("process {number} {lives}")
        });
        let old = self.restart();
        if self.env.random.percent(faults.power_cuts) {
            self.env.note(|| "the power fails".to_owned());
            self.env.coverage.count("power cuts");
            self.zombies.clear();
            drop(old);
            self.env.blobs.0.inner().cut_power();
            self.env.audit();
        } else if is_zombie {
            self.env.coverage.count("zombies");
            self.zombies.push(old);
        } else {
            self.env.coverage.count("processes crashed");
            let was_deciding = old.is_deciding();
            drop(old);
            if was_deciding {
                self.env.audit();
            }
        }
    }

    /// The job has ended. Whoever still believes to lead it changes nothing any more.
    fn end(&mut self, then: Then) {
        self.env.coverage.count(match then {
            Then::Drain => "jobs drained",
            Then::Suspend => "jobs suspended",
            Then::Continue => unreachable!("a job that continues has not ended"),
        });
        self.env.ledger.end(&self.env.job, &self.env.external);
        let newest = self.env.ledger.newest();
        for _ in 0..AFTERLIFE {
            if self.zombies.is_empty() {
                break;
            }
            self.some_zombie_goes_on();
        }
        self.env.external.deliver_late();
        self.env.audit();
        // One that had not begun to lead may take over now, and go on with what is left.
        if self.env.ledger.newest() == newest {
            self.env.ledger.end(&self.env.job, &self.env.external);
        }
    }
}
