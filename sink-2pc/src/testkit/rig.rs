//! A job just large enough to stop anywhere: a counting source, writers, a checkpoint, a committer.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use cutwater_barrier::{CheckpointId, Generation, Time};

use super::{
    Target,
    watched::{Ledger, Lose, Watched},
};
use crate::{
    Committer, CommitterContext, Driver, Event, Input, Machine, Notice, Prepared, Retry, Sink,
    Unsettled, Writer, WriterContext,
};

/// A sink that has not settled after this many calls is stuck. The longest check needs 9.
const ADVANCES_MAX: u32 = 100;

/// What survives a stop: the last completed checkpoint, and the kit's own counts.
#[derive(Clone, Debug)]
pub(super) struct Durable {
    job: &'static str,
    generation: Generation,
    next_checkpoint: CheckpointId,
    completed: Option<Cut>,
    first: u64,
    pub(super) ledger: Ledger,
}

/// A checkpoint: complete once the rig has been told so.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) checkpoint: CheckpointId,
    pub(super) prepared: Vec<Prepared>,
    state: Vec<Vec<u8>>,
    position: u64,
}

impl Durable {
    /// A job whose source counts from `first`.
    pub(super) fn new(job: &'static str, first: u64) -> Self {
        Self {
            job,
            generation: Generation::new(0),
            next_checkpoint: CheckpointId::new(1),
            completed: None,
            first,
            ledger: Ledger::default(),
        }
    }

    /// The transactions that the last completed checkpoint names.
    pub(super) fn prepared(&self) -> Vec<Prepared> {
        self.completed
            .as_ref()
            .map_or_else(Vec::new, |cut| cut.prepared.clone())
    }

    /// How far the source had come at the last completed checkpoint.
    pub(super) fn position(&self) -> u64 {
        self.completed
            .as_ref()
            .map_or(self.first, |cut| cut.position)
    }
}

type SinkOf<T> = <T as Target>::Sink;

pub(super) struct Rig<'a, T: Target> {
    target: &'a T,
    pub(super) durable: Durable,
    writers: Vec<<SinkOf<T> as Sink>::Writer>,
    unsettled: Vec<Unsettled>,
    pub(super) driver: Driver<Watched<<SinkOf<T> as Sink>::Committer>>,
    pub(super) lose: Arc<Mutex<Lose>>,
    clock: AtomicU64,
    position: u64,
}

impl<'a, T: Target> Rig<'a, T> {
    /// Starts the next generation from what is durable: commit, fence, sweep, then open writers.
    pub(super) async fn start(
        target: &'a T,
        mut durable: Durable,
        parallelism: u16,
    ) -> Result<Self, String> {
        durable.generation = durable.generation.next();
        // Ids of a generation that failed are never used again.
        durable.next_checkpoint = CheckpointId::new(durable.next_checkpoint.get() + 100);
        let sink = target.sink();
        let generation = durable.generation;
        let (guarantee, retry) = (sink.guarantee(), Retry::default());
        let state = durable
            .completed
            .as_ref()
            .map_or_else(Vec::new, |cut| cut.state.clone());
        let restored = durable.completed.as_ref();
        let restored = restored.map(|cut| (cut.checkpoint, cut.prepared.clone()));
        let machine = Machine::new(generation, guarantee, retry, restored);
        let mut context = CommitterContext::new(durable.job, "sink", generation);
        context.restored.clone_from(&state);
        let committer = sink.committer(context).await.map_err(told)?;
        let lose = Arc::new(Mutex::new(Lose::Nothing));
        let watched = Watched::new(committer, durable.ledger.clone(), lose.clone());
        let mut rig = Self {
            target,
            position: durable.position(),
            durable,
            writers: Vec::new(),
            unsettled: vec![Unsettled::new(); parallelism.into()],
            driver: Driver::new(machine, watched),
            lose,
            clock: AtomicU64::new(0),
        };
        rig.settle().await?;
        for subtask in 0..parallelism {
            // Each piece goes to one subtask, dealt out like operator list state.
            let dealt = state.iter().skip(subtask.into());
            let dealt = dealt.step_by(parallelism.into());
            let restored = dealt.cloned().collect();
            let (job, uid) = (rig.durable.job, "sink");
            let context = WriterContext::new(job, uid, subtask, parallelism, generation);
            let writer = sink.writer(context, restored).await.map_err(told)?;
            rig.writers.push(writer);
        }
        Ok(rig)
    }

    /// Stops here, as a killed process does, and leaves what is durable.
    pub(super) fn crash(self) -> Durable {
        self.durable
    }

    /// Writes the next `count` records, dealt out over the writers.
    pub(super) async fn write(&mut self, count: u64) -> Result<(), String> {
        let now = self.now();
        for _ in 0..count {
            let subtask = usize::try_from(self.position).expect("small") % self.writers.len();
            let mut batch = vec![self.target.record(self.position)];
            let writer = &mut self.writers[subtask];
            writer.write(now, &mut batch).await.map_err(told)?;
            ensure(batch.is_empty(), || {
                "write left records in its batch".into()
            })?;
            self.position += 1;
        }
        Ok(())
    }

    /// Has all writers prepare the next checkpoint. It is not complete yet.
    pub(super) async fn prepare(&mut self, input: Input) -> Result<Cut, String> {
        let now = self.now();
        let checkpoint = self.durable.next_checkpoint;
        self.durable.next_checkpoint = checkpoint.next();
        let mut state = Vec::new();
        for (writer, unsettled) in self.writers.iter_mut().zip(&mut self.unsettled) {
            let flushed = writer.prepare(now, checkpoint, input).await;
            let flushed = flushed.map_err(told)?;
            ensure(
                flushed
                    .prepared
                    .iter()
                    .all(|one| one.checkpoint == checkpoint),
                || format!("prepare({checkpoint}) gave a transaction of another checkpoint"),
            )?;
            let ledger = &self.durable.ledger;
            let is_new = |one: &Prepared| ledger.is_new(&one.token);
            ensure(flushed.prepared.iter().all(is_new), || {
                format!("prepare({checkpoint}) gave a token that another transaction has had")
            })?;
            state.extend(flushed.state);
            let report = unsettled.report(flushed.prepared).to_vec();
            self.driver
                .handle(now, Event::Prepared(report))
                .map_err(told)?;
        }
        Ok(Cut {
            checkpoint,
            prepared: self.driver.seal(checkpoint),
            state,
            position: self.position,
        })
    }

    /// Makes the checkpoint complete. The committer does not know yet.
    pub(super) fn complete(&mut self, cut: Cut) {
        for unsettled in &mut self.unsettled {
            unsettled.completed(cut.checkpoint);
        }
        self.durable.completed = Some(cut);
    }

    /// Tells the committer of the last completed checkpoint, and waits until all is confirmed.
    pub(super) async fn commit(&mut self) -> Result<(), String> {
        let cut = self.durable.completed.as_ref().expect("completed before");
        let event = Event::Completed(cut.checkpoint);
        self.driver.handle(self.now(), event).map_err(told)?;
        self.settle().await
    }

    /// The same for one checkpoint from prepare to commit.
    pub(super) async fn checkpoint(&mut self, input: Input) -> Result<(), String> {
        let cut = self.prepare(input).await?;
        self.complete(cut);
        self.commit().await
    }

    /// Tells the committer, which only gets as far as its first call: then the process is gone.
    pub(super) async fn commit_and_lose_the_reply(&mut self) -> Result<(), String> {
        let cut = self.durable.completed.as_ref().expect("completed before");
        let event = Event::Completed(cut.checkpoint);
        *self.lose.lock().expect("no holder panics") = Lose::Reply;
        self.driver.handle(self.now(), event).map_err(told)?;
        while self.step().await? {
            // What there is to tell comes before the call, whose silence ends the step.
        }
        Ok(())
    }

    /// Runs the committer until everything decided is confirmed.
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        for _ in 0..ADVANCES_MAX {
            while self.step().await? {}
            match self.driver.deadline() {
                Some(at) => {
                    let millis = at.since_start().as_millis();
                    let millis = u64::try_from(millis).expect("a short check");
                    self.clock.fetch_max(millis, Ordering::Relaxed);
                }
                None => {
                    let is_settled = self.driver.machine().is_settled();
                    return ensure(is_settled, || "a call got no reply".into());
                }
            }
        }
        Err(format!("not settled after {ADVANCES_MAX} rounds"))
    }

    /// Carries out what is due. Whether there was something to tell, and so may be more.
    async fn step(&mut self) -> Result<bool, String> {
        let clock = &self.clock;
        let clock = || Time::from_millis(clock.load(Ordering::Relaxed));
        match self.driver.advance(&clock).await.map_err(told)? {
            None => Ok(false),
            Some(Notice::Failed(failure)) => Err(told(failure)),
            Some(Notice::Released { before }) => {
                for writer in &mut self.writers {
                    writer.released(before).await.map_err(told)?;
                }
                Ok(true)
            }
            Some(Notice::Ready | Notice::AllCommitted(_)) => Ok(true),
        }
    }

    pub(super) fn now(&self) -> Time {
        Time::from_millis(self.clock.fetch_add(1, Ordering::Relaxed))
    }
}

/// The committer of `durable`'s generation once more, as a zombie would still hold it.
pub(super) async fn zombie_committer<T: Target>(
    target: &T,
    durable: &Durable,
) -> Result<impl Committer + use<T>, String> {
    let context = CommitterContext::new(durable.job, "sink", durable.generation);
    target.sink().committer(context).await.map_err(told)
}

pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// An error with all its sources on one line.
pub(super) fn told(error: impl std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line = format!("{line}: {error}");
        source = error.source();
    }
    line
}

impl<T: Target> fmt::Debug for Rig<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig")
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}
