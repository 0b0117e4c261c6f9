//! How a checkpoint ends: complete, subsumed, aborted, or with the attempt.
//!
//! Whatever the way, it happens once, what came in for the checkpoint is accounted for, and whoever
//! asked for it is answered last.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    Abort, Coordinator, Decline, Effect, JobFailure, NotDurable, Refusal, Report, RequestId,
    coordinator::Phase,
    pending::{Origin, Pending},
};
use crate::{CheckpointId, Kind, Mode, Time};

impl<R> Coordinator<R> {
    pub(super) fn complete(&mut self, now: Time, checkpoint: CheckpointId) {
        let Some(pending) = self.pending.remove(&checkpoint) else {
            return;
        };
        let barrier = pending.barrier;
        self.latest = self.latest.max(Some(checkpoint));
        self.schedule.ended(now);
        self.failures.succeeded();
        self.has_expired = false;
        self.effects.push_back(Effect::NotifyComplete {
            checkpoint,
            kind: barrier.kind,
            then: barrier.then,
        });
        let subsumed = |_: &CheckpointId, older: &mut Pending<R>| older.is_subsumed(&barrier);
        let subsumed: Vec<_> = self.pending.extract_if(.., subsumed).collect();
        for (older, pending) in subsumed {
            let (checkpoint, by) = (older, checkpoint);
            self.effects
                .push_back(Effect::NotifySubsumed { checkpoint, by });
            self.bury(pending, Refusal::Subsumed);
        }
        if let Origin::Request(request) = pending.origin {
            let outcome = Ok(checkpoint);
            self.effects.push_back(Effect::Answer { request, outcome });
        }
        if barrier.then.is_stop() && self.phase == Phase::Ending {
            self.phase = Phase::Closing { last: checkpoint };
        }
    }

    /// Tells the end once nothing is in progress any more.
    pub(super) fn close(&mut self) {
        if let Phase::Closing { last: checkpoint } = self.phase
            && self.pending.is_empty()
        {
            self.phase = Phase::Ended;
            self.effects.push_back(Effect::End { checkpoint });
        }
    }

    pub(super) fn not_decided(
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

    pub(super) fn expire(&mut self, now: Time) {
        let is_expired = |pending: &Pending<R>| pending.deadline().is_some_and(|at| at <= now);
        while let Some(expired) = self.pending.values().find(|&pending| is_expired(pending)) {
            self.has_expired |= expired.barrier.mode != Mode::Aligned;
            self.abort(now, expired.checkpoint(), Abort::Expired);
        }
    }

    pub(super) fn abort(&mut self, now: Time, checkpoint: CheckpointId, reason: Abort) {
        let Some(pending) = self.pending.remove(&checkpoint) else {
            return;
        };
        self.schedule.ended(now);
        let failure = self.failure(&pending, reason);
        let was_final = pending.origin == Origin::Final;
        self.notify_aborted(pending, reason);
        if failure.is_some() {
            self.halt(now, failure);
        } else if was_final && self.phase == Phase::Ending {
            self.retry_final(now);
        }
    }

    /// Ends the attempt. A decision under way is out of our hands: its outcome is still told.
    pub(super) fn halt(&mut self, now: Time, failure: Option<JobFailure>) {
        if matches!(self.phase, Phase::Halted { .. }) {
            return;
        }
        let disowned = matches!(
            failure,
            Some(JobFailure::Fenced | JobFailure::Undecided { .. })
        );
        self.phase = Phase::Halted { owner: !disowned };
        self.schedule.ended(now);
        let collecting = |_: &CheckpointId, pending: &mut Pending<R>| !pending.deciding;
        let collecting: Vec<_> = self.pending.extract_if(.., collecting).collect();
        for (_, pending) in collecting {
            self.notify_aborted(pending, Abort::Halted);
        }
        for request in self.requests.drain() {
            self.refuse(request.id, Refusal::Halted);
        }
        self.effects.extend(failure.map(Effect::FailJob));
    }

    /// What an aborted checkpoint means for the attempt. Savepoints are the user's: their failure says
    /// so to the user and is not counted.
    fn failure(&mut self, pending: &Pending<R>, reason: Abort) -> Option<JobFailure> {
        let checkpoint = pending.checkpoint();
        let is_request = matches!(pending.origin, Origin::Request(_));
        let counts = match reason {
            Abort::Declined { reason, .. } => reason == Decline::Failed,
            Abort::Expired | Abort::NotDurable(NotDurable::Failed) => true,
            Abort::Halted | Abort::NotDurable(_) | Abort::PartlyFinished { .. } => false,
        };
        match reason {
            Abort::NotDurable(NotDurable::Unknown) => Some(JobFailure::Undecided { checkpoint }),
            Abort::NotDurable(NotDurable::Fenced) => Some(JobFailure::Fenced),
            // Its barrier has stopped sources for good (F010).
            _ if is_request && pending.barrier.then.is_stop() => {
                Some(JobFailure::StopFailed { checkpoint })
            }
            _ if counts && pending.barrier.kind == Kind::Checkpoint && self.failures.failed() => {
                Some(JobFailure::TooManyFailures { checkpoint })
            }
            _ => None,
        }
    }

    fn notify_aborted(&mut self, pending: Pending<R>, reason: Abort) {
        self.effects.push_back(Effect::NotifyAborted {
            checkpoint: pending.checkpoint(),
            reason,
            latest: self.latest,
        });
        self.bury(pending, Refusal::Aborted(reason));
    }

    /// Gives back what came in for a checkpoint that comes to nothing, and tells who asked for it.
    fn bury(&mut self, pending: Pending<R>, refusal: Refusal) {
        let checkpoint = pending.checkpoint();
        let origin = pending.origin;
        self.dead.add(checkpoint);
        for report in pending.into_reports() {
            self.discard(checkpoint, report);
        }
        if let Origin::Request(request) = origin {
            self.refuse(request, refusal);
        }
    }

    pub(super) fn refuse(&mut self, request: RequestId, refusal: Refusal) {
        let outcome = Err(refusal);
        self.effects.push_back(Effect::Answer { request, outcome });
    }

    /// Has the state behind `report` deleted, unless it is no longer ours to delete.
    pub(super) fn discard(&mut self, checkpoint: CheckpointId, report: Report<R>) {
        if self.phase == (Phase::Halted { owner: false }) {
            return self.leave(checkpoint, report);
        }
        self.effects
            .push_back(Effect::Discard { checkpoint, report });
    }

    pub(super) fn leave(&mut self, checkpoint: CheckpointId, report: Report<R>) {
        self.effects.push_back(Effect::Leave { checkpoint, report });
    }
}

/// How many checkpoints that came to nothing are remembered. What acknowledgements even later than
/// that bring is left to the store's search for orphans.
const DEAD_MAX: usize = 64;

/// Checkpoints that came to nothing, so that what late acknowledgements bring for them is deleted.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Dead(VecDeque<CheckpointId>);

impl Dead {
    fn add(&mut self, checkpoint: CheckpointId) {
        self.0.push_back(checkpoint);
        if self.0.len() > DEAD_MAX {
            self.0.pop_front();
        }
    }

    pub(super) fn contains(&self, checkpoint: CheckpointId) -> bool {
        self.0.contains(&checkpoint)
    }
}
