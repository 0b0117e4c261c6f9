//! The machine itself: what it remembers, and what each event changes.
//!
//! Each event is handled in three steps: what has expired by now ([`end`](super::end)), what the event
//! changes (here), what can be decided or triggered next ([`begin`](super::begin)).
//!
//! Invariants: ids strictly increase; at most one decision is under way; every report comes out again
//! once, in a [`Decision`](super::Decision), [`Discard`](Effect::Discard) or [`Leave`](Effect::Leave);
//! every request is answered once; [`FailJob`](Effect::FailJob) comes once at most.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use super::{
    Abort, Attempt, Config, CoordinateError, Effect, Event, JobFailure, Plan, Report,
    end::Dead,
    failures::Failures,
    pending::{Ack, Pending},
    requests::Requests,
    schedule::Schedule,
    tasks::{State, Tasks},
};
use crate::{Barrier, CheckpointId, Generation, Time, stats::TaskStats};

/// Decides when an attempt of a job checkpoints, and when a checkpoint counts.
///
/// One coordinator serves one attempt (one [`Generation`]); the next attempt gets a new one, so that
/// nothing of the old one can count by mistake (case B15).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Coordinator<R> {
    pub(super) config: Config,
    pub(super) generation: Generation,
    pub(super) phase: Phase,
    pub(super) tasks: Tasks,
    /// The first id that was not used.
    pub(super) next: CheckpointId,
    pub(super) pending: BTreeMap<CheckpointId, Pending<R>>,
    pub(super) latest: Option<CheckpointId>,
    pub(super) dead: Dead,
    pub(super) requests: Requests,
    pub(super) schedule: Schedule,
    pub(super) failures: Failures,
    /// Whether a checkpoint that was not aligned expired since the last one that completed.
    pub(super) has_expired: bool,
    /// Checkpoints that the driver has not deleted yet.
    pub(super) cleaning: usize,
    pub(super) effects: VecDeque<Effect<R>>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    Active {
        /// When to try the final checkpoint again. `None`: it has not failed.
        retry_at: Option<Time>,
    },
    /// The checkpoint that ends the job is in progress.
    Ending,
    /// The checkpoint that ends the job is complete, savepoints before it may still be in progress.
    Closing { last: CheckpointId },
    /// The job's end was told.
    Ended,
    /// The attempt is over.
    Halted {
        /// Whether what it left unfinished is still its to delete: not if another generation has
        /// taken over, and not if a decision may or may not be durable.
        owner: bool,
    },
}

impl<R> Coordinator<R> {
    /// A coordinator for one attempt. Nothing is triggered until all tasks of `plan` run.
    pub fn new(config: Config, plan: Plan, attempt: Attempt) -> Self {
        Self {
            config,
            generation: attempt.generation,
            phase: Phase::Active { retry_at: None },
            tasks: Tasks::new(plan),
            next: attempt.first,
            pending: BTreeMap::new(),
            latest: attempt.restored,
            dead: Dead::default(),
            requests: Requests::new(config.requests_max),
            schedule: Schedule::new(config),
            failures: Failures::new(config.tolerable_failures),
            has_expired: false,
            cleaning: 0,
            effects: VecDeque::new(),
        }
    }

    /// Tells the machine what happened at `now`. Then [`poll`](Self::poll) until `None`.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before it. It has changed nothing then, apart from what
    /// had expired by `now` anyway.
    pub fn handle(&mut self, now: Time, event: Event<R>) -> Result<(), CoordinateError> {
        self.expire(now);
        self.apply(now, event)?;
        self.decide();
        self.trigger_due(now);
        self.close();
        Ok(())
    }

    /// The next effect. Carry effects out in this order.
    pub fn poll(&mut self) -> Option<Effect<R>> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let expiries = self.pending.values().filter_map(Pending::deadline);
        expiries.chain(self.trigger_at()).min()
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
            Event::Running { task } => self.tasks.enter(task, State::Running)?,
            Event::Drained { task } => self.tasks.enter(task, State::Drained)?,
            Event::Finished { task, last } => {
                self.tasks.enter(task, State::Finished)?;
                self.go_on_without(now, |pending| pending.finish(task, last));
            }
            Event::Lost { task } => {
                self.tasks.check(task)?;
                self.halt(now, Some(JobFailure::TaskLost { task }));
            }
            Event::Requested(request) => self.request(request),
            Event::Acked {
                generation,
                checkpoint,
                task,
                part,
                stats,
            } => {
                let report = Report { task, part };
                self.acked(now, generation, checkpoint, report, stats);
            }
            Event::Declined {
                generation,
                checkpoint,
                task,
                reason,
            } => {
                let declinable = |pending: &Pending<R>| !pending.deciding && pending.involves(task);
                if generation == self.generation
                    && self.pending.get(&checkpoint).is_some_and(declinable)
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
        if self.tasks.first_created().is_none() {
            self.schedule.start(now);
        }
        Ok(())
    }

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
        match self.pending.get_mut(&checkpoint) {
            Some(pending) => match pending.ack(now, report, stats) {
                Ack::Accepted => {}
                Ack::Double(report) => self.leave(checkpoint, report),
                Ack::Foreign(report) => self.discard(checkpoint, report),
            },
            // Never triggered, or known to have come to nothing.
            None if checkpoint >= self.next || self.dead.contains(checkpoint) => {
                self.discard(checkpoint, report);
            }
            // Complete, hence a double; or so old that nobody remembers.
            None => self.leave(checkpoint, report),
        }
    }

    /// Checkpoints under way no longer wait for a task that finished before their barrier. The barrier
    /// that it would have forwarded is injected below it instead (F033).
    fn go_on_without(&mut self, now: Time, finish: impl Fn(&mut Pending<R>)) {
        let mut partly: Vec<(CheckpointId, Abort)> = Vec::new();
        for pending in self
            .pending
            .values_mut()
            .filter(|pending| !pending.deciding)
        {
            finish(pending);
            if let Some(task) = pending.partly_finished(&self.tasks.plan) {
                partly.push((pending.checkpoint(), Abort::PartlyFinished { task }));
            } else {
                self.effects.extend(pending.take_triggers(&self.tasks.plan));
            }
        }
        for (checkpoint, reason) in partly {
            self.abort(now, checkpoint, reason);
        }
    }

    fn check_deciding(&self, checkpoint: CheckpointId) -> Result<(), CoordinateError> {
        match self.pending.get(&checkpoint) {
            Some(pending) if pending.deciding => Ok(()),
            Some(_) | None => Err(CoordinateError::NotDeciding { checkpoint }),
        }
    }
}
