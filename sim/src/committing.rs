//! The driver of one sink's committer [`Machine`], beside the coordinator.
//!
//! A call is a future of its own, so that the machine can be told and asked things meanwhile.

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    CallId, CommitterContext, Effect, Event, Failure, Machine, Prepared, Reply, Retry, Sink,
};

use crate::{
    external::{External, ExternalCommitter, ExternalSink},
    stepped::{Doing, at_once},
    stored::uid,
};

/// A target that says no so often is given up, and the next attempt tries again.
const ATTEMPTS_MAX: u32 = 6;

#[derive(Debug)]
pub(crate) struct Committing {
    machine: Machine,
    /// At home while no call is out.
    committer: Option<ExternalCommitter>,
    call: Option<Doing<(ExternalCommitter, CallId, Reply)>>,
    /// Whether the machine may have something to say.
    has_effects: bool,
    /// The newest checkpoint of which all is committed.
    pub(crate) committed: Option<CheckpointId>,
}

/// What the process has to act on.
#[derive(Debug)]
pub(crate) enum Progress {
    AllCommitted,
    Released { before: CheckpointId },
    Failed(Failure),
}

impl Committing {
    pub(crate) fn new(
        external: &External,
        operator: usize,
        generation: Generation,
        restored: Option<(CheckpointId, Vec<Prepared>)>,
    ) -> Self {
        let sink = ExternalSink(external.clone());
        let millis = std::time::Duration::from_millis;
        let retry = Retry::new(millis(1), millis(20), ATTEMPTS_MAX);
        let context = CommitterContext::new("sim", uid(operator), generation);
        let committer = at_once(sink.committer(context)).expect("it fences nobody yet");
        Self {
            machine: Machine::new(generation, sink.guarantee(), retry, restored),
            committer: Some(committer),
            call: None,
            has_effects: true,
            committed: None,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    /// Whether there is something to go on with.
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        self.has_effects
            || self.call.is_some()
            || self.machine.deadline().is_some_and(|at| at <= now)
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event) {
        self.machine
            .handle(now, event)
            .expect("the simulated engine drives it right");
        self.has_effects = true;
    }

    pub(crate) fn seal(&mut self, checkpoint: CheckpointId) -> Vec<Prepared> {
        self.machine.seal(checkpoint)
    }

    /// Goes one step on: with the call that is out, or with what the machine wants next.
    pub(crate) fn step(&mut self, now: Time) -> Option<Progress> {
        if let Some(call) = &mut self.call
            && let Some((committer, id, reply)) = call.step()
        {
            self.committer = Some(committer);
            self.call = None;
            self.handle(now, Event::Replied(id, reply));
        } else if self.machine.deadline().is_some_and(|at| at <= now) {
            self.handle(now, Event::Woke);
        }
        let effect = self.machine.poll();
        self.has_effects = effect.is_some();
        match effect? {
            Effect::Call(id, call) => {
                let mut committer = self.committer.take().expect("one call is out at a time");
                self.call = Some(Doing::new(async move {
                    let reply = call.ask(&mut committer).await;
                    (committer, id, reply)
                }));
                None
            }
            Effect::Ready => None, // `is_ready` is asked.
            Effect::AllCommitted(checkpoint) => {
                self.committed = Some(checkpoint);
                Some(Progress::AllCommitted)
            }
            Effect::Released { before } => Some(Progress::Released { before }),
            Effect::Failed(failure) => Some(Progress::Failed(failure)),
        }
    }
}
