//! The driver of the [`Coordinator`](cutwater_barrier::Coordinator): what reaches it, and what it wants.

use std::collections::BTreeMap;

use cutwater_barrier::{
    CheckpointId, Kind, Then,
    coordinate::{Abort, Decision, Decline, Effect, Event, JobFailure, Request, RequestId, TaskId},
};
use cutwater_sink_2pc as sink;

use super::Attempt;
use crate::{
    env::Env,
    keeper::Keep,
    process::Over,
    stored::{self, Part},
    task::Notice,
    trace,
};

impl Attempt {
    pub(super) fn some_report_arrives(&mut self, env: &mut Env) -> bool {
        if self.reports.is_empty() {
            return false;
        }
        let index = env.random.index(self.reports.len());
        let report = self.reports.swap_remove(index);
        if env.random.percent(env.faults.doubled) {
            self.reports.push(report.clone());
            env.coverage.count("messages doubled");
        }
        if env.random.percent(env.faults.lost) {
            env.coverage.count("messages lost");
            return true;
        }
        // Also of a report that is late for its checkpoint: whatever was prepared has to be ended.
        if let Event::Acked { task, part, .. } = &report
            && let Some(committer) = self.committers.get_mut(&self.layout.tasks[task.0].operator)
        {
            committer.handle(env.now, sink::Event::Prepared(part.prepared.clone()));
        }
        self.tell(env, report);
        true
    }

    pub(super) fn some_news_arrive(&mut self, env: &mut Env) -> bool {
        let count = self.lifecycle.len();
        let first = env.random.index(count);
        let mut tasks = (first..first + count).map(|task| task % count);
        let Some(news) = tasks.find_map(|task| self.lifecycle[task].pop_front()) else {
            return false;
        };
        self.tell(env, news);
        true
    }

    /// Somebody asks for a checkpoint.
    pub(crate) fn request(&mut self, env: &mut Env, kind: Kind, then: Then) {
        self.requests += 1;
        let id = RequestId(self.requests);
        let request = match kind {
            Kind::Checkpoint => Request::checkpoint(id),
            Kind::Savepoint => Request::savepoint(id),
        };
        self.open_requests.push(id);
        env.note(|| format!("somebody requests a {kind:?}, then {then:?}"));
        self.tell(env, Event::Requested(request.then(then)));
    }

    pub(super) fn tell(&mut self, env: &mut Env, event: Event<Part>) {
        env.note(|| format!("co  < {}", trace::news(&event)));
        self.coordinator
            .handle(env.now, event)
            .unwrap_or_else(|error| panic!("the coordinator is driven wrongly: {error}"));
        while let Some(effect) = self.coordinator.poll() {
            self.carry_out(env, effect);
        }
    }

    fn carry_out(&mut self, env: &mut Env, effect: Effect<Part>) {
        match effect {
            Effect::Trigger { task, barrier } => {
                let checkpoint = barrier.checkpoint;
                // An older one is triggered again where everything upstream has finished meanwhile.
                if self.triggered.insert(checkpoint) {
                    assert_eq!(self.triggered.last(), Some(&checkpoint), "ids increase");
                    env.coverage.count("checkpoints triggered");
                    let most = env.job.config.concurrent_max + self.open_requests.len() + 1;
                    let pending = self.coordinator.pending().count();
                    assert!(pending <= most, "{pending} checkpoints are in progress");
                }
                env.note(|| format!("co  > trigger t{task} {}", trace::barrier(&barrier)));
                self.notices.push((task.0, Notice::Trigger(barrier)));
            }
            Effect::Decide(decision) => self.decide(env, decision),
            Effect::NotifyComplete {
                checkpoint, then, ..
            } => self.keeper.ask(Keep::Lead(checkpoint, then)),
            Effect::NotifyAborted {
                checkpoint, reason, ..
            } => {
                env.note(|| format!("co  > abort c{checkpoint}: {reason}"));
                env.coverage.count(name(reason));
                self.not_completed(env, checkpoint);
            }
            Effect::NotifySubsumed { checkpoint, .. } => {
                env.coverage.count("aborted: subsumed");
                self.not_completed(env, checkpoint);
            }
            Effect::Discard { checkpoint, .. } => {
                self.keeper.ask(Keep::Discard(checkpoint));
            }
            // Whatever it refers to is needed, or found as an orphan.
            Effect::Leave { .. } => {}
            Effect::Answer { request, .. } => {
                let open = self.open_requests.iter().position(|open| *open == request);
                self.open_requests.swap_remove(open.expect("answered once"));
            }
            Effect::End { .. } => {
                assert_eq!(self.open_requests, [], "all requests are answered");
                self.has_ended = true;
            }
            Effect::FailJob(failure) => {
                env.note(|| format!("co  > fail: {failure}"));
                env.coverage.count(match failure {
                    JobFailure::Fenced => "failed: fenced",
                    JobFailure::StopFailed { .. } => "failed: stop failed",
                    JobFailure::TaskLost { .. } => "failed: task lost",
                    JobFailure::TooManyFailures { .. } => "failed: too many failures",
                    JobFailure::Undecided { .. } => "failed: undecided",
                    _ => "failed: otherwise",
                });
                self.end(match failure {
                    JobFailure::Fenced => Over::Fenced,
                    _ => Over::Failed,
                });
            }
        }
    }

    /// All parts are stored: name what the sinks must be able to commit, and have it made durable.
    fn decide(&mut self, env: &mut Env, mut decision: Decision<Part>) {
        let checkpoint = decision.barrier.checkpoint;
        let tasks = decision.reports.len() + decision.finished.len();
        assert_eq!(
            tasks,
            self.layout.tasks.len(),
            "each task has a part or has finished"
        );
        let sealed: BTreeMap<_, _> = self
            .committers
            .iter_mut()
            .map(|(&operator, committer)| (operator, committer.seal(checkpoint)))
            .collect();
        let metadata = stored::metadata(&env.job, &self.layout, &decision, &sealed);
        self.keeper.ask(Keep::Complete {
            metadata: Box::new(metadata),
            reports: std::mem::take(&mut decision.reports),
        });
    }

    /// The checkpoint is complete, and this process still leads: all may hear of it.
    pub(super) fn completed(&mut self, env: &mut Env, checkpoint: CheckpointId, then: Then) {
        for committer in self.committers.values_mut() {
            committer.handle(env.now, sink::Event::Completed(checkpoint));
        }
        self.notify_all(Notice::Completed(checkpoint));
        if self.committers.is_empty() {
            self.keeper.ask(Keep::Committed(checkpoint));
        }
        if then.is_stop() {
            self.ending = Some((checkpoint, then));
            for number in 0..self.tasks.len() {
                self.tasks[number].check_bookkeeping();
                if let Some(last) = self.tasks[number].stop() {
                    let task = TaskId(number);
                    self.lifecycle[number].push_back(Event::Finished { task, last });
                }
            }
        }
    }

    fn not_completed(&mut self, env: &mut Env, checkpoint: CheckpointId) {
        for committer in self.committers.values_mut() {
            committer.handle(env.now, sink::Event::NotCompleted(checkpoint));
        }
        self.notify_all(Notice::Aborted(checkpoint));
    }
}

fn name(reason: Abort) -> &'static str {
    match reason {
        Abort::Declined {
            reason: Decline::Failed,
            ..
        } => "aborted: a task failed to take its part",
        Abort::Declined { .. } => "aborted: a task passed",
        Abort::Expired => "aborted: expired",
        Abort::Halted => "aborted: the attempt ended",
        Abort::NotDurable(_) => "aborted: not durable",
        Abort::PartlyFinished { .. } => "aborted: partly finished",
        _ => "aborted: otherwise",
    }
}
