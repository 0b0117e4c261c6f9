//! The machine itself: from events to triggers, decisions and notices.
//!
//! Each event is handled in three steps: what has expired by now, what the event changes, what can
//! be decided or triggered next.
//!
//! Invariants: ids strictly increase; at most one decision is under way; every report comes out again
//! once, in a [`Decision`](super::Decision), [`Discard`](Effect::Discard) or [`Leave`](Effect::Leave);
//! every request is answered once; [`FailJob`](Effect::FailJob) comes once at most.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec,
    vec::Vec,
};

use super::{
    Abort, Attempt, Config, CoordinateError, Decline, Effect, Event, JobFailure, NotDurable, Plan,
    Refusal, Report, Request, TaskId,
    failures::Failures,
    pending::{Ack, Origin, Pending},
    requests::Requests,
    schedule::Schedule,
};
use crate::{Barrier, CheckpointId, Generation, Kind, Then, Time, stats::TaskStats};

/// How many checkpoints that came to nothing are remembered, so that what late acknowledgements
/// bring for them is deleted. Beyond it is left to the store's search for orphans.
const DEAD_MAX: usize = 64;

/// Decides when an attempt of a job checkpoints, and when a checkpoint counts.
///
/// One coordinator serves one attempt (one [`Generation`]); the next attempt gets a new one, so that
/// nothing of the old one can count by mistake (case B15).
#[derive(Debug)]
pub struct Coordinator<R> {
    config: Config,
    plan: Plan,
    generation: Generation,
    next: CheckpointId,
    latest: Option<CheckpointId>,
    tasks: Vec<Task>,
    phase: Phase,
    pending: BTreeMap<CheckpointId, Pending<R>>,
    requests: Requests,
    schedule: Schedule,
    failures: Failures,
    cleaning: usize,
    dead: VecDeque<CheckpointId>,
    effects: VecDeque<Effect<R>>,
}

impl<R> Coordinator<R> {
    /// A coordinator for one attempt. Nothing is triggered until all tasks of `plan` run.
    pub fn new(config: Config, plan: Plan, attempt: Attempt) -> Self {
        Self {
            tasks: vec![Task::Created; plan.tasks().count()],
            plan,
            generation: attempt.generation,
            next: attempt.first,
            latest: attempt.restored,
            phase: Phase::Active { final_at: None },
            pending: BTreeMap::new(),
            requests: Requests::new(config.requests_max),
            schedule: Schedule::new(config),
            failures: Failures::new(config.tolerable_failures),
            cleaning: 0,
            dead: VecDeque::new(),
            effects: VecDeque::new(),
            config,
        }
    }

    /// Tells the machine what happened at `now`. Then [`poll`](Self::poll) until `None`.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before it. Apart from what has expired by `now`, the
    /// machine is unchanged.
    pub fn handle(&mut self, now: Time, event: Event<R>) -> Result<(), CoordinateError> {
        self.expire(now);
        self.apply(now, event)?;
        self.decide();
        self.trigger_due(now);
        Ok(())
    }

    /// The next effect. Carry effects out in this order.
    pub fn poll(&mut self) -> Option<Effect<R>> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let expiry = self.pending.values().filter_map(Pending::deadline).min();
        expiry.into_iter().chain(self.trigger_at()).min()
    }

    /// The attempt that this coordinator serves.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The newest completed checkpoint or savepoint, at first the restored one.
    pub fn latest(&self) -> Option<CheckpointId> {
        self.latest
    }

    /// The first id that was not used. A next attempt starts here or above.
    pub fn next(&self) -> CheckpointId {
        self.next
    }

    /// Checkpoints in progress, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &Barrier> {
        self.pending.values().map(|pending| &pending.barrier)
    }

    fn apply(&mut self, now: Time, event: Event<R>) -> Result<(), CoordinateError> {
        match event {
            Event::Running { task } => self.enter(task, Task::Running)?,
            Event::Drained { task } => self.enter(task, Task::Drained)?,
            Event::Finished { task, last } => {
                self.enter(task, Task::Finished)?;
                self.finished(now, task, last);
            }
            Event::Lost { task } => {
                self.check_known(task)?;
                self.halt(now, Some(JobFailure::TaskLost { task }));
            }
            Event::Requested(request) => self.requested(request),
            Event::Acked {
                generation,
                checkpoint,
                task,
                report,
                stats,
            } => {
                let report = Report { task, report };
                self.acked(now, generation, checkpoint, report, stats);
            }
            Event::Declined {
                generation,
                checkpoint,
                task,
                reason,
            } => {
                let collecting = self.pending.get(&checkpoint);
                if generation == self.generation
                    && collecting.is_some_and(|pending| !pending.deciding)
                {
                    self.abort(now, checkpoint, Abort::Declined { task, reason });
                }
            }
            Event::Decided { checkpoint } => {
                self.check_deciding(checkpoint)?;
                self.complete(now, checkpoint);
            }
            Event::NotDecided {
                checkpoint,
                reason,
                reports,
            } => {
                self.check_deciding(checkpoint)?;
                self.not_decided(now, checkpoint, reason, reports);
            }
            Event::Cleaning { checkpoints } => self.cleaning = checkpoints,
            Event::Stop => self.halt(now, None),
            Event::Woke => {}
        }
        if self.first_not_running().is_none() {
            self.schedule.start(now);
        }
        Ok(())
    }

    // Tasks

    fn enter(&mut self, task: TaskId, state: Task) -> Result<(), CoordinateError> {
        self.check_known(task)?;
        match self.tasks[task.0] {
            Task::Finished => return Err(CoordinateError::AfterFinish { task }),
            Task::Drained if state == Task::Running => {} // a late message
            Task::Created | Task::Running | Task::Drained => self.tasks[task.0] = state,
        }
        Ok(())
    }

    /// Checkpoints under way no longer wait for the task if it finished before their barrier; the
    /// barrier that it would have forwarded is then injected below it (F033).
    fn finished(&mut self, now: Time, task: TaskId, last: Option<CheckpointId>) {
        let mut partly = Vec::new();
        for pending in self
            .pending
            .values_mut()
            .filter(|pending| !pending.deciding)
        {
            pending.finish(task, last);
            match self.plan.partly_finished(|task| pending.has_finished(task)) {
                Some(task) => partly.push((pending.checkpoint(), task)),
                None => {
                    let barrier = pending.barrier;
                    let triggers = pending.take_triggers(&self.plan).into_iter();
                    self.effects
                        .extend(triggers.map(|task| Effect::Trigger { task, barrier }));
                }
            }
        }
        for (checkpoint, task) in partly {
            self.abort(now, checkpoint, Abort::PartlyFinished { task });
        }
    }

    fn first_not_running(&self) -> Option<TaskId> {
        self.tasks
            .iter()
            .position(|task| *task == Task::Created)
            .map(TaskId)
    }

    fn all_input_ended(&self) -> bool {
        self.tasks
            .iter()
            .all(|task| matches!(task, Task::Drained | Task::Finished))
    }

    // Trigger

    fn requested(&mut self, request: Request) {
        let refusal = match (self.phase, self.first_not_running()) {
            (Phase::Halted, _) => Some(Refusal::Halted),
            (Phase::Ending | Phase::Ended, _) => Some(Refusal::Ending),
            (Phase::Active { .. }, Some(task)) => Some(Refusal::NotRunning { task }),
            (Phase::Active { .. }, None) => None,
        };
        match refusal {
            Some(refusal) => self.refuse(request, refusal),
            None => {
                if let Some(dropped) = self.requests.push(request) {
                    self.refuse(dropped, Refusal::TooManyRequests);
                }
            }
        }
    }

    fn trigger_due(&mut self, now: Time) {
        while self.trigger_at().is_some_and(|at| at <= now) {
            if self.all_input_ended() {
                self.trigger(now, Origin::Final, Kind::Checkpoint, Then::Drain);
            } else if let Some(Request { id, kind, then }) = self.pop_request() {
                self.trigger(now, Origin::Request(id), kind, then);
            } else {
                self.schedule.triggered(now);
                self.trigger(now, Origin::Periodic, Kind::Checkpoint, Then::Continue);
            }
        }
    }

    /// When the next checkpoint is due, as far as it waits for the time only. `Time::ZERO`: at once.
    fn trigger_at(&self) -> Option<Time> {
        let Phase::Active { final_at } = self.phase else {
            return None;
        };
        if self.first_not_running().is_some() {
            return None;
        }
        if self.all_input_ended() {
            return Some(final_at.unwrap_or(Time::ZERO));
        }
        if self.cleaning > self.config.cleaning_max {
            return None;
        }
        if self.may_pop_request() {
            return Some(Time::ZERO);
        }
        self.has_room().then(|| self.schedule.due()).flatten()
    }

    fn has_room(&self) -> bool {
        self.pending.len() < self.config.concurrent_max.max(1)
    }

    fn may_pop_request(&self) -> bool {
        self.requests
            .first()
            .is_some_and(|first| first.is_exempt() || self.has_room())
    }

    fn pop_request(&mut self) -> Option<Request> {
        if self.may_pop_request() {
            self.requests.pop()
        } else {
            None
        }
    }

    fn trigger(&mut self, now: Time, origin: Origin, kind: Kind, then: Then) {
        let tasks = &self.tasks;
        let finished = |task: TaskId| tasks[task.0] == Task::Finished;
        if let Some(task) = self.plan.partly_finished(finished) {
            if let Origin::Request(request) = origin {
                let outcome = Err(Refusal::PartlyFinished { task });
                self.effects.push_back(Effect::Answer { request, outcome });
            }
            return;
        }
        let barrier = Barrier {
            kind,
            ..Barrier::checkpoint(self.next, now).then(then)
        };
        self.next = self.next.next();
        let deadline = now + self.config.timeout;
        let mut pending = Pending::new(barrier, origin, deadline, self.plan.tasks(), finished);
        let triggers = pending.take_triggers(&self.plan).into_iter();
        self.effects
            .extend(triggers.map(|task| Effect::Trigger { task, barrier }));
        self.pending.insert(barrier.checkpoint, pending);
        if then.is_stop() {
            self.phase = Phase::Ending;
            for request in self.requests.drain() {
                self.refuse(request, Refusal::Ending);
            }
        }
        self.decide(); // of a plan that has finished altogether
    }

    // Completion

    fn acked(
        &mut self,
        now: Time,
        generation: Generation,
        checkpoint: CheckpointId,
        report: Report<R>,
        stats: TaskStats,
    ) {
        if generation != self.generation {
            return self.leave(checkpoint, report);
        }
        let Some(pending) = self.pending.get_mut(&checkpoint) else {
            return if self.is_dead(checkpoint) {
                self.discard(checkpoint, report);
            } else {
                self.leave(checkpoint, report);
            };
        };
        match pending.ack(now, report, stats) {
            Ack::Accepted => {}
            Ack::Double(report) => self.leave(checkpoint, report),
            Ack::Foreign(report) => self.discard(checkpoint, report),
        }
    }

    /// One decision at a time, oldest first: the log has an order (F007).
    fn decide(&mut self) {
        if self.pending.values().any(|pending| pending.deciding) {
            return;
        }
        if let Some(pending) = self.pending.values_mut().find(|pending| pending.is_ready()) {
            let decision = pending.decide(self.generation);
            self.effects.push_back(Effect::Decide(decision));
        }
    }

    fn complete(&mut self, now: Time, checkpoint: CheckpointId) {
        let Some(Pending {
            barrier, origin, ..
        }) = self.pending.remove(&checkpoint)
        else {
            return;
        };
        self.latest = self.latest.max(Some(checkpoint));
        self.schedule.ended(now);
        self.failures.succeeded();
        self.effects.push_back(Effect::NotifyComplete {
            checkpoint,
            kind: barrier.kind,
            then: barrier.then,
        });
        let subsumed: Vec<_> = self
            .pending
            .extract_if(.., |_, pending| pending.is_subsumed(&barrier))
            .collect();
        for (older, pending) in subsumed {
            self.effects.push_back(Effect::NotifySubsumed {
                checkpoint: older,
                by: checkpoint,
            });
            self.bury(pending, Refusal::Subsumed);
        }
        if let Origin::Request(request) = origin {
            let outcome = Ok(checkpoint);
            self.effects.push_back(Effect::Answer { request, outcome });
        }
        if barrier.then.is_stop() && self.phase == Phase::Ending {
            self.phase = Phase::Ended;
            self.effects.push_back(Effect::End { checkpoint });
        }
    }

    fn not_decided(
        &mut self,
        now: Time,
        checkpoint: CheckpointId,
        reason: NotDurable,
        reports: Vec<Report<R>>,
    ) {
        for report in reports {
            match reason {
                NotDurable::Failed => self.discard(checkpoint, report),
                NotDurable::Unknown | NotDurable::Fenced => self.leave(checkpoint, report),
            }
        }
        self.abort(now, checkpoint, Abort::NotDurable(reason));
    }

    // Failure

    fn expire(&mut self, now: Time) {
        let expired = |pending: &&Pending<R>| pending.deadline().is_some_and(|at| at <= now);
        let expired: Vec<_> = self
            .pending
            .values()
            .filter(expired)
            .map(Pending::checkpoint)
            .collect();
        for checkpoint in expired {
            self.abort(now, checkpoint, Abort::Expired);
        }
    }

    fn abort(&mut self, now: Time, checkpoint: CheckpointId, reason: Abort) {
        let Some(pending) = self.pending.remove(&checkpoint) else {
            return;
        };
        let Barrier { kind, then, .. } = pending.barrier;
        let origin = pending.origin;
        self.schedule.ended(now);
        self.effects.push_back(Effect::NotifyAborted {
            checkpoint,
            reason,
            latest: self.latest,
        });
        self.bury(pending, Refusal::Aborted(reason));

        let counts = match reason {
            Abort::Declined { reason, .. } => reason == Decline::Failed,
            Abort::Expired | Abort::NotDurable(NotDurable::Failed) => true,
            Abort::Halted | Abort::NotDurable(_) | Abort::PartlyFinished { .. } => false,
        };
        let failure = match (reason, origin) {
            (Abort::NotDurable(NotDurable::Unknown), _) => {
                Some(JobFailure::Undecided { checkpoint })
            }
            (Abort::NotDurable(NotDurable::Fenced), _) => Some(JobFailure::Fenced),
            (_, Origin::Request(_)) if then.is_stop() => {
                Some(JobFailure::StopFailed { checkpoint })
            }
            _ if counts && kind == Kind::Checkpoint && self.failures.failed() => {
                Some(JobFailure::TooManyFailures { checkpoint })
            }
            _ => None,
        };
        if failure.is_some() {
            self.halt(now, failure);
        } else if origin == Origin::Final && self.phase == Phase::Ending {
            let final_at = Some(self.schedule.retry_at(now));
            self.phase = Phase::Active { final_at };
        }
    }

    /// Ends the attempt. A decision under way is out of our hands: its outcome is still told.
    fn halt(&mut self, now: Time, failure: Option<JobFailure>) {
        if self.phase == Phase::Halted {
            return;
        }
        self.phase = Phase::Halted;
        let collecting: Vec<_> = self
            .pending
            .extract_if(.., |_, pending| !pending.deciding)
            .collect();
        for (checkpoint, pending) in collecting {
            self.effects.push_back(Effect::NotifyAborted {
                checkpoint,
                reason: Abort::Halted,
                latest: self.latest,
            });
            self.bury(pending, Refusal::Aborted(Abort::Halted));
        }
        for request in self.requests.drain() {
            self.refuse(request, Refusal::Halted);
        }
        self.effects.extend(failure.map(Effect::FailJob));
        self.schedule.ended(now);
    }

    /// Deletes what came in for a checkpoint that comes to nothing, and says so to who asked for it.
    fn bury(&mut self, pending: Pending<R>, refusal: Refusal) {
        let checkpoint = pending.checkpoint();
        self.dead.push_back(checkpoint);
        if self.dead.len() > DEAD_MAX {
            self.dead.pop_front();
        }
        if let Origin::Request(request) = pending.origin {
            let outcome = Err(refusal);
            self.effects.push_back(Effect::Answer { request, outcome });
        }
        for report in pending.into_reports() {
            self.discard(checkpoint, report);
        }
    }

    fn is_dead(&self, checkpoint: CheckpointId) -> bool {
        self.dead.contains(&checkpoint) || checkpoint >= self.next
    }

    fn refuse(&mut self, request: Request, refusal: Refusal) {
        self.effects.push_back(Effect::Answer {
            request: request.id,
            outcome: Err(refusal),
        });
    }

    fn discard(&mut self, checkpoint: CheckpointId, report: Report<R>) {
        self.effects
            .push_back(Effect::Discard { checkpoint, report });
    }

    fn leave(&mut self, checkpoint: CheckpointId, report: Report<R>) {
        self.effects.push_back(Effect::Leave { checkpoint, report });
    }

    fn check_known(&self, task: TaskId) -> Result<(), CoordinateError> {
        if self.plan.contains(task) {
            Ok(())
        } else {
            Err(CoordinateError::UnknownTask { task })
        }
    }

    fn check_deciding(&self, checkpoint: CheckpointId) -> Result<(), CoordinateError> {
        match self.pending.get(&checkpoint) {
            Some(pending) if pending.deciding => Ok(()),
            Some(_) | None => Err(CoordinateError::NotDeciding { checkpoint }),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Task {
    Created,
    Running,
    /// Running, with all its input processed.
    Drained,
    Finished,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Active {
        /// When to try the final checkpoint again. `None`: it has not been tried.
        final_at: Option<Time>,
    },
    /// The checkpoint that ends the job is in progress.
    Ending,
    Ended,
    /// This attempt is over.
    Halted,
}
