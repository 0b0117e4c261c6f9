//! One attempt to run the job: tasks, channels, coordinator, committers and the keeper of the log.
//!
//! What runs in one process and ends with it. Messages between coordinator and tasks get lost, come
//! twice and late; what a task has become reaches the coordinator for certain, and in order.

mod coordinate;
mod outside;
mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use cutwater_barrier::{
    CheckpointId, Coordinator, Generation, Then,
    coordinate::{Attempt as Beginning, Event, RequestId, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::Assignment;
use cutwater_storage::StateFiles;

use crate::{
    committing::Committing,
    env::Env,
    job::Role,
    keeper::Keeper,
    lane::Lane,
    layout::Layout,
    process::{Over, Recovered},
    record::MAX_PARALLELISM,
    stepped::Doing,
    stored::{Part, Stored},
    task::{Notice, Task},
};

/// What checkpoints get in attempts that begin after the last fault.
const TIMEOUT_HEALED: Duration = Duration::from_secs(2);

/// Somebody does one thing; whether there was one to do.
type Turn = fn(&mut Attempt, &mut Env) -> bool;

/// Whose turn it may be, and how often of a hundred; whoever has nothing to do is passed over.
const TURNS: [(u64, Turn); 7] = [
    (50, Attempt::some_task_works),
    (10, Attempt::some_report_arrives),
    (10, Attempt::some_notice_arrives),
    (5, Attempt::some_upload_goes_on),
    (10, Attempt::keeper_goes_on),
    (7, Attempt::some_committer_goes_on),
    (8, Attempt::some_news_arrive),
];

#[derive(Debug)]
pub(crate) struct Attempt {
    generation: Generation,
    layout: Layout,
    stored: Option<Stored>,
    coordinator: Coordinator<Part>,
    keeper: Keeper,
    files: StateFiles,
    /// One for each sink, by operator.
    committers: BTreeMap<usize, Committing>,
    /// None until the committers have recovered.
    tasks: Vec<Task>,
    lanes: Vec<Lane>,
    uploads: Vec<Upload>,
    /// To the coordinator, in any order, if at all.
    reports: Vec<Event<Part>>,
    /// To tasks, in any order, if at all.
    notices: Vec<(usize, Notice)>,
    /// To the coordinator: for each task in order, and certain to arrive.
    lifecycle: Vec<VecDeque<Event<Part>>>,
    requests: u64,
    open_requests: Vec<RequestId>,
    triggered: BTreeSet<CheckpointId>,
    /// The newest checkpoint that the log says, or was asked to say, is committed.
    noted: Option<CheckpointId>,
    /// The last checkpoint, once all may hear of it.
    ending: Option<(CheckpointId, Then)>,
    /// The coordinator has told the end.
    has_ended: bool,
    over: Option<Over>,
}

/// A part on its way to the store.
#[derive(Debug)]
struct Upload {
    task: TaskId,
    checkpoint: CheckpointId,
    stats: TaskStats,
    doing: Doing<cutwater_storage::Result<Part>>,
}

impl Attempt {
    pub(crate) fn new(env: &mut Env, recovered: Recovered) -> Self {
        let Recovered {
            store,
            term,
            stored,
        } = recovered;
        let assignments = stored.as_ref().map(assignments);
        let layout = Layout::draw(&env.job, &mut env.random, assignments.as_deref());
        if assignments.is_some_and(|old| old != layout.assignments) {
            env.coverage.count("rescales");
        }
        env.note(|| layout.to_string());
        let mut config = env.job.config;
        if !env.is_faulty() {
            // A timeout too short for the job's size would fail every stop, for good.
            config.timeout = config.timeout.max(TIMEOUT_HEALED);
        }
        let checkpoint = stored.as_ref().map(|stored| stored.checkpoint);
        let mut committers = BTreeMap::new();
        for (number, operator) in env.job.operators.iter().enumerate() {
            if operator.role == Role::Sink {
                let restored = stored.as_ref().map(|stored| {
                    let prepared = stored.operators[number].prepared.clone();
                    (stored.checkpoint, prepared)
                });
                let generation = term.generation;
                let committing = Committing::new(&env.external, number, generation, restored);
                committers.insert(number, committing);
            }
        }
        let beginning = Beginning::new(term.generation, term.first).restored(checkpoint);
        let lanes = layout.channels.iter().map(|_| Lane::new(env.is_watched));
        let lifecycle = layout.tasks.iter().map(|_| VecDeque::new());
        Self {
            generation: term.generation,
            coordinator: Coordinator::new(config, layout.plan(&env.job), beginning),
            files: store.files().expect("it has taken over"),
            keeper: Keeper::new(store),
            committers,
            tasks: Vec::new(),
            lanes: lanes.collect(),
            uploads: Vec::new(),
            reports: Vec::new(),
            notices: Vec::new(),
            lifecycle: lifecycle.collect(),
            layout,
            stored,
            requests: 0,
            open_requests: Vec::new(),
            triggered: BTreeSet::new(),
            noted: None,
            ending: None,
            has_ended: false,
            over: None,
        }
    }

    /// Somebody does something, if anybody can.
    pub(crate) fn step(&mut self, env: &mut Env) -> Option<Over> {
        let mut rest = env.random.below(100);
        let first = TURNS.iter().position(|(often, _)| {
            let is_it = rest < *often;
            rest = rest.saturating_sub(*often);
            is_it
        });
        let (before, from) = TURNS.split_at(first.expect("they add up to 100"));
        let mut turns = from.iter().chain(before);
        env.is_idle = !turns.any(|(_, turn)| turn(self, env));
        if self.coordinator.deadline().is_some_and(|at| at <= env.now) {
            self.tell(env, Event::Woke);
        }
        let is_noted = self
            .ending
            .is_some_and(|(last, _)| self.noted >= Some(last));
        if let Some((_, then)) = self.ending
            && is_noted
            && self.has_ended
            && self.tasks.iter().all(Task::is_finished)
        {
            self.over.get_or_insert(Over::Ended(then));
        }
        self.over
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn is_deciding(&self) -> bool {
        !self.keeper.is_idle()
    }

    /// Ends the attempt, unless it has ended.
    fn end(&mut self, over: Over) {
        self.over.get_or_insert(over);
    }
}

fn assignments(stored: &Stored) -> Vec<Assignment> {
    let operators = stored.operators.iter();
    operators
        .map(|operator| Assignment::explicit(&operator.groups, MAX_PARALLELISM))
        .collect::<Result<_, _>>()
        .expect("a checkpoint holds whole assignments")
}
