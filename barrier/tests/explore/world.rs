//! A state of a job, and everything that may happen next.

use std::{collections::BTreeMap, time::Duration};

use cutwater_barrier::coordinate::{
    Attempt, Decline, Effect, Event, Report, Request, RequestId, TaskId,
};
use cutwater_barrier::{Barrier, CheckpointId, Coordinator, Generation, Time, align};

use crate::{
    job::{Job, Records},
    task::{Item, News, Part, Task},
};

/// Past every timeout. Otherwise the time is 0: that a task or the coordinator finds it later than
/// others do is one of the things that may happen.
const LATE: Time = Time::new(Duration::from_secs(100_000));

/// More than any run of these jobs takes.
const STEPS_MAX: usize = 1_000;

/// All that the future depends on.
#[derive(Clone, Debug, Hash)]
pub(crate) struct World {
    coordinator: Coordinator<Part>,
    generation: Generation,
    tasks: Vec<Task>,
    /// Between coordinator and tasks, in any order.
    post: Vec<Message>,
    /// The decision that is being made durable.
    deciding: Option<Complete>,
    /// The newest that is.
    complete: Option<Complete>,
    /// The first id that this attempt may give to a checkpoint.
    first: CheckpointId,
    /// The newest that any attempt has given.
    newest: Option<CheckpointId>,
    requested: u8,
    faults: u8,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Complete {
    checkpoint: CheckpointId,
    parts: BTreeMap<usize, Part>,
    finished: Vec<TaskId>,
}

#[derive(Clone, Debug, Hash)]
enum Message {
    Trigger {
        task: usize,
        barrier: Barrier,
    },
    Aborted {
        task: usize,
        checkpoint: CheckpointId,
    },
    /// Outlives the attempt that sent it.
    Report(Event<Part>),
    /// Certain to arrive.
    Finished(Event<Part>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Emit {
        source: usize,
    },
    Read {
        edge: usize,
    },
    Note {
        edge: usize,
    },
    Deliver {
        message: usize,
    },
    Request,
    MakeDurable,
    /// A task finds that its checkpoint has waited long enough.
    TimeOut {
        task: usize,
    },
    /// The coordinator finds that its checkpoints have taken too long.
    Expire,
    Lose {
        message: usize,
    },
    Double {
        message: usize,
    },
    /// A task declines instead of acknowledging, as it could not store its part.
    Fail {
        message: usize,
    },
    Crash,
}

impl Step {
    fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Expire
                | Self::Lose { .. }
                | Self::Double { .. }
                | Self::Fail { .. }
                | Self::Crash
        )
    }
}

impl World {
    pub(crate) fn new(job: &Job) -> Self {
        let mut world = Self {
            coordinator: Coordinator::new(
                job.config(),
                job.plan(),
                Attempt::new(Generation::new(1), CheckpointId::new(1)),
            ),
            generation: Generation::new(1),
            tasks: Vec::new(),
            post: Vec::new(),
            deciding: None,
            complete: None,
            first: CheckpointId::new(1),
            newest: None,
            requested: 0,
            faults: 0,
        };
        world.start(job);
        world
    }

    /// What may happen without anything going wrong. None: the job is at rest.
    pub(crate) fn steps(&self, job: &Job) -> Vec<Step> {
        let mut steps = Vec::new();
        for (edge, it) in job.edges.iter().enumerate() {
            let (task, channel) = (&self.tasks[it.to], job.channel(edge));
            if task.is_readable(channel) {
                steps.push(Step::Read { edge });
            }
            if !task.lanes[channel].notes.is_empty() {
                steps.push(Step::Note { edge });
            }
        }
        for source in job.tasks().filter(|&task| job.is_source(task)) {
            let task = &self.tasks[source];
            let has_more = task.state.position < job.budget.records;
            if has_more || job.ends && !task.finished {
                steps.push(Step::Emit { source });
            }
        }
        steps.extend((0..self.post.len()).map(|message| Step::Deliver { message }));
        if self.deciding.is_some() {
            steps.push(Step::MakeDurable);
        }
        for (task, it) in self.tasks.iter().enumerate() {
            if it.aligner.deadline().is_some() {
                steps.push(Step::TimeOut { task });
            }
        }
        if self.requested < job.budget.checkpoints {
            steps.push(Step::Request);
        }
        if steps.is_empty() && self.coordinator.pending().next().is_some() {
            steps.push(Step::Expire);
        }
        steps
    }

    /// What may go wrong.
    pub(crate) fn faults(&self, job: &Job) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.faults >= job.budget.faults {
            return steps;
        }
        for (message, it) in self.post.iter().enumerate() {
            if !matches!(it, Message::Finished(_)) {
                steps.extend([Step::Lose { message }, Step::Double { message }]);
            }
            if matches!(it, Message::Report(Event::Acked { .. })) {
                steps.push(Step::Fail { message });
            }
        }
        if self.coordinator.pending().next().is_some() {
            steps.push(Step::Expire);
        }
        steps.push(Step::Crash);
        steps
    }

    pub(crate) fn take(&mut self, job: &Job, step: Step) {
        if step.is_fault() {
            self.faults = self.faults.saturating_add(1);
        }
        match step {
            Step::Emit { source } => {
                let item = self.tasks[source].emit(job, source);
                self.send(job, source, item);
                if item == Item::End {
                    let last = self.tasks[source].aligner.last();
                    let task = TaskId(source);
                    self.post
                        .push(Message::Finished(Event::Finished { task, last }));
                }
            }
            Step::Read { edge } => {
                let it = job.edges[edge];
                let news = self.tasks[it.to].read(job.channel(edge), it.input);
                self.spread(job, it.to, news);
            }
            Step::Note { edge } => {
                let task = job.edges[edge].to;
                let news = self.tasks[task].note(job.channel(edge));
                self.spread(job, task, news);
            }
            Step::Deliver { message } => {
                let message = self.post.swap_remove(message);
                self.deliver(job, message);
            }
            Step::Request => {
                self.requested += 1;
                self.coordinate(
                    job,
                    Time::ZERO,
                    Event::Requested(job.request(self.requested)),
                );
            }
            Step::MakeDurable => {
                let complete = self.deciding.take().expect("a decision is under way");
                let checkpoint = complete.checkpoint;
                // An older checkpoint may complete after a savepoint that passed it; the newest counts.
                let newest = self.complete.take().into_iter().chain([complete]);
                self.complete = newest.max_by_key(|complete| complete.checkpoint);
                self.replay(job);
                self.coordinate(job, Time::ZERO, Event::Decided { checkpoint });
            }
            Step::TimeOut { task } => {
                let news = self.tasks[task].tell(LATE, align::Event::Woke);
                self.spread(job, task, news);
            }
            Step::Expire => self.coordinate(job, LATE, Event::Woke),
            Step::Lose { message } => drop(self.post.swap_remove(message)),
            Step::Double { message } => self.post.push(self.post[message].clone()),
            Step::Fail { message } => {
                if let Message::Report(report) = &mut self.post[message]
                    && let &mut Event::Acked {
                        generation,
                        checkpoint,
                        task,
                        ..
                    } = report
                {
                    *report = Event::Declined {
                        generation,
                        checkpoint,
                        task,
                        reason: Decline::Failed,
                    };
                }
            }
            Step::Crash => {
                self.generation = self.generation.next();
                self.start(job);
            }
        }
        // An order that nothing depends on should not make two states of one.
        self.post.sort_by_cached_key(crate::search::fingerprint);
    }

    /// Checks that each record of the job passes each channel once if it continues from what is complete.
    pub(crate) fn replay(&self, job: &Job) {
        let mut copy = self.clone();
        copy.post.clear();
        copy.requested = job.budget.checkpoints;
        copy.generation = copy.generation.next();
        copy.start(job);
        copy.come_to_rest(job);
        copy.assert_all_processed(job, "after a restart");
    }

    /// Checks, where nothing can happen any more, that all input has been processed, and that one more
    /// checkpoint clears away whatever the faults have left behind.
    pub(crate) fn heal(mut self, job: &Job) {
        let newest = self.newest;
        let request = Request::checkpoint(RequestId(u64::MAX));
        self.coordinate(job, Time::ZERO, Event::Requested(request));
        self.come_to_rest(job);
        let complete = self.complete.as_ref().map(|complete| complete.checkpoint);
        assert!(complete > newest, "no further checkpoint completes");
        assert_eq!(self.coordinator.pending().next(), None);
        self.assert_all_processed(job, "in the end");
        for task in &self.tasks {
            task.assert_at_rest();
        }
    }

    /// Lets everything happen that can, time last.
    fn come_to_rest(&mut self, job: &Job) {
        for _ in 0..STEPS_MAX {
            let steps = self.steps(job);
            let in_time = |step: &Step| !matches!(step, Step::TimeOut { .. });
            let next = steps.iter().copied().find(in_time);
            match next.or(steps.first().copied()) {
                Some(step) => self.take(job, step),
                None => return,
            }
        }
        panic!("no rest after {STEPS_MAX} steps");
    }

    fn assert_all_processed(&self, job: &Job, when: &str) {
        for (edge, it) in job.edges.iter().enumerate() {
            let read: Records = self.tasks[it.to].state.read[job.channel(edge)];
            let expected = job.expected(edge);
            assert_eq!(read, expected, "records of channel {edge} {when}: {read:b}");
        }
    }

    /// An attempt, from what is complete.
    fn start(&mut self, job: &Job) {
        self.first = self.newest.map_or(self.first, CheckpointId::next);
        let complete = self.complete.as_ref();
        let restored = complete.map(|complete| complete.checkpoint);
        let attempt = Attempt::new(self.generation, self.first).restored(restored);
        self.coordinator = Coordinator::new(job.config(), job.plan(), attempt);
        self.deciding = None;
        self.post
            .retain(|message| matches!(message, Message::Report(_)));
        let part = |task| complete.and_then(|complete| complete.parts.get(&task));
        self.tasks = job
            .tasks()
            .map(|task| Task::new(job, task, part(task)))
            .collect();
        for task in job.tasks().map(TaskId) {
            self.coordinate(job, Time::ZERO, Event::Running { task });
        }
        let complete = self.complete.clone();
        for task in complete.into_iter().flat_map(|complete| complete.finished) {
            self.tasks[task.0].finished = true;
            self.tasks[task.0].state.position = job.budget.records;
            self.send(job, task.0, Item::End);
            let last = None;
            self.coordinate(job, Time::ZERO, Event::Finished { task, last });
        }
    }

    fn send(&mut self, job: &Job, from: usize, item: Item) {
        for edge in job.outputs(from) {
            let it = job.edges[edge];
            let lane = &mut self.tasks[it.to].lanes[job.channel(edge)];
            lane.items.push_back(item);
            if let Item::Barrier(barrier) = item
                && barrier.may_overtake()
                && it.input != align::Input::Strict
            {
                lane.notes.push_back(barrier);
            }
        }
    }

    fn spread(&mut self, job: &Job, task: usize, news: Vec<News>) {
        let generation = self.generation;
        for news in news {
            let report = match news {
                News::Send(item) => {
                    self.send(job, task, item);
                    continue;
                }
                News::Acked(part) => Event::acked(generation, part.checkpoint, TaskId(task), part),
                News::GaveUp(checkpoint) => Event::Declined {
                    generation,
                    checkpoint,
                    task: TaskId(task),
                    reason: Decline::Passed,
                },
            };
            self.post.push(Message::Report(report));
        }
    }

    fn deliver(&mut self, job: &Job, message: Message) {
        let (task, event) = match message {
            Message::Report(event) | Message::Finished(event) => {
                return self.coordinate(job, Time::ZERO, event);
            }
            Message::Trigger { task, barrier } => (task, align::Event::Triggered { barrier }),
            Message::Aborted { task, checkpoint } => (task, align::Event::Aborted { checkpoint }),
        };
        if !self.tasks[task].finished {
            let news = self.tasks[task].tell(Time::ZERO, event);
            self.spread(job, task, news);
        }
    }

    fn coordinate(&mut self, job: &Job, now: Time, event: Event<Part>) {
        self.coordinator
            .handle(now, event)
            .expect("the driver reports what happened");
        while let Some(effect) = self.coordinator.poll() {
            self.carry_out(job, effect);
        }
    }

    fn carry_out(&mut self, job: &Job, effect: Effect<Part>) {
        match effect {
            Effect::Trigger { task, barrier } => {
                let checkpoint = barrier.checkpoint;
                assert!(checkpoint >= self.first, "an id is used twice");
                self.newest = self.newest.max(Some(checkpoint));
                let task = task.0;
                self.post.push(Message::Trigger { task, barrier });
            }
            Effect::Decide(decision) => {
                let checkpoint = decision.barrier.checkpoint;
                let parts = decision.reports.into_iter();
                let complete = Complete {
                    checkpoint,
                    parts: parts.map(|it: Report<Part>| (it.task.0, it.part)).collect(),
                    finished: decision.finished,
                };
                let strangers = complete
                    .parts
                    .values()
                    .filter(|it| it.checkpoint != checkpoint);
                assert_eq!(strangers.count(), 0, "parts of one checkpoint");
                assert_eq!(
                    complete.parts.len() + complete.finished.len(),
                    job.tasks().len(),
                    "of all tasks"
                );
                let before = self.deciding.replace(complete);
                assert_eq!(before, None, "one decision at a time");
            }
            Effect::NotifyComplete { checkpoint, .. } => {
                let complete = self.complete.as_ref().map(|complete| complete.checkpoint);
                assert!(complete >= Some(checkpoint), "it is durable");
            }
            Effect::NotifyAborted { checkpoint, .. }
            | Effect::NotifySubsumed { checkpoint, .. } => {
                for task in job.tasks() {
                    self.post.push(Message::Aborted { task, checkpoint });
                }
            }
            Effect::Discard { checkpoint, .. } => {
                let complete = self.complete.as_ref().map(|complete| complete.checkpoint);
                assert_ne!(complete, Some(checkpoint), "what is complete is deleted");
            }
            Effect::Leave { .. } | Effect::Answer { .. } => {}
            Effect::End { .. } | Effect::FailJob(_) => panic!("neither is due: {effect:?}"),
        }
    }
}
