//! Every order of events and every verdict for two checkpoints of one transaction each.
//!
//! The world is a target that really commits, and a driver that may lose notices and replies. From
//! each state every possible next event is tried. In each state must hold: nothing is visible that
//! no completed checkpoint covers, nothing leaves the machine that is neither visible nor undone.
//! From each state with a target that works again: all that is decided becomes visible, or was lost
//! by the target and the job has failed.

use std::{collections::BTreeSet, time::Duration};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Call, CallId, Effect, Error, Event, Guarantee, Machine, Prepared, Reply, Retry, Verdict,
};

/// What may go wrong before the target works again: once for each transaction.
const BAD_MAX: usize = 2;

/// After this many more calls a machine with a working target is stuck.
const SETTLE_MAX: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Prepare(u64),
    Complete(u64),
    Decline(u64),
    Abort(u64),
    /// The call takes effect and the reply arrives.
    Good,
    /// Each transaction is refused.
    Refused,
    /// The call takes effect and its reply is lost.
    ReplyLost,
    /// The call is lost on its way.
    RequestLost,
    /// B54a, B54m: the target aborts or forgets what is only prepared.
    TimeOut,
    /// The process dies and restores the newest completed checkpoint.
    Crash,
}

#[derive(Clone)]
struct World {
    machine: Machine,
    generation: u64,
    out: Option<(CallId, Call)>,
    now: Time,
    visible: BTreeSet<Prepared>,
    undone: BTreeSet<Prepared>,
    reported: BTreeSet<Prepared>,
    over: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
    completed: Option<(u64, Vec<Prepared>)>,
    is_timed_out: bool,
    is_failed: bool,
}

fn prepared(checkpoint: u64) -> Prepared {
    Prepared::new(CheckpointId::new(checkpoint), b"t".to_vec())
}

fn retry() -> Retry {
    Retry::new(Duration::from_millis(1), Duration::from_millis(4), 10)
}

impl World {
    fn new(guarantee: Guarantee) -> Self {
        let mut world = Self {
            machine: Machine::new(Generation::new(1), guarantee, retry(), None),
            generation: 1,
            out: None,
            now: Time::ZERO,
            visible: BTreeSet::new(),
            undone: BTreeSet::new(),
            reported: BTreeSet::new(),
            over: BTreeSet::new(),
            aborted: BTreeSet::new(),
            completed: None,
            is_timed_out: false,
            is_failed: false,
        };
        world.listen();
        world.answer(Step::Good); // fence
        world.answer(Step::Good); // sweep
        world
    }

    /// What can happen next.
    fn steps(&self, bad: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for checkpoint in [1, 2] {
            if self.over.contains(&checkpoint) || self.generation > 1 {
                continue;
            }
            if !self.reported.contains(&prepared(checkpoint)) {
                if checkpoint == 1 || self.reported.contains(&prepared(1)) {
                    steps.push(Step::Prepare(checkpoint));
                }
            } else {
                let decisions = [
                    Step::Complete(checkpoint),
                    Step::Decline(checkpoint),
                    Step::Abort(checkpoint),
                ];
                steps.extend(decisions);
            }
        }
        if self.out.is_some() {
            steps.push(Step::Good);
            if bad < BAD_MAX {
                steps.extend([Step::Refused, Step::ReplyLost, Step::RequestLost]);
            }
        }
        let is_kept = bad == BAD_MAX || self.is_timed_out;
        if !is_kept && self.reported.difference(&self.visible).next().is_some() {
            steps.push(Step::TimeOut);
        }
        if self.generation == 1 && self.completed.is_some() {
            steps.push(Step::Crash);
        }
        steps
    }

    fn take(&mut self, step: Step, guarantee: Guarantee) {
        match step {
            Step::Prepare(id) => {
                self.reported.insert(prepared(id));
                self.tell(Event::Prepared(vec![prepared(id)]));
            }
            Step::Complete(id) => {
                self.over.extend(1..=id); // The coordinator subsumes older ones.
                let named = self.machine.seal(CheckpointId::new(id));
                self.completed = Some((id, named));
                self.tell(Event::Completed(CheckpointId::new(id)));
            }
            Step::Decline(id) => {
                self.over.insert(id);
                self.tell(Event::NotCompleted(CheckpointId::new(id)));
            }
            Step::Abort(id) => {
                self.over.insert(id);
                self.aborted.insert(id);
                self.tell(Event::RolledBack(CheckpointId::new(id)));
            }
            Step::TimeOut => {
                self.is_timed_out = true;
                let prepared = self.reported.difference(&self.visible);
                self.undone.extend(prepared.cloned());
            }
            Step::Crash => {
                let (id, named) = self.completed.clone().expect("offered only then");
                self.generation += 1;
                let generation = Generation::new(self.generation);
                let id = CheckpointId::new(id);
                self.machine = Machine::new(generation, guarantee, retry(), Some((id, named)));
                self.out = None;
                self.listen();
            }
            _ => self.answer(step),
        }
        self.check();
    }

    fn tell(&mut self, event: Event) {
        self.now = self.now + Duration::from_millis(10); // Past every delay.
        self.machine.handle(self.now, event).unwrap();
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Call(id, call) => {
                    assert!(self.out.is_none(), "two calls at a time");
                    self.out = Some((id, call));
                }
                Effect::AllCommitted(id) => {
                    for one in self.machine.pending() {
                        assert!(one.checkpoint > id || !self.is_covered(one));
                    }
                }
                Effect::Failed(_) => self.is_failed = true,
                Effect::Ready | Effect::Released { .. } => {}
            }
        }
    }

    fn is_covered(&self, one: &Prepared) -> bool {
        let newest = self.completed.as_ref().map(|(id, _)| *id);
        let id = one.checkpoint.get();
        newest.is_some_and(|newest| id <= newest) && !self.aborted.contains(&id)
    }

    fn answer(&mut self, how: Step) {
        let (id, call) = self.out.take().expect("offered only then");
        let silence = Error::new("waiting", "the reply was lost");
        let reply = match how {
            Step::Refused => match &call {
                Call::Commit(asked) | Call::Probe(asked) => {
                    let verdict = |one: &Prepared| {
                        if self.visible.contains(one) {
                            Verdict::AlreadyCommitted
                        } else {
                            Verdict::NotCommitted(silence.clone())
                        }
                    };
                    Reply::Verdicts(asked.iter().map(verdict).collect())
                }
                Call::Abort(_) | Call::Fence(_) | Call::Sweep => Reply::Done(Err(silence)),
            },
            Step::RequestLost => call.unanswered(&silence),
            Step::ReplyLost => {
                self.effect(&call);
                call.unanswered(&silence)
            }
            _ => self.effect(&call),
        };
        self.tell(Event::Replied(id, reply));
        if self.out.is_none() {
            self.tell(Event::Woke);
        }
    }

    /// The target does as asked.
    fn effect(&mut self, call: &Call) -> Reply {
        match call {
            Call::Commit(asked) => {
                let mut verdicts = Vec::new();
                for one in asked {
                    verdicts.push(if self.undone.contains(one) {
                        Verdict::Lost(Error::new("committing", "undone"))
                    } else if self.visible.insert(one.clone()) {
                        Verdict::Committed
                    } else {
                        Verdict::AlreadyCommitted
                    });
                }
                Reply::Verdicts(verdicts)
            }
            Call::Probe(asked) => {
                let verdict = |one: &Prepared| {
                    if self.visible.contains(one) {
                        Verdict::AlreadyCommitted
                    } else if self.undone.contains(one) {
                        Verdict::Lost(Error::new("probing", "undone"))
                    } else {
                        Verdict::NotCommitted(Error::new("probing", "prepared"))
                    }
                };
                Reply::Verdicts(asked.iter().map(verdict).collect())
            }
            Call::Abort(asked) => {
                assert!(asked.iter().all(|one| !self.visible.contains(one)));
                self.undone.extend(asked.iter().cloned());
                Reply::Done(Ok(()))
            }
            Call::Sweep => {
                let prepared = self.reported.difference(&self.visible);
                self.undone.extend(prepared.cloned());
                Reply::Done(Ok(()))
            }
            Call::Fence(_) => Reply::Done(Ok(())),
        }
    }

    fn check(&self) {
        for one in &self.visible {
            assert!(self.is_covered(one), "{one:?} is visible too early");
            assert!(!self.undone.contains(one), "{one:?} is visible and undone");
        }
        if self.generation == 1 {
            let held: BTreeSet<&Prepared> = self.machine.pending().collect();
            for one in &self.reported {
                let is_over = self.visible.contains(one) || self.undone.contains(one);
                assert!(held.contains(one) || is_over, "{one:?} was forgotten");
            }
        }
    }

    /// With a target that works: everything decided and not undone becomes visible.
    fn settle(&mut self) {
        for _ in 0..SETTLE_MAX {
            if self.machine.is_settled() {
                break;
            }
            if self.out.is_some() {
                self.answer(Step::Good);
            } else {
                self.tell(Event::Woke);
            }
        }
        let mut missing = self.undone.iter().filter(|one| self.is_covered(one));
        if let Some(missing) = missing.next() {
            assert!(self.is_failed, "{missing:?} is lost, and nobody says so");
            assert!(self.machine.pending().any(|one| one == missing));
            return;
        }
        assert!(!self.is_failed, "a target that works fails nobody");
        assert!(self.machine.is_settled(), "stuck");
        if let Some((_, named)) = &self.completed {
            for one in named {
                assert!(self.visible.contains(one), "{one:?} is missing");
            }
        }
    }
}

#[test]
fn no_order_of_events_loses_or_doubles_a_transaction() {
    for guarantee in [
        Guarantee::AtomicPerCheckpoint,
        Guarantee::AtomicPerTransaction,
    ] {
        let mut runs = 0;
        let mut open = vec![(World::new(guarantee), 0)];
        while let Some((mut world, bad)) = open.pop() {
            for step in world.steps(bad) {
                let mut next = world.clone();
                next.take(step, guarantee);
                let is_bad = matches!(
                    step,
                    Step::Refused | Step::ReplyLost | Step::RequestLost | Step::TimeOut
                );
                open.push((next, bad + usize::from(is_bad)));
            }
            world.settle();
            runs += 1;
        }
        assert!(runs > 10_000, "only {runs} runs of {guarantee:?}");
    }
}
