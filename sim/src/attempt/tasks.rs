//! The tasks of an attempt: made once it is safe, stepped, told, and heard.

use cutwater_barrier::CheckpointId;
use cutwater_barrier::coordinate::{Decline, Event, TaskId};
use cutwater_sink_2pc::{Sink, WriterContext};

use super::{Attempt, Upload};
use crate::{
    committing::Committing,
    env::Env,
    external::{ExternalSink, ExternalWriter},
    job::Role,
    process::Over,
    restore,
    stepped::{Doing, at_once},
    stored::{self, uid},
    task::{News, Notice, Surroundings, Task, loop_is_over},
};

impl Attempt {
    /// Makes the tasks, once nothing of older generations can interfere.
    pub(super) fn open(&mut self, env: &mut Env) -> bool {
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

    pub(super) fn some_task_works(&mut self, env: &mut Env) -> bool {
        if self.tasks.is_empty() {
            return self.open(env);
        }
        let count = self.tasks.len();
        let first = env.random.index(count);
        let mut numbers = (first..first + count).map(|number| number % count);
        numbers.any(|number| self.with_task(env, number, Task::work))
    }

    pub(super) fn some_notice_arrives(&mut self, env: &mut Env) -> bool {
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

    pub(super) fn notify_all(&mut self, notice: Notice) {
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
                let storing = stored::store(self.files.clone(), checkpoint, whose, groups, *frozen);
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

    pub(super) fn decline(&mut self, task: TaskId, checkpoint: CheckpointId, reason: Decline) {
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
}
