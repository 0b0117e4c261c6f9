//! The few lines between the machine and a committer, for any executor.

use std::time::Duration;

use cutwater_barrier::{CheckpointId, Time};

use crate::{
    Call, CallId, Committer, CommitterContext, Effect, Error, Event, Failure, Machine,
    MachineError, Prepared, Result, Retry, Sink,
};

/// Carries out a [`Machine`]'s calls and hands everything else on.
///
/// ```text
/// driver.handle(now, Event::Completed(checkpoint))?;
/// while let Some(notice) = driver.advance(&clock).await? { … }
/// let wake_at = driver.deadline();
/// ```
///
/// While a call is out, the driver is borrowed. An engine that wants to [`seal`](Self::seal) or to
/// report meanwhile keeps the machine itself, and makes the calls elsewhere by [`Call::ask`].
///
/// Dropping the future of [`advance`](Self::advance), say after a timeout, is safe: what was under
/// way is asked about again.
#[derive(Debug)]
pub struct Driver<C> {
    machine: Machine,
    committer: C,
    /// Taken from the machine and not answered.
    calling: Option<(CallId, Call)>,
    /// Whether the answer can no longer come.
    is_cut_off: bool,
}

/// What the engine has to act on.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an engine that skips a notice breaks exactly-once"
)]
pub enum Notice {
    /// As [`Effect::Ready`]: open the writers.
    Ready,
    /// As [`Effect::AllCommitted`]: the checkpoint log may say so.
    AllCommitted(CheckpointId),
    /// As [`Effect::Released`]: tell the writers.
    Released {
        /// The first checkpoint that is still needed.
        before: CheckpointId,
    },
    /// As [`Effect::Failed`]: stop the job.
    Failed(Failure),
}

/// What [`Driver::settle`] has come to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Settled {
    /// The newest checkpoint that became [`Notice::AllCommitted`].
    pub committed: Option<CheckpointId>,
    /// Transactions prepared for checkpoints before this one are [`Notice::Released`]: tell the writers,
    /// if the sink uses ids again.
    pub released: Option<CheckpointId>,
}

impl<C: Committer> Driver<C> {
    /// Opens the committer of `sink`, and drives it for one generation that continues from `restored`:
    /// a checkpoint, and what its metadata names.
    ///
    /// [`advance`](Self::advance) then recovers, until [`Notice::Ready`]: only now may writers open.
    ///
    /// # Errors
    ///
    /// Those of [`Sink::committer`].
    pub async fn open<S: Sink<Committer = C>>(
        sink: &S,
        context: CommitterContext,
        retry: Retry,
        restored: Option<(CheckpointId, Vec<Prepared>)>,
    ) -> Result<Self> {
        let machine = Machine::new(context.generation, sink.guarantee(), retry, restored);
        Ok(Self::new(machine, sink.committer(context).await?))
    }

    /// Drives `machine` against `committer`.
    pub fn new(machine: Machine, committer: C) -> Self {
        Self {
            machine,
            committer,
            calling: None,
            is_cut_off: false,
        }
    }

    /// As [`Machine::handle`].
    ///
    /// # Errors
    ///
    /// As [`Machine::handle`].
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), MachineError> {
        self.machine.handle(now, event)
    }

    /// As [`Machine::seal`].
    pub fn seal(&mut self, checkpoint: CheckpointId) -> Vec<Prepared> {
        self.machine.seal(checkpoint)
    }

    /// As [`Machine::deadline`]: call [`advance`](Self::advance) again by then.
    pub fn deadline(&self) -> Option<Time> {
        if self.calling.is_some() {
            return Some(Time::ZERO); // An `advance` was dropped: go on at once.
        }
        self.machine.deadline()
    }

    /// The machine, to ask it things.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Makes calls until everything decided is confirmed: after [`open`](Self::open) until writers may
    /// open, after [`Event::Completed`] until that checkpoint is committed. For an engine that has
    /// nothing better to do meanwhile; `sleep` waits until a call that failed is due again.
    ///
    /// # Errors
    ///
    /// As [`Notice::Failed`]: stop the job.
    ///
    /// # Panics
    ///
    /// If called again after a failure, when nothing can settle any more.
    pub async fn settle(
        &mut self,
        clock: &(impl Fn() -> Time + Sync),
        sleep: impl AsyncFn(Duration),
    ) -> Result<Settled, Failure> {
        let mut settled = Settled::default();
        loop {
            match self.advance(clock).await? {
                Some(Notice::Ready) => {}
                Some(Notice::AllCommitted(checkpoint)) => settled.committed = Some(checkpoint),
                Some(Notice::Released { before }) => settled.released = Some(before),
                Some(Notice::Failed(failure)) => return Err(failure),
                None if self.machine.is_settled() => return Ok(settled),
                None => {
                    let due = self.deadline();
                    let at = due.expect("without a failure, what is unsettled is due some time");
                    sleep(at - clock()).await;
                }
            }
        }
    }

    /// Makes calls until there is something to tell, or until none is due: then `None`.
    ///
    /// # Errors
    ///
    /// If the committer does not keep its contract, for example by a wrong number of verdicts.
    pub async fn advance(
        &mut self,
        clock: &(impl Fn() -> Time + Sync),
    ) -> Result<Option<Notice>, MachineError> {
        self.machine.handle(clock(), Event::Woke)?;
        loop {
            if let Some((id, call)) = self.calling.clone() {
                let reply = if self.is_cut_off {
                    call.unanswered(&Error::new("waiting for an answer", "it was given up"))
                } else {
                    self.is_cut_off = true;
                    call.ask(&mut self.committer).await
                };
                self.calling = None;
                self.is_cut_off = false;
                self.machine.handle(clock(), Event::Replied(id, reply))?;
            }
            match self.machine.poll() {
                None => return Ok(None),
                Some(Effect::Call(id, call)) => self.calling = Some((id, call)),
                Some(Effect::Ready) => return Ok(Some(Notice::Ready)),
                Some(Effect::AllCommitted(checkpoint)) => {
                    return Ok(Some(Notice::AllCommitted(checkpoint)));
                }
                Some(Effect::Released { before }) => return Ok(Some(Notice::Released { before })),
                Some(Effect::Failed(failure)) => return Ok(Some(Notice::Failed(failure))),
            }
        }
    }
}
