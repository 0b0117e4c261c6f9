//! An engine of plain threads with exactly-once checkpoints: what it takes to use the crates.
//!
//! ```text
//!   this thread                                            one OS thread each
//!   source 0 ─┐ numbers, barriers             ┌─▶ worker 0: its key groups ─▶ writer 0
//!   source 1 ─┴──────────── mpsc ─────────────┴─▶ worker 1: its key groups ─▶ writer 1
//!   coordinator, store, committer ◀── mpsc ── parts of checkpoints ──┘
//! ```
//!
//! The job counts each number and writes `number * 1_000_000 + count` each time it comes: a row is
//! there once exactly if state, output and positions agree, whatever crashes. Nothing is async: a
//! `block_on` stands around the store and the sink.
#![warn(clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::{collections::VecDeque, mem, path::Path, thread, time::Duration, time::Instant};

use cutwater_barrier::align::{self, Channel};
use cutwater_barrier::coordinate::{Attempt, Config, Decision, Effect, Event, Plan, TaskId};
use cutwater_barrier::coordinate::{Request, RequestId};
use cutwater_barrier::{
    Aligner, Barrier, CheckpointId, Coordinator, Generation, Then, Time, stats::TaskStats,
};
use cutwater_keygroups::{Assignment, Key, KeyHash, MaxParallelism};
use cutwater_sink_2pc::{self as sink_2pc, Committer, CommitterContext, Driver, Notice, Prepared};
use cutwater_sink_2pc::{Retry, Sink, Writer, WriterContext};
use cutwater_state::{BoxError, Keyed, KeyedStates, OperatorStates, Restored};
use cutwater_storage::{CheckpointStore, KeyedHandle, LocalBlobs, Metadata, Operator, Options};
use cutwater_storage::{PreparedTransaction, StateFiles, Subtask};
use futures::executor::block_on;

/// Crates say precisely what went wrong, an engine mostly passes it on.
pub type Result<T> = std::result::Result<T, BoxError>;

/// The operator uids, by which a restore finds what is whose.
const SOURCE: &str = "numbers";
const COUNT: &str = "count";
/// Fixed for the life of the job. The parallelism is free, up to this.
const MAX: MaxParallelism = MaxParallelism::default_for(1);

/// Where a run stops as if it were killed: at its first checkpoint, which is half done then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "before the decision, and after it")]
pub enum Crash {
    /// All output is prepared, all state is stored, and the checkpoint is not complete.
    BeforeComplete,
    /// The checkpoint is complete, and nothing of it is committed.
    BeforeCommit,
}

/// What a worker hears.
#[derive(Clone)]
enum Message {
    In(Channel, Item),
    Completed(CheckpointId),
    Released(CheckpointId),
}

/// What flows through a channel. The hash is computed once and travels with the key.
#[derive(Clone)]
enum Item {
    Number(u64, KeyHash),
    Barrier(Barrier),
}

/// What a task contributes to a checkpoint: its place in the metadata, and what its writer prepared.
type Part = (Subtask, Vec<Prepared>);

/// Counts what is in `inputs` from the newest of the `checkpoints` on. Whether it came to the end: if
/// not, it crashed as asked. After an error, run it again.
///
/// # Errors
///
/// Whatever crate, thread or user code fails.
pub fn run<S: Sink<Record = u64>>(
    inputs: &[Vec<u64>],
    sink: &S,
    checkpoints: &Path,
    parallelism: u16,
    crash: Option<Crash>,
) -> Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "an engine reads the clock")]
    let start = Instant::now();
    let clock = move || Time::new(start.elapsed());

    // Lead. From here on, an earlier run that still lives can complete nothing.
    let blobs = LocalBlobs::open(checkpoints)?;
    let mut store = block_on(CheckpointStore::open(blobs, Options::default()))?;
    let term = block_on(store.take_over())?;
    let old = block_on(store.load_latest())?;
    let subtasks = |uid| {
        old.as_ref()
            .map_or(&[][..], |old| &old.operators[uid].subtasks)
    };

    // Commit what that checkpoint names, and sweep what came after it. Only then may writers open.
    let mut context = CommitterContext::new("job", COUNT, term.generation);
    context.restored = writer_state(subtasks(COUNT), 0, 1)?;
    let named = old.iter().flat_map(Metadata::prepared);
    let named = named.map(|it| Prepared::new(it.checkpoint, it.token.clone()));
    let restored = old.as_ref().map(|old| (old.checkpoint, named.collect()));
    let mut committer = block_on(Driver::open(sink, context, Retry::default(), restored))?;
    settle(&mut committer, &mut store, &[], &clock)?;

    // All tasks, and who sends to whom: a barrier starts at those without inputs.
    let mut plan = Plan::new();
    let sources: Vec<TaskId> = inputs.iter().map(|_| plan.task([])).collect();
    let tasks: Vec<TaskId> = (0..parallelism)
        .map(|_| plan.task(sources.clone()))
        .collect();
    let attempt = Attempt::new(term.generation, term.first);
    let attempt = attempt.restored(old.as_ref().map(|old| old.checkpoint));
    let mut coordinator = Coordinator::new(Config::every(Duration::from_millis(1)), plan, attempt);
    let assignment = Assignment::contiguous(parallelism, MAX)?;
    let mut positions = vec![0; inputs.len()];
    for (position, old) in positions.iter_mut().zip(subtasks(SOURCE)) {
        *position = u64::from_le_bytes(old.source.as_ref().try_into()?) as usize;
    }
    let (reporting, reports) = mpsc::channel();

    thread::scope(|scope| {
        let (mut workers, mut threads) = (Vec::new(), Vec::new());
        for (subtask, &task) in (0..).zip(&tasks) {
            let groups = assignment
                .range(subtask)
                .ok_or("a worker without key groups")?;
            let (files, reports) = (store.files()?, reporting.clone());
            // The state reads from all old subtasks what belongs to its key groups, nothing else.
            let handles = subtasks(COUNT).iter().flat_map(|old| &old.keyed);
            let old = handles.map(|handle| {
                let reader = files.reader(handle);
                Restored::new(&handle.manifest, move |name: &str, range| {
                    Result::Ok(block_on(reader.read(name, range))?)
                })
            });
            let states = KeyedStates::restore(COUNT, groups, MAX, old)?;
            let context = WriterContext::new("job", COUNT, subtask, parallelism, term.generation);
            let pieces = writer_state(subtasks(COUNT), subtask, parallelism)?;
            let writer = block_on(sink.writer(context.clone(), pieces))?;
            let worker = Worker {
                task,
                context,
                files,
                states,
                writer,
                reports,
            };
            let (sender, inbox) = mpsc::sync_channel(100);
            workers.push(sender);
            threads.push(scope.spawn(move || worker.run(inputs.len(), inbox, clock)));
        }
        let mut drive = || {
            for &task in sources.iter().chain(&tasks) {
                coordinator.handle(clock(), Event::Running { task })?;
            }
            let mut is_ending = false;
            while threads.iter().all(|thread| !thread.is_finished()) {
                let mut patience = Duration::from_millis(1);
                for (source, input) in inputs.iter().enumerate() {
                    let Some(number) = input.get(positions[source]) else {
                        continue;
                    };
                    let hash = number.key_hash();
                    let owner = assignment.owner(u64::GROUPING.group(hash, MAX));
                    let message = Message::In(Channel(source), Item::Number(*number, hash));
                    workers[usize::from(owner)].send(message)?;
                    positions[source] += 1;
                    patience = Duration::ZERO;
                }
                if !patience.is_zero() && !mem::replace(&mut is_ending, true) {
                    let last = Request::checkpoint(RequestId(0)).then(Then::Drain);
                    coordinator.handle(clock(), Event::Requested(last))?;
                }
                let event = reports.recv_timeout(patience).unwrap_or(Event::Woke);
                coordinator.handle(clock(), event)?;
                // One at a time: so numbers come between the barriers of the two sources.
                match coordinator.poll() {
                    // The barrier goes behind what was sent so far, and the position says what that is.
                    Some(Effect::Trigger { task, barrier }) => {
                        tell(
                            &workers,
                            &Message::In(Channel(task.0), Item::Barrier(barrier)),
                        )?;
                        let mut part = Part::default();
                        part.0.source = (positions[task.0] as u64).to_le_bytes().to_vec().into();
                        let event = acked(term.generation, task, barrier, part);
                        coordinator.handle(clock(), event)?;
                    }
                    Some(Effect::Decide(decision)) => {
                        let checkpoint = decision.barrier.checkpoint;
                        let metadata = metadata(decision, &assignment, &mut committer, clock())?;
                        if crash == Some(Crash::BeforeComplete) {
                            return Ok(false);
                        }
                        block_on(store.complete(&metadata))?; // The decision.
                        if crash == Some(Crash::BeforeCommit) {
                            return Ok(false);
                        }
                        coordinator.handle(clock(), Event::Decided { checkpoint })?;
                    }
                    Some(Effect::NotifyComplete { checkpoint, .. }) => {
                        block_on(store.check_leading())?;
                        tell(&workers, &Message::Completed(checkpoint))?;
                        committer.handle(clock(), sink_2pc::Event::Completed(checkpoint))?;
                        settle(&mut committer, &mut store, &workers, &clock)?;
                        block_on(store.apply_retention())?;
                    }
                    Some(Effect::End { .. }) => return Ok(true),
                    Some(Effect::FailJob(failure)) => return Err(failure.into()),
                    // A checkpoint that fails is followed by `FailJob`, and the next run sweeps up.
                    _ => {}
                }
            }
            Err("a worker has ended".into())
        };
        let is_finished = drive();
        drop(workers); // A worker ends when nobody can send to it any more.
        for thread in threads {
            thread.join().map_err(|_| "a worker panicked")??;
        }
        is_finished
    })
}

/// Has the committer do what is due until all that is decided is confirmed, and the job waits for it.
fn settle<C: Committer>(
    committer: &mut Driver<C>,
    store: &mut CheckpointStore,
    workers: &[SyncSender<Message>],
    clock: &(impl Fn() -> Time + Sync),
) -> Result<()> {
    loop {
        match block_on(committer.advance(clock))? {
            Some(Notice::Ready) => {}
            Some(Notice::AllCommitted(checkpoint)) => block_on(store.committed(checkpoint))?,
            Some(Notice::Released { before }) => tell(workers, &Message::Released(before))?,
            Some(Notice::Failed(failure)) => return Err(failure.into()),
            None if committer.machine().is_settled() => return Ok(()),
            None => thread::park_timeout(Duration::from_millis(1)), // A retry is not due yet.
        }
    }
}

/// What makes `decision` a checkpoint, once it is complete.
fn metadata<C: Committer>(
    decision: Decision<Part>,
    assignment: &Assignment,
    committer: &mut Driver<C>,
    now: Time,
) -> Result<Metadata> {
    let barrier = decision.barrier;
    let mut source = Operator::new("read");
    let mut count = Operator::keyed("count and write", assignment, u64::GROUPING);
    for report in decision.reports {
        let (subtask, prepared) = report.part;
        let operator = if subtask.keyed.is_empty() {
            &mut source
        } else {
            &mut count
        };
        operator.subtasks.push(subtask);
        committer.handle(now, sink_2pc::Event::Prepared(prepared))?;
    }
    // The committer knows best what is to be committed: also what an earlier checkpoint has left.
    let sealed = committer.seal(barrier.checkpoint).into_iter();
    count.prepared = sealed
        .map(|it| PreparedTransaction::new(it.checkpoint, it.token))
        .collect();
    let mut metadata = Metadata::new("job", barrier.checkpoint, decision.generation, barrier.kind);
    metadata.operators = [(SOURCE.to_owned(), source), (COUNT.to_owned(), count)].into();
    Ok(metadata)
}

/// What writers left for their successors, dealt out anew: the part of `subtask`.
fn writer_state(old: &[Subtask], subtask: u16, parallelism: u16) -> Result<Vec<Vec<u8>>> {
    let old = old.iter().map(|old| &old.operator_state);
    let mut states = OperatorStates::restore(COUNT, subtask, parallelism, old)?;
    let pieces = states.list("writer")?;
    Ok(mem::take(&mut states[pieces]))
}

fn tell(workers: &[SyncSender<Message>], message: &Message) -> Result<()> {
    workers
        .iter()
        .try_for_each(|worker| Ok(worker.send(message.clone())?))
}

struct Worker<W> {
    task: TaskId,
    context: WriterContext,
    files: StateFiles,
    states: KeyedStates<u64>,
    writer: W,
    reports: Sender<Event<Part>>,
}

impl<W: Writer<Record = u64>> Worker<W> {
    /// Counts until nobody can send to `inbox` any more.
    fn run(
        mut self,
        channels: usize,
        inbox: Receiver<Message>,
        clock: impl Fn() -> Time,
    ) -> Result<()> {
        let count = self.states.value::<u64>("count")?;
        let mut aligner = Aligner::new(channels);
        let mut held_back = VecDeque::new();
        for message in inbox {
            match message {
                Message::Completed(checkpoint) => self.states.confirmed(checkpoint),
                Message::Released(before) => block_on(self.writer.released(before))?,
                Message::In(channel, item) => held_back.push_back((channel, item)),
            }
            // The oldest item of a channel that is not blocked: order is kept within each channel.
            while let Some(at) = held_back
                .iter()
                .position(|(channel, _)| !aligner.is_blocked(*channel))
            {
                match held_back.remove(at).expect("found just now") {
                    (_, Item::Number(number, hash)) => {
                        let count = &mut self.states[count];
                        let count = count.or_insert_with(Keyed::with_hash(&number, hash), || 0)?;
                        *count += 1;
                        let mut batch = vec![number * 1_000_000 + *count];
                        block_on(self.writer.write(clock(), &mut batch))?;
                    }
                    (channel, Item::Barrier(barrier)) => {
                        aligner.handle(clock(), align::Event::Barrier { channel, barrier })?;
                    }
                }
                while let Some(effect) = aligner.poll() {
                    match effect {
                        align::Effect::Snapshot { barrier, .. } => {
                            self.snapshot(barrier, clock())?;
                        }
                        align::Effect::Abort { .. } => {
                            return Err("a checkpoint was given up".into());
                        }
                        // Nothing is downstream, and `is_blocked` is asked before each item anyway.
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Flushes the writer, fixes the state, stores it and acknowledges. Only the first two have to be
    /// done here: what `KeyedStates::snapshot` returns could go to another thread.
    fn snapshot(&mut self, barrier: Barrier, now: Time) -> Result<()> {
        let checkpoint = barrier.checkpoint;
        let flushed = block_on(self.writer.prepare(now, checkpoint, barrier.then.into()))?;
        let mut pieces = OperatorStates::new(COUNT);
        let list = pieces.list("writer")?;
        pieces[list] = flushed.state;
        let (mut files, index) = (Vec::new(), self.context.subtask);
        let snapshot = self.states.snapshot(checkpoint).run(&mut |file| {
            let stored = self
                .files
                .store(checkpoint, COUNT, index, &file.name, file.bytes);
            files.push(block_on(stored)?);
            Ok(())
        })?;
        let mut subtask = Subtask::default();
        let handle = KeyedHandle::new(vec![snapshot.groups], snapshot.manifest, files);
        subtask.keyed.push(handle);
        subtask.operator_state = pieces.snapshot()?.into();
        let part = (subtask, flushed.prepared);
        self.reports
            .send(acked(self.context.generation, self.task, barrier, part))?;
        Ok(())
    }
}

fn acked(generation: Generation, task: TaskId, barrier: Barrier, part: Part) -> Event<Part> {
    let (checkpoint, stats) = (barrier.checkpoint, TaskStats::default());
    Event::Acked {
        generation,
        checkpoint,
        task,
        part,
        stats,
    }
}
