//! The loop of an attempt: feeds the sources, carries out what the coordinator decides.

use std::{
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use cutwater_barrier::{
    Coordinator, Then, Time,
    align::Channel,
    coordinate::{self, Config, Decision, Effect, Event, Plan, Request, RequestId, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::{Assignment, Key};
use cutwater_sink_2pc::{self as sink_2pc, Driver, Machine, Notice, Sink};
use cutwater_storage::{
    CheckpointKind, CheckpointStore, Metadata, Operator, PreparedTransaction, Term,
};
use futures::executor::block_on;

use crate::{
    COUNT, Crash, JOB, Job, MAX_PARALLELISM, Result, SOURCE,
    worker::{Item, Message, Part, Reports},
};

/// One attempt to run the job, with the coordinator's side of everything.
pub(crate) struct Attempt<'a, S: Sink, C> {
    job: &'a Job<'a, S>,
    clock: C,
    store: CheckpointStore,
    sink: Driver<S::Committer>,
    coordinator: Coordinator<Part>,
    reports: (Sender<Event<Part>>, Receiver<Event<Part>>),
    assignment: Assignment,
    /// How far each source has read. A source is a task of the plan as well, in the same order.
    positions: Vec<usize>,
    workers: Vec<Sender<Message>>,
    /// Whether a checkpoint that was asked for is not answered yet.
    is_asked: bool,
}

impl<'a, S: Sink, C: Fn() -> Time + Sync> Attempt<'a, S, C> {
    pub(crate) fn new(
        job: &'a Job<'a, S>,
        clock: C,
        store: CheckpointStore,
        sink: Driver<S::Committer>,
        term: Term,
        restored: Option<&Metadata>,
    ) -> Result<Self> {
        // All tasks, and who sends to whom: a barrier starts at those without inputs.
        let mut plan = Plan::new();
        let sources: Vec<TaskId> = job.input.iter().map(|_| plan.task([])).collect();
        for _ in 0..job.parallelism {
            plan.task(sources.iter().copied());
        }
        let mut attempt = coordinate::Attempt::new(term.generation, term.first);
        let mut positions = vec![0; job.input.len()];
        if let Some(metadata) = restored {
            attempt = attempt.restored(metadata.checkpoint);
            for (position, old) in positions
                .iter_mut()
                .zip(&metadata.operators[SOURCE].subtasks)
            {
                *position = u64::from_le_bytes(old.source.as_ref().try_into()?) as usize;
            }
        }
        Ok(Self {
            job,
            clock,
            store,
            sink,
            coordinator: Coordinator::new(Config::on_request(), plan, attempt),
            reports: mpsc::channel(),
            assignment: Assignment::contiguous(job.parallelism, MAX_PARALLELISM)?,
            positions,
            workers: Vec::new(),
            is_asked: false,
        })
    }

    /// Adds a worker, which hears us through `inbox`.
    pub(crate) fn connect(&mut self, inbox: Sender<Message>) -> Reports {
        self.workers.push(inbox);
        let task = TaskId(self.job.input.len() + self.workers.len() - 1);
        Reports {
            task,
            coordinator: self.reports.0.clone(),
        }
    }

    /// Runs until the last checkpoint is committed: `true`; or the job crashes as planned: `false`.
    pub(crate) fn run(&mut self) -> Result<bool> {
        for source in 0..self.job.input.len() {
            self.handle(Event::Running {
                task: TaskId(source),
            })?;
        }
        for _ in 0..self.workers.len() {
            self.handle(self.reports.1.recv()?)?;
        }
        let mut turn = 0;
        loop {
            turn += 1;
            let is_at_end = !self.feed()?;
            if !self.is_asked && (is_at_end || turn % self.job.every == 0) {
                let request = Request::checkpoint(RequestId(turn as u64));
                let then = if is_at_end {
                    Then::Drain
                } else {
                    Then::Continue
                };
                self.handle(Event::Requested(request.then(then)))?;
                self.is_asked = true;
            }
            while let Ok(event) = self.reports.1.try_recv() {
                self.handle(event)?;
            }
            // One effect a turn: between the barriers of two sources there are words, as in an engine
            // whose sources have threads of their own.
            if let Some(effect) = self.coordinator.poll() {
                if let Some(is_finished) = self.carry_out(effect)? {
                    return Ok(is_finished);
                }
            } else if is_at_end {
                self.wait()?;
            }
        }
    }

    /// Sends the next word of each source to the worker that owns its key group. `false` if there
    /// are no more.
    fn feed(&mut self) -> Result<bool> {
        let mut has_fed = false;
        for (source, words) in self.job.input.iter().enumerate() {
            let Some(word) = words.get(self.positions[source]) else {
                continue;
            };
            let hash = word.key_hash();
            let owner = self
                .assignment
                .owner(String::GROUPING.group(hash, MAX_PARALLELISM));
            let item = Item::Word(word.clone(), hash);
            self.workers[usize::from(owner)].send(Message::In(Channel(source), item))?;
            self.positions[source] += 1;
            has_fed = true;
        }
        Ok(has_fed)
    }

    /// Does what the coordinator says. If that was the last thing, whether the job is finished.
    fn carry_out(&mut self, effect: Effect<Part>) -> Result<Option<bool>> {
        match effect {
            // The barrier goes behind the words sent so far, and the position says which these are.
            Effect::Trigger { task, barrier } => {
                self.tell(&Message::In(Channel(task.0), Item::Barrier(barrier)))?;
                let mut report = Part::default();
                let position = self.positions[task.0] as u64;
                report.subtask.source = position.to_le_bytes().to_vec().into();
                self.handle(Event::Acked {
                    generation: self.coordinator.generation(),
                    checkpoint: barrier.checkpoint,
                    task,
                    report,
                    stats: TaskStats::default(),
                })?;
            }
            Effect::Decide(decision) => {
                let checkpoint = decision.barrier.checkpoint;
                let metadata = self.metadata(decision)?;
                if self.job.crash == Some(Crash::BeforeComplete) {
                    return Ok(Some(false));
                }
                block_on(self.store.complete(&metadata))?; // The decision.
                if self.job.crash == Some(Crash::BeforeCommit) {
                    return Ok(Some(false));
                }
                self.handle(Event::Decided { checkpoint })?;
            }
            Effect::NotifyComplete { checkpoint, .. } => {
                self.tell(&Message::Completed(checkpoint))?;
                block_on(self.store.check_leading())?;
                self.sink
                    .handle((self.clock)(), sink_2pc::Event::Completed(checkpoint))?;
                self.settle(Machine::is_settled)?;
                block_on(self.store.apply_retention())?;
            }
            Effect::Answer { outcome, .. } => {
                outcome?;
                self.is_asked = false;
            }
            Effect::End { .. } => return Ok(Some(true)),
            Effect::FailJob(failure) => return Err(failure.into()),
            // No checkpoint may fail here (`Config::tolerable_failures` is 0): `FailJob` follows, and
            // the next attempt sweeps up.
            Effect::NotifyAborted { .. }
            | Effect::NotifySubsumed { .. }
            | Effect::Discard { .. }
            | Effect::Leave { .. } => {}
        }
        Ok(None)
    }

    /// What makes `decision` a checkpoint, once it is complete.
    fn metadata(&mut self, decision: Decision<Part>) -> Result<Metadata> {
        let checkpoint = decision.barrier.checkpoint;
        let mut source = Operator::new("words", MAX_PARALLELISM);
        let mut count = Operator::new("count and write", MAX_PARALLELISM);
        count.grouping = Some(String::GROUPING);
        let groups = self.assignment.all_groups();
        count.assignment = groups
            .iter()
            .map(|groups| groups.ranges().to_vec())
            .collect();
        let mut prepared = Vec::new();
        for report in decision.reports {
            prepared.extend(report.report.prepared);
            let is_source = report.task.0 < self.job.input.len();
            let operator = if is_source { &mut source } else { &mut count };
            operator.subtasks.push(report.report.subtask);
        }
        // The committer knows best what is to be committed after a restore: also what an earlier
        // checkpoint has left undone.
        self.sink
            .handle((self.clock)(), sink_2pc::Event::Prepared(prepared))?;
        let sealed = self.sink.seal(checkpoint).into_iter();
        let sealed = sealed.map(|it| PreparedTransaction::new(it.checkpoint, it.token));
        count.subtasks[0].prepared = sealed.collect();

        let kind = CheckpointKind::Checkpoint;
        let mut metadata = Metadata::new(JOB, checkpoint, decision.generation, kind);
        metadata.operators.insert(SOURCE.to_owned(), source);
        metadata.operators.insert(COUNT.to_owned(), count);
        Ok(metadata)
    }

    /// Has the committer do what is due, until `is_done`.
    pub(crate) fn settle(&mut self, is_done: fn(&Machine) -> bool) -> Result<()> {
        loop {
            while let Some(notice) = block_on(self.sink.advance(&self.clock))? {
                match notice {
                    Notice::Ready => {}
                    Notice::AllCommitted(checkpoint) => block_on(self.store.committed(checkpoint))?,
                    Notice::Released { before } => self.tell(&Message::Released { before })?,
                    Notice::Failed(failure) => return Err(failure.into()),
                }
            }
            if is_done(self.sink.machine()) {
                return Ok(());
            }
            if let Some(retry_at) = self.sink.deadline() {
                thread::park_timeout(retry_at - (self.clock)());
            }
        }
    }

    fn handle(&mut self, event: Event<Part>) -> Result<()> {
        Ok(self.coordinator.handle((self.clock)(), event)?)
    }

    /// Waits for a report, or for the coordinator's deadline.
    fn wait(&mut self) -> Result<()> {
        let deadline = self.coordinator.deadline();
        let patience = deadline.map_or(Duration::from_secs(1), |at| at - (self.clock)());
        let event = self.reports.1.recv_timeout(patience);
        self.handle(event.unwrap_or(Event::Woke))
    }

    fn tell(&self, message: &Message) -> Result<()> {
        for worker in &self.workers {
            worker.send(message.clone())?;
        }
        Ok(())
    }
}
