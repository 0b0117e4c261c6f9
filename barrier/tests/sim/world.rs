//! Everything around the machines: channels, messages, the log, time, and what goes wrong.

use std::{collections::VecDeque, mem, time::Duration};

use cutwater_barrier::align;
use cutwater_barrier::coordinate::{
    Attempt, Decision, Decline, Effect, Event, NotDurable, Request, RequestId, TaskId,
};
use cutwater_barrier::stats::TaskStats;
use cutwater_barrier::{Barrier, CheckpointId, Coordinator, Generation, Then, Time};

use crate::{
    checks::{Checks, Reach},
    random::Random,
    scenario::{Faults, Scenario},
    task::{Item, News, Outputs, Part, Role, Task},
};

/// Nothing goes wrong after so many steps: what is left must come to its end.
const FAULTY_STEPS: u64 = 1_500;

pub(crate) struct World {
    scenario: Scenario,
    random: Random,
    checks: Checks,
    faults: Faults,
    now: Time,
    serial: u64,
    coordinator: Coordinator<Part>,
    tasks: Vec<Task>,
    /// In order for each task, and certain to arrive.
    lifecycle: Vec<VecDeque<Event<Part>>>,
    /// To the coordinator, in any order, if at all. Outlives an attempt.
    reports: Vec<Event<Part>>,
    /// To tasks of this attempt, in any order, if at all.
    notices: Vec<(usize, align::Event)>,
    /// The append under way.
    deciding: Option<Decision<Part>>,
    log: Vec<Decision<Part>>,
    requests: u64,
    crashes: u64,
    /// The attempt has.
    failed: bool,
    /// The job has.
    ended: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let attempt = Attempt::new(Generation::new(1), CheckpointId::new(1));
        let mut world = Self {
            faults: scenario.faults,
            now: Time::ZERO,
            serial: 0,
            coordinator: Coordinator::new(scenario.config, scenario.plan(), attempt),
            tasks: Vec::new(),
            lifecycle: Vec::new(),
            reports: Vec::new(),
            notices: Vec::new(),
            deciding: None,
            log: Vec::new(),
            requests: 0,
            crashes: 0,
            failed: false,
            ended: false,
            checks: Checks::new(),
            scenario,
            random,
        };
        world.start(None);
        world
    }

    /// Runs to the job's end. Returns the steps it took and what it reached, or `None` if the steps
    /// were too few.
    pub(crate) fn run(mut self, steps_max: u64) -> Option<(u64, Reach)> {
        for step in 0..steps_max {
            if self.ended {
                self.checks.end(&self.scenario, self.log.iter());
                return Some((step, self.checks.reach));
            }
            if step == FAULTY_STEPS {
                self.faults = Faults::NONE;
            }
            self.step();
        }
        None
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..55 => self.some_task_works(),
            55..70 => self.some_report_arrives(),
            70..80 => self.some_notice_arrives(),
            80..90 => self.some_news_arrives(),
            90..94 => self.append_returns(),
            94..99 => self.time_passes(),
            _ => self.something_comes_from_outside(),
        }
    }

    // Tasks

    fn some_task_works(&mut self) {
        let index = self.random.index(self.tasks.len());
        if self.tasks[index].finished {
            return;
        }
        let early = self.scenario.finishes_early && !self.scenario.is_last(index);
        let mut turn = self.turn();
        let mut news = Vec::new();
        let task = &mut self.tasks[index];
        if self.scenario.is_source(index) {
            task.emit(index, early, &mut turn, &mut news);
        } else {
            let readable = task.readable();
            if readable.is_empty() {
                return;
            }
            let channel = readable[self.random.index(readable.len())];
            let role = if self.scenario.is_last(index) {
                Role::Last
            } else {
                Role::Middle {
                    finishes_early: early,
                }
            };
            task.read(self.now, channel, role, &mut turn, &mut news);
        }
        self.after(index, turn, news);
    }

    fn some_notice_arrives(&mut self) {
        if self.notices.is_empty() {
            return;
        }
        let (index, notice) = self
            .notices
            .swap_remove(self.random.index(self.notices.len()));
        if self.random.percent(self.faults.doubled) {
            self.notices.push((index, notice));
        }
        if self.tasks[index].finished || self.random.percent(self.faults.lost) {
            return;
        }
        let mut turn = self.turn();
        let mut news = Vec::new();
        self.tasks[index].tell(self.now, notice, &mut turn, &mut news);
        self.after(index, turn, news);
    }

    fn turn(&self) -> Outputs {
        Outputs {
            items: Vec::new(),
            serial: self.serial,
        }
    }

    /// Sends what a task's turn brought forth.
    fn after(&mut self, index: usize, turn: Outputs, news: Vec<News>) {
        self.serial = turn.serial;
        for item in turn.items {
            self.send(index, item);
        }
        let task = TaskId(index);
        let generation = self.coordinator.generation();
        for news in news {
            match news {
                News::Drained => self.lifecycle[index].push_back(Event::Drained { task }),
                News::Finished(last) => {
                    self.lifecycle[index].push_back(Event::Finished { task, last });
                }
                News::Snapshot(checkpoint, part) if !self.random.percent(self.faults.declined) => {
                    self.reports.push(Event::Acked {
                        generation,
                        checkpoint,
                        task,
                        part,
                        stats: TaskStats::default(),
                    });
                }
                News::Snapshot(checkpoint, _) => self.reports.push(Event::Declined {
                    generation,
                    checkpoint,
                    task,
                    reason: Decline::Failed,
                }),
                News::GaveUp(checkpoint) => self.reports.push(Event::Declined {
                    generation,
                    checkpoint,
                    task,
                    reason: Decline::Passed,
                }),
            }
        }
    }

    fn send(&mut self, from: usize, item: Item) {
        let outputs = &self.scenario.outputs[from];
        match item {
            Item::Record((source, position)) => {
                if let Some(route) = (source + position as usize).checked_rem(outputs.len()) {
                    let (to, channel) = outputs[route];
                    self.tasks[to].queues[channel].push_back(item);
                }
            }
            _ => {
                for &(to, channel) in outputs {
                    self.tasks[to].queues[channel].push_back(item);
                }
            }
        }
    }

    // The coordinator

    fn some_report_arrives(&mut self) {
        if self.reports.is_empty() {
            return;
        }
        let report = self
            .reports
            .swap_remove(self.random.index(self.reports.len()));
        if self.random.percent(self.faults.doubled) {
            self.reports.push(report.clone());
        }
        if !self.random.percent(self.faults.lost) {
            self.tell(report);
        }
    }

    fn some_news_arrives(&mut self) {
        let task = self.random.index(self.lifecycle.len());
        if let Some(news) = self.lifecycle[task].pop_front() {
            self.tell(news);
        }
    }

    fn time_passes(&mut self) {
        self.now = self.now + Duration::from_millis(1 + self.random.below(4));
        if self.coordinator.deadline().is_some_and(|at| at <= self.now) {
            self.tell(Event::Woke);
        }
    }

    fn append_returns(&mut self) {
        let Some(decision) = self.deciding.take() else {
            return;
        };
        let checkpoint = decision.barrier.checkpoint;
        if !self.random.percent(self.faults.undecided) {
            self.make_durable(decision);
            return self.tell(Event::Decided { checkpoint });
        }
        let reason = [NotDurable::Failed, NotDurable::Unknown][self.random.index(2)];
        let reports = decision.reports.clone();
        if reason == NotDurable::Unknown && self.random.percent(50) {
            self.make_durable(decision);
        }
        for report in &reports {
            self.checks.reports.came_in(report.part.serial);
        }
        self.tell(Event::NotDecided {
            checkpoint,
            reason,
            reports,
        });
    }

    fn make_durable(&mut self, decision: Decision<Part>) {
        self.checks.reports.durable(&decision);
        self.log.push(decision);
    }

    fn something_comes_from_outside(&mut self) {
        if self.random.percent(20) && self.crashes < self.faults.crashes_max {
            self.crashes += 1;
            return self.restart();
        }
        if self.faults.requests > 0 {
            self.requests += 1;
            let id = RequestId(self.requests);
            let request = match self.random.below(20) {
                0..8 => Request::checkpoint(id),
                8..19 => Request::savepoint(id),
                _ => Request::savepoint(id).then(Then::Suspend),
            };
            self.checks.answers.asked(id);
            self.tell(Event::Requested(request));
        }
    }

    fn tell(&mut self, event: Event<Part>) {
        if let Event::Acked { part, .. } = &event {
            self.checks.reports.came_in(part.serial);
        }
        self.coordinator
            .handle(self.now, event)
            .expect("the simulated driver is correct");
        while let Some(effect) = self.coordinator.poll() {
            self.carry_out(effect);
        }
        // A driver waits for the append under way before it ends the attempt.
        if self.failed && self.deciding.is_none() {
            self.checks.attempt_gave_up();
            self.restart();
        }
    }

    fn carry_out(&mut self, effect: Effect<Part>) {
        self.checks.reach.effect(&effect);
        match effect {
            Effect::Trigger { task, barrier } => {
                self.checks.ids.triggered(barrier.checkpoint);
                self.notices
                    .push((task.0, align::Event::Triggered { barrier }));
            }
            Effect::Decide(decision) => {
                for report in &decision.reports {
                    self.checks.reports.went_out(report.part.serial);
                }
                self.checks.cut.decided(&self.scenario, &decision);
                assert!(self.deciding.is_none(), "one decision at a time");
                self.deciding = Some(decision);
            }
            Effect::NotifyAborted { checkpoint, .. }
            | Effect::NotifySubsumed { checkpoint, .. } => {
                for task in 0..self.tasks.len() {
                    self.notices
                        .push((task, align::Event::Aborted { checkpoint }));
                }
            }
            Effect::NotifyComplete { .. } => {}
            Effect::Discard { report, .. } => {
                self.checks.reports.went_out(report.part.serial);
                self.checks.reports.deleted(report.part.serial, &self.log);
            }
            Effect::Leave { report, .. } => self.checks.reports.went_out(report.part.serial),
            Effect::Answer { request, outcome } => {
                let durable =
                    |checkpoint| self.latest_of(|barrier| barrier.checkpoint == checkpoint);
                if let Ok(checkpoint) = outcome {
                    assert!(
                        durable(checkpoint).is_some(),
                        "answered before it was durable"
                    );
                }
                self.checks.answers.answered(request);
            }
            Effect::End { checkpoint } => {
                let last = self
                    .latest_of(|_| true)
                    .map(|decision| decision.barrier.checkpoint);
                assert_eq!(
                    last,
                    Some(checkpoint),
                    "the job ends with its newest checkpoint"
                );
                self.checks.attempt_gave_up();
                self.ended = true;
            }
            Effect::FailJob(_) => {
                assert!(!self.failed, "an attempt fails once");
                self.failed = true;
            }
        }
    }

    fn latest_of(&self, which: impl Fn(&Barrier) -> bool) -> Option<&Decision<Part>> {
        let decisions = self.log.iter().filter(|decision| which(&decision.barrier));
        decisions.max_by_key(|decision| decision.barrier.checkpoint)
    }

    // Attempts

    /// The process died, or the attempt failed: a new one takes over.
    fn restart(&mut self) {
        if let Some(decision) = self.deciding.take()
            && self.random.percent(50)
        {
            self.make_durable(decision);
        }
        let first = self.coordinator.next().get() + self.random.below(3);
        let attempt = Attempt::new(
            self.coordinator.generation().next(),
            CheckpointId::new(first),
        );
        let latest = self.latest_of(|_| true).cloned();
        let attempt = match &latest {
            Some(latest) => attempt.restored(latest.barrier.checkpoint),
            None => attempt,
        };
        self.coordinator = Coordinator::new(self.scenario.config, self.scenario.plan(), attempt);
        self.failed = false;
        self.checks.reports.attempt_over();
        self.checks.answers.attempt_over();
        self.start(latest);
    }

    fn start(&mut self, from: Option<Decision<Part>>) {
        let count = self.scenario.inputs.len();
        self.notices.clear();
        self.lifecycle = (0..count).map(|_| VecDeque::new()).collect();
        let mut parts = vec![Part::default(); count];
        let mut finished = Vec::new();
        if let Some(mut decision) = from {
            for report in mem::take(&mut decision.reports) {
                parts[report.task.0] = report.part;
            }
            finished = decision.finished;
        }
        self.tasks = parts
            .into_iter()
            .enumerate()
            .map(|(index, part)| Task::new(&self.scenario, index, part))
            .collect();
        for index in 0..count {
            let task = TaskId(index);
            if finished.contains(&task) {
                self.tasks[index].finished = true;
                self.send(index, Item::End);
                self.lifecycle[index].push_back(Event::Finished { task, last: None });
            } else {
                self.lifecycle[index].push_back(Event::Running { task });
            }
        }
    }
}
