//! An engine of plain threads with exactly-once checkpoints: what it takes to use the crates.
//!
//! ```text
//!   this thread                                      one OS thread each
//!   source 0 ─┐ numbers, barriers       ┌─▶ worker 0: its key groups ─▶ writer 0
//!   source 1 ─┴───────── mpsc ──────────┴─▶ worker 1: its key groups ─▶ writer 1
//!   coordinator, store, committer ◀───────── mpsc ── parts of checkpoints ──┘
//! ```
//!
//! The job counts each number and writes `number * 1_000_000 + count` each time it comes: a row is
//! there once exactly if state, output and positions agree, whatever crashes. Nothing is async: a
//! `block_on` stands around the store and the sink. To stay short, channels have no bound.
#![warn(clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

use std::sync::{OnceLock, mpsc};
use std::{mem, path::Path, thread, time::Duration, time::Instant};

use cutwater_barrier::align::{self, Aligner, Channel};
use cutwater_barrier::coordinate::{Attempt, Config, Coordinator, Effect, Event, Plan, TaskId};
use cutwater_barrier::coordinate::{Request, RequestId};
use cutwater_barrier::{Barrier, CheckpointId, Then, Time};
use cutwater_keygroups::{Assignment, Key, KeyHash, MaxParallelism, range_of};
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
/// The state that holds what writers hand to their successors.
const WRITER: &str = "writer";
/// Fixed for the life of the job. The parallelism is free, up to this.
const MAX: MaxParallelism = MaxParallelism::default_for(1);
/// Between checkpoints, and how long this thread waits for anything.
const TICK: Duration = Duration::from_millis(1);

/// What flows through a channel. The hash is computed once and travels with the key.
#[derive(Clone)]
enum Item {
    Number(u64, KeyHash),
    Barrier(Barrier),
    Completed(CheckpointId),
}

/// A task's part of a checkpoint: its place in the metadata, and what its writer prepared.
type Part = (Subtask, Vec<Prepared>);

/// Counts what is in `inputs`, from the newest of the `checkpoints` on.
///
/// # Errors
///
/// Whatever fails first; run it again. `reached` hears of each checkpoint when it is "prepared", and
/// when it is "completed" and nothing of it is committed: its error stops the run as a kill would.
pub fn run<S: Sink<Record = u64>>(
    inputs: &[Vec<u64>],
    sink: &S,
    checkpoints: &Path,
    parallelism: u16,
    reached: impl Fn(&str) -> Result<()>,
) -> Result<()> {
    // Lead. From here on, an earlier run that still lives can complete nothing.
    let blobs = LocalBlobs::open(checkpoints)?;
    let mut store = block_on(CheckpointStore::open(blobs, Options::default()))?;
    let term = block_on(store.take_over())?;
    let (files, old) = (&store.files()?, block_on(store.load_latest())?);
    let old_of = |uid| old.iter().flat_map(move |old| old.subtasks_of(uid));
    let old_operator_states = || old_of(COUNT).map(|old| &old.operator_state);

    // Commit what that checkpoint names, and sweep what came after it. Only then may writers open.
    let mut context = CommitterContext::new("job", COUNT, term.generation);
    context.restored = OperatorStates::restore_list(COUNT, WRITER, 0, 1, old_operator_states())?;
    let named = old.iter().flat_map(Metadata::prepared);
    let named = named.map(|it| Prepared::new(it.checkpoint, it.token.clone()));
    let restored = old.as_ref().map(|old| (old.checkpoint, named.collect()));
    let mut committer = block_on(Driver::open(sink, context, Retry::default(), restored))?;
    settle(&mut committer, &mut store)?;

    // All tasks, and who sends to whom: a barrier starts at those without inputs.
    let mut plan = Plan::new();
    let sources: Vec<TaskId> = inputs.iter().map(|_| plan.task([])).collect();
    let tasks = (0..parallelism).map(|_| plan.task(sources.clone()));
    let tasks: Vec<TaskId> = tasks.collect();
    let attempt = Attempt::new(term.generation, term.first);
    let attempt = attempt.restored(old.as_ref().map(|old| old.checkpoint));
    let mut coordinator = Coordinator::new(Config::every(TICK), plan, attempt);
    let assignment = Assignment::contiguous(parallelism, MAX)?;
    let mut positions = vec![0; inputs.len()];
    for (position, old) in positions.iter_mut().zip(old_of(SOURCE)) {
        *position = usize::from_le_bytes(old.source.as_ref().try_into()?);
    }

    let (reporting, reports) = mpsc::channel();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (subtask, &task) in (0..).zip(&tasks) {
            // The state reads from all old subtasks what belongs to its key groups, nothing else.
            let handles = old_of(COUNT).flat_map(|old| &old.keyed);
            let old = handles.map(|handle| {
                let reader = files.reader(handle);
                Restored::new(&handle.manifest, move |name: &str, range| {
                    Result::Ok(block_on(reader.read(name, range))?)
                })
            });
            let groups = range_of(subtask, parallelism, MAX)?;
            let states = KeyedStates::restore(COUNT, groups, MAX, old)?;
            let context = WriterContext::new("job", COUNT, subtask, parallelism, term.generation);
            let old = old_operator_states();
            let pieces = OperatorStates::restore_list(COUNT, WRITER, subtask, parallelism, old)?;
            let writer = block_on(sink.writer(context, pieces))?;
            let (senders, inboxes): (Vec<_>, Vec<_>) =
                inputs.iter().map(|_| mpsc::channel()).unzip();
            workers.push(senders);
            let reports = reporting.clone();
            scope.spawn(move || {
                let report = |checkpoint, part| {
                    let acked = Event::acked(term.generation, checkpoint, task, part);
                    drop(reports.send(Ok(acked))); // Nobody listens after a crash.
                };
                if let Err(error) = work(states, writer, &inboxes, files, subtask, report) {
                    drop(reports.send(Err(error)));
                }
            });
        }
        // A worker that is gone has said why in its report.
        let tell_all = |source: usize, item: Item| {
            for worker in &workers {
                drop(worker[source].send(item.clone()));
            }
        };
        for &task in sources.iter().chain(&tasks) {
            coordinator.handle(now(), Event::Running { task })?;
        }
        let mut is_ending = false;
        loop {
            let mut patience = TICK;
            for (source, input) in inputs.iter().enumerate() {
                if let Some(number) = input.get(positions[source]) {
                    let hash = number.key_hash();
                    let owner = assignment.owner(u64::GROUPING.group(hash, MAX));
                    drop(workers[usize::from(owner)][source].send(Item::Number(*number, hash)));
                    positions[source] += 1;
                    patience = Duration::ZERO;
                }
            }
            if !patience.is_zero() && !mem::replace(&mut is_ending, true) {
                let last = Request::checkpoint(RequestId(0)).then(Then::Drain);
                coordinator.handle(now(), Event::Requested(last))?;
            }
            let event = reports.recv_timeout(patience).unwrap_or(Ok(Event::Woke))?;
            coordinator.handle(now(), event)?;
            // One at a time: so there are numbers between the barriers of the two sources.
            match coordinator.poll() {
                // The barrier goes behind what was sent so far, and the position says what that is.
                Some(Effect::Trigger { task, barrier }) => {
                    tell_all(task.0, Item::Barrier(barrier));
                    let mut part = Part::default();
                    part.0.source = positions[task.0].to_le_bytes().to_vec().into();
                    let id = barrier.checkpoint;
                    coordinator.handle(now(), Event::acked(term.generation, id, task, part))?;
                }
                Some(Effect::Decide(decision)) => {
                    let (checkpoint, kind) = (decision.barrier.checkpoint, decision.barrier.kind);
                    let mut source = Operator::new("read");
                    let mut count = Operator::keyed("count", &assignment, u64::GROUPING);
                    for report in decision.reports {
                        let (subtask, prepared) = report.part;
                        let is_source = report.task.0 < inputs.len();
                        let operator = if is_source { &mut source } else { &mut count };
                        operator.subtasks.push(subtask);
                        committer.handle(now(), sink_2pc::Event::Prepared(prepared))?;
                    }
                    // Its committer knows what a sink has to commit: also what is left from before.
                    let sealed = committer.seal(checkpoint).into_iter();
                    let sealed = sealed.map(|it| PreparedTransaction::new(it.checkpoint, it.token));
                    count.prepared = sealed.collect();
                    let mut metadata = Metadata::new("job", checkpoint, term.generation, kind);
                    let operators = [(SOURCE, source), (COUNT, count)];
                    metadata.operators = operators.map(|(uid, it)| (uid.to_owned(), it)).into();
                    reached("prepared")?;
                    block_on(store.complete(&metadata))?; // The decision.
                    reached("completed")?;
                    coordinator.handle(now(), Event::Decided { checkpoint })?;
                }
                Some(Effect::NotifyComplete { checkpoint, .. }) => {
                    block_on(store.check_leading())?;
                    tell_all(0, Item::Completed(checkpoint));
                    committer.handle(now(), sink_2pc::Event::Completed(checkpoint))?;
                    settle(&mut committer, &mut store)?;
                    block_on(store.apply_retention())?;
                }
                Some(Effect::End { .. }) => return Ok(()), // The workers' channels end with this.
                Some(Effect::FailJob(failure)) => return Err(failure.into()),
                Some(Effect::Answer { outcome, .. }) => {
                    outcome?;
                }
                // A checkpoint that fails is followed by `FailJob`, and the next run sweeps up.
                Some(Effect::NotifyAborted { .. } | Effect::NotifySubsumed { .. }) | None => {}
                Some(Effect::Discard { .. } | Effect::Leave { .. }) => {}
            }
        }
    })
}

/// Has the committer do what is due, until all that is decided is confirmed.
fn settle<C: Committer>(committer: &mut Driver<C>, store: &mut CheckpointStore) -> Result<()> {
    loop {
        match block_on(committer.advance(&now))? {
            Some(Notice::AllCommitted(checkpoint)) => block_on(store.committed(checkpoint))?,
            Some(Notice::Failed(failure)) => return Err(failure.into()),
            Some(Notice::Ready | Notice::Released { .. }) => {} // Ids are not used twice here.
            None if committer.machine().is_settled() => return Ok(()),
            None => thread::park_timeout(TICK), // A retry is not due yet.
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an engine reads the clock")]
fn now() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    Time::new(START.get_or_init(Instant::now).elapsed())
}

/// A worker: counts until nobody can send to it any more.
fn work(
    mut states: KeyedStates<u64>,
    mut writer: impl Writer<Record = u64>,
    inboxes: &[mpsc::Receiver<Item>],
    store: &StateFiles,
    index: u16,
    report: impl Fn(CheckpointId, Part),
) -> Result<()> {
    let count = states.value::<u64>("count")?;
    let mut aligner = Aligner::new(inboxes.len());
    // In turn, without those that are blocked: what is in there belongs to the next checkpoint.
    for channel in (0..inboxes.len()).map(Channel).cycle() {
        if aligner.is_blocked(channel) {
            continue;
        }
        match inboxes[channel.0].recv() {
            Ok(Item::Number(number, hash)) => {
                let count = &mut states[count];
                let count = count.or_insert_with(Keyed::with_hash(&number, hash), || 0)?;
                *count += 1;
                block_on(writer.write(now(), &mut vec![number * 1_000_000 + *count]))?;
            }
            Ok(Item::Barrier(barrier)) => {
                aligner.handle(now(), align::Event::Barrier { channel, barrier })?;
            }
            Ok(Item::Completed(checkpoint)) => states.confirmed(checkpoint),
            Err(_) => return Ok(()),
        }
        while let Some(effect) = aligner.poll() {
            let barrier = match effect {
                align::Effect::Snapshot(barrier) => barrier,
                align::Effect::Abort { .. } => return Err("a checkpoint was given up".into()),
                // Nothing is downstream, and `is_blocked` is asked anyway.
                align::Effect::Forward(_) | align::Effect::ForwardCancel(_) => continue,
                align::Effect::Resume | align::Effect::Acknowledge { .. } => continue,
                align::Effect::Capture { .. } => unreachable!("checkpoints are aligned"),
            };
            let checkpoint = barrier.checkpoint;
            let flushed = block_on(writer.prepare(now(), checkpoint, barrier.then.into()))?;
            let fixed = states.snapshot(checkpoint);
            // From here on it could go on counting, while another thread stores what is fixed.
            let mut files = Vec::new();
            let snapshot = fixed.run(&mut |file| {
                let stored = store.store(checkpoint, COUNT, index, &file.name, file.bytes);
                files.push(block_on(stored)?);
                Ok(())
            })?;
            let mut subtask = Subtask::default();
            let handle = KeyedHandle::new(vec![snapshot.groups], snapshot.manifest, files);
            subtask.keyed.push(handle);
            let pieces = OperatorStates::snapshot_list(COUNT, WRITER, flushed.state)?;
            subtask.operator_state = pieces.into();
            report(checkpoint, (subtask, flushed.prepared));
        }
    }
    Ok(())
}
