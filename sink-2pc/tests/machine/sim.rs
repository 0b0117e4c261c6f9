//! A seeded simulation of a job with a rescaled set of writers, over crashes and lost messages.
//!
//! Goal: the ledger. After any run every record is visible exactly once, and at no moment one that
//! no completed checkpoint covers. Replay a failure with `SIM_SEED=<seed>`.

use std::{collections::BTreeMap, time::Duration};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Call, CallId, Effect, Error, Event, Guarantee, Machine, Prepared, Reply, Retry, Unsettled,
    Verdict,
};

/// Random steps before the target and the network work again.
const STEPS: u64 = 120;

/// A run that has not settled after this many more is stuck. The longest of the default seeds takes
/// a few dozen.
const SETTLE_MAX: u64 = 1_000;

#[test]
fn every_record_is_visible_once() {
    match std::env::var("SIM_SEED") {
        Ok(seed) => run(seed.parse().expect("SIM_SEED is a number")),
        Err(_) => (0..3_000).for_each(run),
    }
}

fn run(seed: u64) {
    let mut job = Job::new(seed);
    for _ in 0..STEPS {
        job.random_step();
        job.check();
    }
    job.heal();
    let mut visible = job.visible();
    visible.sort_unstable();
    let expected: Vec<u64> = (0..job.position).collect();
    assert_eq!(visible, expected, "seed {seed}");
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Status {
    Prepared,
    Committed,
    Aborted,
}

/// A checkpoint on its way: which reports are not in, and where its source stood.
struct Attempt {
    checkpoint: CheckpointId,
    reports: Vec<Vec<Prepared>>,
    position: u64,
}

struct Writer {
    rows: Vec<u64>,
    unsettled: Unsettled,
}

/// What is durable in a completed checkpoint.
#[derive(Clone, Default)]
struct Durable {
    checkpoint: Option<CheckpointId>,
    named: Vec<Prepared>,
    position: u64,
}

struct Job {
    seed: u64,
    random: Random,
    guarantee: Guarantee,
    now: Time,
    // The target.
    server: BTreeMap<Vec<u8>, (Status, Vec<u64>)>,
    // The job, this generation.
    generation: u64,
    machine: Machine,
    out: Option<(CallId, Call)>,
    is_ready: bool,
    writers: Vec<Writer>,
    attempts: Vec<Attempt>,
    position: u64,
    // What survives it.
    durable: Durable,
    next_checkpoint: u64,
    next_token: u64,
}

fn retry() -> Retry {
    Retry::new(
        Duration::from_millis(1),
        Duration::from_millis(20),
        u32::MAX,
    )
}

impl Job {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let guarantee = if random.below(2) == 0 {
            Guarantee::AtomicPerCheckpoint
        } else {
            Guarantee::AtomicPerTransaction
        };
        let mut job = Self {
            seed,
            random,
            guarantee,
            now: Time::ZERO,
            server: BTreeMap::new(),
            generation: 0,
            machine: Machine::new(Generation::new(0), guarantee, retry(), None),
            out: None,
            is_ready: false,
            writers: Vec::new(),
            attempts: Vec::new(),
            position: 0,
            durable: Durable::default(),
            next_checkpoint: 1,
            next_token: 0,
        };
        job.restart();
        job
    }

    fn restart(&mut self) {
        self.generation += 1;
        let generation = Generation::new(self.generation);
        let restored = self.durable.checkpoint;
        let restored = restored.map(|id| (id, self.durable.named.clone()));
        self.machine = Machine::new(generation, self.guarantee, retry(), restored);
        self.out = None;
        self.is_ready = false;
        self.attempts.clear();
        self.position = self.durable.position;
        let parallelism = 1 + self.random.below(4);
        let writer = |_| Writer {
            rows: Vec::new(),
            unsettled: Unsettled::new(),
        };
        self.writers = (0..parallelism).map(writer).collect();
        self.listen();
    }

    fn random_step(&mut self) {
        self.now = self.now + Duration::from_millis(self.random.below(10));
        match self.random.below(20) {
            0..6 => self.write(),
            6..9 => self.barrier(),
            9..12 => self.deliver(),
            12 => self.decline(),
            13..17 => self.answer_badly_perhaps(),
            17 | 18 => self.tell(Event::Woke),
            _ if self.random.below(3) == 0 => self.restart(),
            _ => {}
        }
    }

    fn write(&mut self) {
        if self.is_ready {
            let writer = self.random.below(self.writers.len() as u64) as usize;
            self.writers[writer].rows.push(self.position);
            self.position += 1;
        }
    }

    /// All writers prepare; their reports are on their way. Two checkpoints may be.
    fn barrier(&mut self) {
        if !self.is_ready || self.attempts.len() == 2 {
            return;
        }
        let checkpoint = CheckpointId::new(self.next_checkpoint);
        self.next_checkpoint += 1;
        let mut reports = Vec::new();
        for writer in &mut self.writers {
            let mut prepared = Vec::new();
            if !writer.rows.is_empty() {
                let token = self.next_token.to_be_bytes().to_vec();
                self.next_token += 1;
                let rows = std::mem::take(&mut writer.rows);
                self.server.insert(token.clone(), (Status::Prepared, rows));
                prepared.push(Prepared::new(checkpoint, token));
            }
            reports.push(writer.unsettled.report(prepared).to_vec());
        }
        self.attempts.push(Attempt {
            checkpoint,
            reports,
            position: self.position,
        });
    }

    /// One report arrives, in any order; the last one completes its checkpoint.
    fn deliver(&mut self) {
        if self.attempts.is_empty() {
            return;
        }
        let index = self.random.below(self.attempts.len() as u64) as usize;
        let count = self.attempts[index].reports.len() as u64;
        let which = self.random.below(count) as usize;
        let report = self.attempts[index].reports.swap_remove(which);
        self.tell(Event::Prepared(report));
        if self.attempts[index].reports.is_empty() {
            self.complete(index);
        }
    }

    fn complete(&mut self, index: usize) {
        let done = self.attempts.remove(index);
        let older = |one: &Attempt| one.checkpoint < done.checkpoint;
        self.attempts.retain(|one| !older(one)); // Subsumed.
        self.durable = Durable {
            checkpoint: Some(done.checkpoint),
            named: self.machine.seal(done.checkpoint),
            position: done.position,
        };
        if self.random.below(4) > 0 {
            self.tell(Event::Completed(done.checkpoint));
        }
        for writer in &mut self.writers {
            if self.random.below(4) > 0 {
                writer.unsettled.completed(done.checkpoint);
            }
        }
    }

    fn decline(&mut self) {
        if !self.attempts.is_empty() {
            let index = self.random.below(self.attempts.len() as u64) as usize;
            let declined = self.attempts.remove(index);
            self.tell(Event::NotCompleted(declined.checkpoint));
        }
    }

    fn tell(&mut self, event: Event) {
        let told = self.machine.handle(self.now, event);
        told.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.listen();
    }

    fn listen(&mut self) {
        let seed = self.seed;
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Call(id, call) => {
                    assert!(self.out.is_none(), "seed {seed}: two calls at a time");
                    self.out = Some((id, call));
                }
                Effect::Ready => self.is_ready = true,
                Effect::Released { before } => {
                    let is_named = self.durable.named.iter().any(|one| one.checkpoint < before);
                    assert!(
                        !is_named,
                        "seed {seed}: released before {before}, but named"
                    );
                }
                Effect::AllCommitted(checkpoint) => {
                    for one in self.durable.named.iter() {
                        let is_committed = self.server[&one.token].0 == Status::Committed;
                        let is_newer = one.checkpoint > checkpoint;
                        assert!(is_committed || is_newer, "seed {seed}: {one:?}");
                    }
                }
                Effect::Failed(failure) => panic!("seed {seed}: {failure}"),
            }
        }
    }

    fn answer_badly_perhaps(&mut self) {
        let Some((id, call)) = self.out.take() else {
            return;
        };
        let silence = Error::new("waiting", "lost");
        let reply = match self.random.below(6) {
            0 => call.unanswered(&silence),
            1 => {
                self.effect(&call);
                call.unanswered(&silence)
            }
            2 => match &call {
                Call::Commit(asked) => self.half_refused(asked),
                _ => call.unanswered(&silence),
            },
            _ => self.effect(&call),
        };
        self.tell(Event::Replied(id, reply));
    }

    fn half_refused(&mut self, asked: &[Prepared]) -> Reply {
        let mut verdicts = Vec::new();
        for one in asked {
            let is_prepared = self.server[&one.token].0 == Status::Prepared;
            verdicts.push(if is_prepared && self.random.below(2) == 0 {
                Verdict::NotCommitted(Error::new("committing", "busy"))
            } else {
                self.commit(one)
            });
        }
        Reply::Verdicts(verdicts)
    }

    fn commit(&mut self, one: &Prepared) -> Verdict {
        let (status, _) = self.server.get_mut(&one.token).expect("was prepared");
        match status {
            Status::Prepared => {
                *status = Status::Committed;
                Verdict::Committed
            }
            Status::Committed => Verdict::AlreadyCommitted,
            Status::Aborted => Verdict::Lost(Error::new("committing", "aborted")),
        }
    }

    fn effect(&mut self, call: &Call) -> Reply {
        match call {
            Call::Commit(asked) => {
                if self.guarantee == Guarantee::AtomicPerCheckpoint {
                    let is_one = asked.iter().all(|a| a.checkpoint == asked[0].checkpoint);
                    assert!(is_one, "seed {}: two checkpoints in one commit", self.seed);
                }
                Reply::Verdicts(asked.iter().map(|one| self.commit(one)).collect())
            }
            Call::Probe(asked) => {
                let probe = |one: &Prepared| match self.server[&one.token].0 {
                    Status::Prepared => Verdict::NotCommitted(Error::new("probing", "prepared")),
                    Status::Committed => Verdict::AlreadyCommitted,
                    Status::Aborted => Verdict::Lost(Error::new("probing", "aborted")),
                };
                Reply::Verdicts(asked.iter().map(probe).collect())
            }
            Call::Abort(_) => panic!("seed {}: nothing was aborted here", self.seed),
            Call::Fence(generation) => {
                assert_eq!(generation.get(), self.generation, "seed {}", self.seed);
                Reply::Done(Ok(()))
            }
            Call::Sweep => {
                assert!(!self.is_ready, "seed {}: a sweep under writers", self.seed);
                for (status, _) in self.server.values_mut() {
                    if *status == Status::Prepared {
                        *status = Status::Aborted;
                    }
                }
                Reply::Done(Ok(()))
            }
        }
    }

    fn visible(&self) -> Vec<u64> {
        let committed = self
            .server
            .values()
            .filter(|one| one.0 == Status::Committed);
        committed.flat_map(|one| one.1.iter().copied()).collect()
    }

    fn check(&self) {
        let mut visible = self.visible();
        visible.sort_unstable();
        let position = self.durable.position;
        let is_early = visible.last().is_some_and(|&last| last >= position);
        assert!(!is_early, "seed {}: visible beyond {position}", self.seed);
        let is_twice = visible.windows(2).any(|pair| pair[0] == pair[1]);
        assert!(!is_twice, "seed {}: visible twice", self.seed);
        let bound = self.server.len();
        assert!(
            self.machine.pending().count() <= bound,
            "seed {}",
            self.seed
        );
    }

    /// Nothing fails any more: the job takes one last checkpoint and settles.
    fn heal(&mut self) {
        let mut is_last_taken = false;
        for _ in 0..SETTLE_MAX {
            self.check();
            self.now = self.now + Duration::from_millis(20);
            if let Some((id, call)) = self.out.take() {
                let reply = self.effect(&call);
                self.tell(Event::Replied(id, reply));
            } else if !self.attempts.is_empty() {
                self.deliver();
            } else if self.is_ready && !is_last_taken {
                self.barrier();
                is_last_taken = true;
            } else if let Some(last) = self.durable.checkpoint.filter(|_| is_last_taken) {
                self.tell(Event::Completed(last)); // Its notice may have been lost.
                if self.machine.is_settled() {
                    return;
                }
            } else {
                self.tell(Event::Woke);
            }
        }
        panic!("seed {}: stuck after {SETTLE_MAX} steps", self.seed);
    }
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
