//! One attempt to run the job: tasks, channels, coordinator, committers and the keeper of the log.
//!
//! What runs in one process and ends with it. Messages between coordinator and tasks get lost, come
//! twice and late; what a task has become reaches the coordinator for certain, and in order.

mod coordinate;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cutwater_barrier::{
    CheckpointId, Coordinator, Generation, Then,
    coordinate::{Attempt as Beginning, Decline, Event, RequestId, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::Assignment;
use cutwater_sink_2pc::{Failure, Sink, WriterContext};
use cutwater_storage::StateFiles;

use crate::{
    committing::{Committing, Progress},
    env::Env,
    external::{ExternalSink, ExternalWriter},
    job::Role,
    keeper::{Keep, Keeper, Kept},
    lane::Lane,
    layout::Layout,
    process::{Over, Recovered},
    record::MAX_PARALLELISM,
    restore,
    stepped::{Doing, at_once},
    stored::{self, Part, Stored, uid},
    task::{News, Notice, Surroundings, Task, loop_is_over},
};

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
        let lanes = layout.channels.iter().map(|_| Lane::default());
        let lifecycle = layout.tasks.iter().map(|_| VecDeque::new());
        Self {
            generation: term.generation,
            coordinator: Coordinator::new(env.job.config, layout.plan(&env.job), beginning),
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

    /// Somebody does something.
    pub(crate) fn step(&mut self, env: &mut Env) -> Option<Over> {
        let first = match env.random.below(100) {
            0..50 => 0,
            50..60 => 1,
            60..70 => 2,
            70..75 => 3,
            75..85 => 4,
            85..92 => 5,
            _ => 6,
        };
        let mut turns = (first..7).chain(0..first);
        env.is_idle = !turns.any(|turn| match turn {
            0 => self.some_task_works(env),
            1 => self.some_report_arrives(env),
            2 => self.some_notice_arrives(env),
            3 => self.some_upload_goes_on(env),
            4 => self.keeper_goes_on(env),
            5 => self.some_committer_goes_on(env),
            _ => self.some_news_arrive(env),
        });
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

    pub(crate) fn is_deciding(&self) -> bool {
        !self.keeper.is_idle()
    }

    /// Ends the attempt, unless it has ended.
    fn end(&mut self, over: Over) {
        self.over.get_or_insert(over);
    }

    // Tasks

    /// Makes the tasks, once nothing of older generations can interfere.
    fn open(&mut self, env: &mut Env) -> bool {
        if !self.committers.values().all(Committing::is_ready) {
            return false;
        }
        let beginnings = restore::beginnings(&env.job, &self.layout, self.stored.as_ref());
        let mut finished = Vec::new();
        for (number, beginning) in beginnings.into_iter().enumerate() {
            let task = TaskId(number);
            env.coverage
                .add("records in flight restored", beginning.in_flight.len());
            if beginning.finished {
                finished.push(number);
                let last = None;
                self.lifecycle[number].push_back(Event::Finished { task, last });
                env.coverage.count("tasks restored as finished");
            } else {
                self.lifecycle[number].push_back(Event::Running { task });
            }
            let writer = self.writer(env, number);
            self.tasks
                .push(Task::new(env, &self.layout, number, beginning, writer));
        }
        for number in finished {
            self.with_task(env, number, |task, at| task.send_end(at));
        }
        true
    }

    fn writer(&self, env: &Env, task: usize) -> Option<ExternalWriter> {
        let seat = &self.layout.tasks[task];
        if env.job.operators[seat.operator].role != Role::Sink {
            return None;
        }
        let parallelism = self.layout.parallelism(seat.operator);
        let uid = uid(seat.operator);
        let context = WriterContext::new("sim", uid, seat.subtask, parallelism, self.generation);
        let sink = ExternalSink(env.external.clone());
        Some(at_once(sink.writer(context, Vec::new())).expect("it opens nothing yet"))
    }

    fn some_task_works(&mut self, env: &mut Env) -> bool {
        if self.tasks.is_empty() {
            return self.open(env);
        }
        let count = self.tasks.len();
        let first = env.random.index(count);
        let mut numbers = (first..first + count).map(|number| number % count);
        numbers.any(|number| self.with_task(env, number, Task::work))
    }

    fn some_notice_arrives(&mut self, env: &mut Env) -> bool {
        if self.notices.is_empty() {
            return false;
        }
        let (number, notice) = self
            .notices
            .swap_remove(env.random.index(self.notices.len()));
        if env.random.percent(env.faults.doubled) {
            self.notices.push((number, notice));
            env.coverage.count("messages doubled");
        }
        if env.random.percent(env.faults.lost) {
            env.coverage.count("messages lost");
            return true;
        }
        self.with_task(env, number, |task, at| task.hear(notice, at));
        true
    }

    fn notify_all(&mut self, notice: Notice) {
        let tasks = 0..self.tasks.len();
        self.notices.extend(tasks.map(|number| (number, notice)));
    }

    /// Has a task do something, and passes on what it tells.
    fn with_task<T>(
        &mut self,
        env: &mut Env,
        number: usize,
        act: impl FnOnce(&mut Task, &mut Surroundings<'_>) -> T,
    ) -> T {
        let is_head = env
            .job
            .feedback()
            .is_some_and(|edge| edge.to == self.tasks[number].operator());
        let loop_is_over = is_head
            && self.tasks[number].has_no_more_input()
            && loop_is_over(&env.job, &self.layout, &self.tasks, &self.lanes);
        let mut news = Vec::new();
        let mut at = Surroundings {
            env,
            layout: &self.layout,
            lanes: &mut self.lanes,
            news: &mut news,
            loop_is_over,
        };
        let done = act(&mut self.tasks[number], &mut at);
        for news in news {
            self.pass_on(env, TaskId(number), news);
        }
        done
    }

    fn pass_on(&mut self, env: &mut Env, task: TaskId, news: News) {
        match news {
            News::Taken {
                checkpoint,
                frozen,
                stats,
            } => {
                if env.random.percent(env.faults.declined) {
                    return self.decline(task, checkpoint, Decline::Failed);
                }
                let seat = &self.layout.tasks[task.0];
                let groups = self.layout.assignments[seat.operator].groups(seat.subtask);
                let whose = (seat.operator, seat.subtask);
                let in_flight = frozen
                    .in_flight
                    .iter()
                    .map(|(_, records)| records.len())
                    .sum();
                env.coverage.add("records in flight taken", in_flight);
                let storing = stored::store(self.files.clone(), checkpoint, whose, groups, frozen);
                self.uploads.push(Upload {
                    task,
                    checkpoint,
                    stats,
                    doing: Doing::new(storing),
                });
            }
            News::GaveUp(checkpoint) => self.decline(task, checkpoint, Decline::Passed),
            News::Drained => self.lifecycle[task.0].push_back(Event::Drained { task }),
            News::Finished(last) => {
                self.lifecycle[task.0].push_back(Event::Finished { task, last });
                env.coverage.count("tasks finished early");
            }
            News::Failed { is_fenced: true } => self.end(Over::Fenced),
            News::Failed { is_fenced: false } => self.end(Over::Failed),
        }
    }

    fn decline(&mut self, task: TaskId, checkpoint: CheckpointId, reason: Decline) {
        self.reports.push(Event::Declined {
            generation: self.generation,
            checkpoint,
            task,
            reason,
        });
    }

    /// A task dies. The others go on until the coordinator hears of it.
    pub(crate) fn crash_some_task(&mut self, env: &mut Env) {
        if !self.tasks.is_empty() {
            let task = TaskId(env.random.index(self.tasks.len()));
            env.note(|| format!("t{task} crashes"));
            if !self.tasks[task.0].is_finished() {
                env.coverage.count("tasks crashed");
                self.lifecycle[task.0].push_back(Event::Lost { task });
            }
        }
    }

    // The store and the external system

    fn some_upload_goes_on(&mut self, env: &mut Env) -> bool {
        if self.uploads.is_empty() {
            return false;
        }
        let index = env.random.index(self.uploads.len());
        let Some(done) = self.uploads[index].doing.step() else {
            return true;
        };
        let upload = self.uploads.swap_remove(index);
        let (task, checkpoint) = (upload.task, upload.checkpoint);
        match done {
            Ok(part) => self.reports.push(Event::Acked {
                generation: self.generation,
                checkpoint,
                task,
                part,
                stats: upload.stats,
            }),
            Err(_) => self.decline(task, checkpoint, Decline::Failed),
        }
        true
    }

    fn keeper_goes_on(&mut self, env: &mut Env) -> bool {
        if self.keeper.is_idle() {
            return false;
        }
        let Some(kept) = self.keeper.step() else {
            return true;
        };
        env.note(|| format!("log > {}", brief(&kept)));
        if kept.may_have_decided() {
            env.audit();
        }
        match kept {
            Kept::Completed(checkpoint) => self.tell(env, Event::Decided { checkpoint }),
            Kept::NotCompleted {
                checkpoint,
                reason,
                reports,
            } => self.tell(
                env,
                Event::NotDecided {
                    checkpoint,
                    reason,
                    reports,
                },
            ),
            Kept::Leads(checkpoint, then) => self.completed(env, checkpoint, then),
            Kept::Committed(checkpoint) => {
                self.noted = self.noted.max(Some(checkpoint));
                self.keeper.ask(Keep::Tidy);
            }
            Kept::Discarded | Kept::Tidied => {
                let checkpoints = self.keeper.cleaning();
                self.tell(env, Event::Cleaning { checkpoints });
            }
            Kept::Fenced => self.end(Over::Fenced),
            Kept::Failed => self.end(Over::Failed),
        }
        true
    }

    fn some_committer_goes_on(&mut self, env: &mut Env) -> bool {
        let mut busy = self.committers.values_mut();
        let Some(committer) = busy.find(|committer| committer.is_busy(env.now)) else {
            return false;
        };
        match committer.step(env.now) {
            None => {}
            Some(Progress::AllCommitted) => {
                let all = self.committers.values().map(|one| one.committed).min();
                let all = all.flatten().filter(|all| self.noted < Some(*all));
                if let Some(all) = all {
                    self.keeper.ask(Keep::Committed(all));
                }
            }
            Some(Progress::Released { before }) => self.notify_all(Notice::Released(before)),
            Some(Progress::Failed(Failure::Lost { prepared, .. })) => {
                panic!("the external system has lost {prepared:?}, which a checkpoint names")
            }
            Some(Progress::Failed(Failure::Fenced { .. })) => self.end(Over::Fenced),
            Some(Progress::Failed(_)) => self.end(Over::Failed),
        }
        true
    }
}

fn assignments(stored: &Stored) -> Vec<Assignment> {
    let operators = stored.operators.iter();
    operators
        .map(|operator| Assignment::explicit(&operator.groups, MAX_PARALLELISM))
        .collect::<Result<_, _>>()
        .expect("a checkpoint holds whole assignments")
}

fn brief(kept: &Kept) -> String {
    match kept {
        Kept::NotCompleted {
            checkpoint, reason, ..
        } => format!("NotCompleted {checkpoint} {reason:?}"),
        kept => format!("{kept:?}"),
    }
}
