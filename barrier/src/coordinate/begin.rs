//! How a checkpoint begins: on request, by the clock, or because all input has ended.
//!
//! | | waits for room | waits for interval and pause | waits while much is being deleted |
//! |---|---|---|---|
//! | final checkpoint | no | no | no |
//! | request to stop, savepoint | no | no | yes |
//! | requested checkpoint | yes | no | yes |
//! | periodic checkpoint | yes | yes | yes |

use super::{
    Coordinator, Effect, Refusal, Request,
    coordinator::Phase,
    pending::{Origin, Pending},
};
use crate::{Barrier, Kind, Mode, Then, Time};

impl<R> Coordinator<R> {
    pub(super) fn request(&mut self, request: Request) {
        let refusal = match (self.phase, self.tasks.first_created()) {
            (Phase::Halted { .. }, _) => Some(Refusal::Halted),
            (Phase::Ending | Phase::Closing { .. } | Phase::Ended, _) => Some(Refusal::Ending),
            (Phase::Active { .. }, Some(task)) => Some(Refusal::NotRunning { task }),
            (Phase::Active { .. }, None) => None,
        };
        if let Some(refusal) = refusal {
            self.refuse(request.id, refusal);
        } else if let Some(dropped) = self.requests.push(request) {
            self.refuse(dropped.id, Refusal::TooManyRequests);
        }
    }

    pub(super) fn trigger_due(&mut self, now: Time) {
        while self.trigger_at().is_some_and(|at| at <= now) {
            if self.tasks.all_drained() {
                self.trigger(now, Origin::Final, Kind::Checkpoint, Then::Drain);
            } else if let Some(Request { id, kind, then }) = self.pop_request() {
                self.trigger(now, Origin::Request(id), kind, then);
            } else {
                self.schedule.triggered(now);
                self.trigger(now, Origin::Periodic, Kind::Checkpoint, Then::Continue);
            }
        }
    }

    /// When to trigger next, if that is a matter of time only. [`Time::ZERO`]: at once.
    pub(super) fn trigger_at(&self) -> Option<Time> {
        let Phase::Active { retry_at } = self.phase else {
            return None;
        };
        if self.tasks.first_created().is_some() {
            return None;
        }
        if self.tasks.all_drained() {
            return Some(retry_at.unwrap_or(Time::ZERO));
        }
        if self.cleaning > self.config.cleaning_max {
            return None; // F016
        }
        if self.may_pop_request() {
            return Some(Time::ZERO);
        }
        self.has_room().then(|| self.schedule.due()).flatten()
    }

    fn has_room(&self) -> bool {
        self.pending.len() < self.config.room()
    }

    fn may_pop_request(&self) -> bool {
        let first = self.requests.first();
        first.is_some_and(|first| first.is_exempt() || self.has_room())
    }

    fn pop_request(&mut self) -> Option<Request> {
        self.may_pop_request()
            .then(|| self.requests.pop())
            .flatten()
    }

    fn trigger(&mut self, now: Time, origin: Origin, kind: Kind, then: Then) {
        if let Some(task) = self.tasks.partly_finished() {
            match origin {
                Origin::Request(id) => self.refuse(id, Refusal::PartlyFinished { task }),
                Origin::Final => self.retry_final(now),
                Origin::Periodic => {}
            }
            return;
        }
        let barrier = Barrier {
            kind,
            then,
            ..Barrier::checkpoint(self.next, now)
        }
        .with_mode(self.mode());
        self.next = self.next.next();
        let deadline = now + self.config.timeout;
        let mut pending = Pending::new(barrier, origin, deadline, &self.tasks);
        self.effects.extend(pending.take_triggers(&self.tasks.plan));
        self.pending.insert(barrier.checkpoint, pending);
        if then.is_stop() {
            self.phase = Phase::Ending;
            for request in self.requests.drain() {
                self.refuse(request.id, Refusal::Ending);
            }
        }
        self.decide(); // If all tasks have finished, there is nothing to wait for.
    }

    /// Of the next checkpoint.
    fn mode(&self) -> Mode {
        if self.has_expired && self.config.align_after_expiry {
            Mode::Aligned
        } else {
            self.config.mode
        }
    }

    pub(super) fn retry_final(&mut self, now: Time) {
        let retry_at = Some(self.schedule.retry_at(now));
        self.phase = Phase::Active { retry_at };
    }

    /// One decision at a time, oldest first: the log has an order (F007).
    pub(super) fn decide(&mut self) {
        if self.pending.values().any(|pending| pending.deciding) {
            return;
        }
        let ready = self.pending.values_mut().find(|pending| pending.is_ready());
        if let Some(pending) = ready {
            let decision = pending.decide(self.generation);
            self.effects.push_back(Effect::Decide(decision));
        }
    }
}
