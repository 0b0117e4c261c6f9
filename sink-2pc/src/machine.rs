//! When a prepared transaction is committed, asked about, undone and forgotten.
//!
//! ```text
//!                completed(≥ N)                 Committed, AlreadyCommitted
//!   prepared(N) ───────────────▶ due ──commit──▶ confirmed: forgotten here
//!        │                        ▲ │  │
//!        │ rolled back            │ │  └─ Lost ─▶ the job fails, the transaction stays listed
//!        ▼                        │ └─ Unknown ─▶ in doubt ──probe──▶ confirmed, due, lost
//!      undone         NotCommitted, after a delay
//! ```
//!
//! A restored machine first commits what the checkpoint holds, then fences the older generations,
//! then sweeps what they left; only then may writers open.
//!
//! Invariant: a transaction leaves the machine by a confirmed commit or a confirmed abort, and
//! nothing is committed that no completed checkpoint covers.

mod call;
mod pending;

use std::collections::{BTreeMap, VecDeque};

use cutwater_barrier::{CheckpointId, Generation, Time};

pub use self::call::{Call, CallId, Effect, Event, Failure, MachineError, Reply};
use self::pending::{Pending, Standing};
use crate::{Guarantee, Prepared, Result, Retry, Verdict};

/// Decides what the [`Committer`](crate::Committer) of one sink does, for one generation of a job.
///
/// One call is out at a time, as the committer is one object. [`Driver`](crate::Driver) carries
/// the calls out. `Clone` is for model checkers, which go on from one state in every way.
#[derive(Clone, Debug)]
pub struct Machine {
    generation: Generation,
    guarantee: Guarantee,
    retry: Retry,
    stage: Stage,
    pending: Pending,
    outstanding: Option<(CallId, Call)>,
    calls: u64,
    newest_completed: Option<CheckpointId>,
    /// Completed checkpoints of which something is not confirmed yet, oldest first.
    unannounced: VecDeque<CheckpointId>,
    /// The oldest checkpoint whose transactions each undecided checkpoint names.
    sealed: BTreeMap<CheckpointId, CheckpointId>,
    released: Option<CheckpointId>,
    effects: VecDeque<Effect>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Until all of the restored checkpoint is committed.
    Recovering,
    /// Since `failures` failed attempts, and not before `at` again.
    Fencing {
        failures: u32,
        at: Time,
    },
    Sweeping {
        failures: u32,
        at: Time,
    },
    Running,
    Failed,
}

impl Machine {
    /// The machine of a job that continues from `restored`: a checkpoint, and what its metadata names.
    /// One that starts fresh fences and sweeps too, as an earlier job of this name may have left
    /// something.
    pub fn new(
        generation: Generation,
        guarantee: Guarantee,
        retry: Retry,
        restored: Option<(CheckpointId, Vec<Prepared>)>,
    ) -> Self {
        let (restored, prepared) = restored.unzip();
        let mut machine = Self {
            generation,
            guarantee,
            retry,
            stage: Stage::Recovering,
            pending: Pending::restored(prepared.unwrap_or_default()),
            outstanding: None,
            calls: 0,
            newest_completed: restored,
            unannounced: restored.into_iter().collect(),
            sealed: BTreeMap::new(),
            released: None,
            effects: VecDeque::new(),
        };
        machine.announce();
        machine.schedule(Time::ZERO);
        machine
    }

    /// Tells the machine what happened at `now`. Then [`poll`](Self::poll) until `None`.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before it. The machine is unchanged, and the driver
    /// has a bug: the job should fail.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), MachineError> {
        match event {
            Event::Prepared(prepared) => self.pending.add(prepared),
            Event::Completed(checkpoint) => self.completed(now, checkpoint),
            Event::NotCompleted(checkpoint) => {
                self.sealed.remove(&checkpoint);
            }
            Event::RolledBack(checkpoint) => {
                self.sealed.remove(&checkpoint);
                self.pending.undo(now, checkpoint);
            }
            Event::Replied(call, reply) => self.replied(now, call, reply)?,
            Event::Woke => {}
        }
        self.announce();
        self.schedule(now);
        Ok(())
    }

    /// The next effect. Carry effects out in this order.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest. `None` while a call is out.
    pub fn deadline(&self) -> Option<Time> {
        if self.outstanding.is_some() {
            return None;
        }
        match self.stage {
            Stage::Fencing { at, .. } | Stage::Sweeping { at, .. } => Some(at),
            Stage::Recovering | Stage::Running => self.pending.next_at(self.guarantee),
            Stage::Failed => None,
        }
    }

    /// What the metadata of `checkpoint` has to name, oldest first: all transactions up to it that
    /// are not confirmed. Ask once all reports of `checkpoint` are in, right before it is written.
    pub fn seal(&mut self, checkpoint: CheckpointId) -> Vec<Prepared> {
        let named = self.pending.up_to(checkpoint);
        let oldest = named
            .first()
            .map_or(checkpoint, |prepared| prepared.checkpoint);
        self.sealed.insert(checkpoint, oldest);
        named
    }

    /// Everything that is neither committed nor undone, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &Prepared> {
        self.pending.iter()
    }

    /// Transactions of which nobody knows whether they are visible. Shown to the operator.
    pub fn in_doubt(&self) -> impl Iterator<Item = &Prepared> {
        self.pending.in_doubt()
    }

    /// Whether writers of this generation may be open: nothing to recover is left.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Running
    }

    /// Whether all that is decided is confirmed, so that the job may end or stop here.
    pub fn is_settled(&self) -> bool {
        self.is_ready() && self.outstanding.is_none() && self.pending.oldest_decided().is_none()
    }

    fn completed(&mut self, now: Time, checkpoint: CheckpointId) {
        self.pending.decide(now, checkpoint);
        if let Some(&oldest) = self.sealed.get(&checkpoint)
            && self.released < Some(oldest)
            && self.stage != Stage::Failed
        {
            self.released = Some(oldest);
            self.effects.push_back(Effect::Released { before: oldest });
        }
        self.sealed.retain(|&sealed, _| sealed > checkpoint);
        if self.newest_completed >= Some(checkpoint) {
            return; // Again, or late: a newer one is announced already or will be.
        }
        self.newest_completed = Some(checkpoint);
        // A checkpoint that commits nothing of its own is announced together with the one before.
        match self.unannounced.back_mut() {
            Some(last) if !self.pending.has_decided_after(*last) => *last = checkpoint,
            Some(_) | None => self.unannounced.push_back(checkpoint),
        }
    }

    fn replied(&mut self, now: Time, id: CallId, reply: Reply) -> Result<(), MachineError> {
        let call = match &self.outstanding {
            Some((out, call)) if *out == id => call,
            Some(_) | None if id.0 < self.calls => return Ok(()), // Late: it was given up.
            Some(_) | None => return Err(MachineError::UnknownCall(id)),
        };
        if !reply.answers(call) {
            return Err(MachineError::WrongReply(id));
        }
        let (_, call) = self.outstanding.take().expect("matched just now");
        match (call, reply) {
            (Call::Commit(asked), Reply::Verdicts(verdicts))
            | (Call::Probe(asked), Reply::Verdicts(verdicts)) => {
                for (prepared, verdict) in asked.into_iter().zip(verdicts) {
                    self.judged(now, prepared, verdict);
                }
            }
            (Call::Abort(asked), Reply::Done(done)) => self.undone(now, asked, done),
            (Call::Fence(_), Reply::Done(done)) => self.fenced(now, done),
            (Call::Sweep, Reply::Done(done)) => self.swept(now, done),
            _ => unreachable!("the reply answers the call"),
        }
        Ok(())
    }

    fn judged(&mut self, now: Time, prepared: Prepared, verdict: Verdict) {
        match verdict {
            Verdict::Committed | Verdict::AlreadyCommitted => self.pending.remove(&prepared),
            // Whatever became of it, the newer generation takes care of it.
            Verdict::NotCommitted(error) | Verdict::Lost(error) | Verdict::Unknown(error)
                if error.newer_generation().is_some() =>
            {
                self.fail(Failure::fenced(error));
            }
            Verdict::NotCommitted(error) => {
                let failures = self.pending.failures(&prepared) + 1;
                if self.retry.is_exhausted(failures) {
                    self.fail(Failure::Refused { prepared, error });
                } else {
                    let at = now + self.retry.delay(failures);
                    self.pending.set(&prepared, Standing::Due { failures, at });
                }
            }
            Verdict::Lost(error) => self.fail(Failure::Lost { prepared, error }),
            Verdict::Unknown(_) => {
                let failures = self.pending.failures(&prepared);
                let probes = self.pending.probes(&prepared).saturating_add(1);
                let at = now + self.retry.delay(probes);
                let doubt = Standing::InDoubt {
                    failures,
                    probes,
                    at,
                };
                self.pending.set(&prepared, doubt);
            }
        }
    }

    fn undone(&mut self, now: Time, asked: Vec<Prepared>, done: Result<()>) {
        for prepared in asked {
            match &done {
                Ok(()) => self.pending.remove(&prepared),
                Err(error) if error.newer_generation().is_some() => {
                    self.fail(Failure::fenced(error.clone()));
                }
                Err(error) => {
                    let failures = self.pending.failures(&prepared) + 1;
                    if self.retry.is_exhausted(failures) {
                        let error = error.clone();
                        self.fail(Failure::Refused { prepared, error });
                    } else {
                        let at = now + self.retry.delay(failures);
                        self.pending.set(&prepared, Standing::Undo { failures, at });
                    }
                }
            }
        }
    }

    fn fenced(&mut self, now: Time, done: Result<()>) {
        let Stage::Fencing { failures, .. } = self.stage else {
            return; // Failed meanwhile.
        };
        match self.again(now, failures, done) {
            Again::Done => {
                let at = now;
                self.stage = Stage::Sweeping { failures: 0, at };
            }
            Again::At { failures, at } => self.stage = Stage::Fencing { failures, at },
            Again::Never => {}
        }
    }

    fn swept(&mut self, now: Time, done: Result<()>) {
        let Stage::Sweeping { failures, .. } = self.stage else {
            return; // Failed meanwhile.
        };
        match self.again(now, failures, done) {
            Again::Done => {
                self.stage = Stage::Running;
                self.effects.push_back(Effect::Ready);
            }
            Again::At { failures, at } => self.stage = Stage::Sweeping { failures, at },
            Again::Never => {}
        }
    }

    /// What follows on a reply without a verdict, after `failures` failed attempts before it.
    fn again(&mut self, now: Time, failures: u32, done: Result<()>) -> Again {
        let Err(error) = done else { return Again::Done };
        let failures = failures + 1;
        if error.newer_generation().is_some() {
            self.fail(Failure::fenced(error));
            Again::Never
        } else if self.retry.is_exhausted(failures) {
            self.fail(Failure::NotReady { error });
            Again::Never
        } else {
            let at = now + self.retry.delay(failures);
            Again::At { failures, at }
        }
    }

    /// The first failure is the last effect: nothing is asked of the target any more.
    fn fail(&mut self, failure: Failure) {
        if self.stage != Stage::Failed {
            self.stage = Stage::Failed;
            self.effects.push_back(Effect::Failed(failure));
        }
    }

    /// Tells of the newest completed checkpoint up to which all is confirmed.
    fn announce(&mut self) {
        if self.stage == Stage::Failed {
            return;
        }
        let doubtful = self.pending.oldest_decided();
        let mut confirmed = None;
        while let Some(&checkpoint) = self.unannounced.front()
            && doubtful.is_none_or(|oldest| checkpoint < oldest)
        {
            confirmed = self.unannounced.pop_front();
        }
        if let Some(checkpoint) = confirmed {
            self.effects.push_back(Effect::AllCommitted(checkpoint));
        }
    }

    /// Sends out the next call that is due, if none is out.
    fn schedule(&mut self, now: Time) {
        if self.outstanding.is_some() {
            return;
        }
        if self.stage == Stage::Recovering && self.pending.oldest_decided().is_none() {
            let at = now;
            self.stage = Stage::Fencing { failures: 0, at };
        }
        let call = match self.stage {
            Stage::Recovering | Stage::Running => self.pending.due(now, self.guarantee),
            Stage::Fencing { at, .. } if at <= now => Some(Call::Fence(self.generation)),
            Stage::Sweeping { at, .. } if at <= now => Some(Call::Sweep),
            Stage::Fencing { .. } | Stage::Sweeping { .. } | Stage::Failed => None,
        };
        if let Some(call) = call {
            let id = CallId(self.calls);
            self.calls += 1;
            self.outstanding = Some((id, call.clone()));
            self.effects.push_back(Effect::Call(id, call));
        }
    }
}

enum Again {
    Done,
    At { failures: u32, at: Time },
    Never,
}
