//! An engine in one file: two OS threads, channels of the standard library, and the crates.

#![doc = include_str!("../README.md")]
#![warn(clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{OnceLock, mpsc};
use std::{collections::BTreeMap, thread, time::Duration, time::Instant};

use cutwater_barrier::align::{self, Aligner, Channel, Reading};
use cutwater_barrier::coordinate::{Attempt, Config, Coordinator, Effect, Event, Plan, TaskId};
use cutwater_barrier::{Barrier, CheckpointId, Time};
use cutwater_keygroups::{Assignment, Key, KeyHash, MaxParallelism, range_of};
use cutwater_sink_2pc::{self as sink_2pc, CommitterContext, Driver, Prepared, Retry, Sink};
use cutwater_sink_2pc::{Writer, WriterContext};
use cutwater_state::{BoxError, Keyed, KeyedStates, NewFile, OperatorStates, Restored, Store};
use cutwater_storage::{Blobs, CheckpointStore, HandleWriter, Metadata, Operator, Options};
use cutwater_storage::{RestorePoint, Subtask};
use futures::executor::block_on;

/// Crates say precisely what went wrong, an engine mostly passes it on.
pub type Result<T> = std::result::Result<T, BoxError>;

/// Fixed for the life of the job. The parallelism is free, up to this.
const MAX: MaxParallelism = MaxParallelism::default_for(1);
/// Between checkpoints, and how long anybody waits for anything.
const TICK: Duration = Duration::from_millis(1);

/// What flows through a channel. The hash is computed once and travels with the key.
enum Item {
    Number(u64, KeyHash),
    Barrier(Barrier),
    Completed(CheckpointId),
}

/// From a worker: how it goes, with its part of a checkpoint for the metadata and for the committer.
type Report = Result<Event<(Subtask, Vec<Prepared>)>>;

/// Counts what is in `inputs`, from the newest checkpoint in `blobs` on. After an error, run it again.
pub fn run<S>(inputs: &[Vec<u64>], sink: &S, blobs: impl Blobs, parallelism: u16) -> Result<()>
where
    S: Sink<Record = u64>,
{
    // Lead. From here on, an earlier run that still lives can complete nothing.
    let mut store = block_on(CheckpointStore::open(blobs, Options::default()))?;
    let term = block_on(store.take_over())?;
    let old = &block_on(store.restore_latest())?;

    // Commit what that checkpoint names, and sweep what came after it. Only then may writers open.
    let context = CommitterContext::new("job", "count", term.generation);
    let context = context.with_restored(old.pieces("count", 0, 1));
    let named = old.prepared("count").map(Prepared::from).collect();
    let named = old.checkpoint().map(|checkpoint| (checkpoint, named));
    let mut committer = block_on(Driver::open(sink, context, Retry::default(), named))?;
    block_on(committer.settle(&now, async |wait| thread::park_timeout(wait)))?;

    // A barrier starts at the workers: the sources are right here, beside the coordinator.
    let read = [old.coordinator("read")];
    let mut positions = OperatorStates::restore_list("read", "positions", 0, 1, read)?;
    positions.resize(inputs.len(), 0_usize);
    let mut plan = Plan::new();
    let tasks: Vec<TaskId> = (0..parallelism).map(|_| plan.task([])).collect();
    let attempt = Attempt::new(term.generation, term.first).restored(old.checkpoint());
    let mut coordinator = Coordinator::new(Config::every(TICK), plan, attempt);
    let assignment = Assignment::contiguous(parallelism, MAX)?;

    thread::scope(|scope| {
        let (reporting, reports) = mpsc::channel();
        let (mut channels, mut cuts) = (Vec::new(), BTreeMap::new());
        for subtask in 0..parallelism {
            let (to, from): (Vec<_>, Vec<_>) = inputs.iter().map(|_| mpsc::channel()).unzip();
            let me = WriterContext::new("job", "count", subtask, parallelism, term.generation);
            let reports = reporting.clone();
            scope.spawn(move || {
                let ended = AssertUnwindSafe(|| work(me, old, sink, &from, &reports));
                let ended = catch_unwind(ended).unwrap_or(Err("a worker panicked".into()));
                drop(reports.send(ended.map(|()| Event::Woke)));
            });
            channels.push(to);
        }
        loop {
            let mut patience = TICK;
            for (source, input) in inputs.iter().enumerate() {
                if let Some(number) = input.get(positions[source]) {
                    let hash = number.key_hash();
                    let owner = usize::from(assignment.owner(u64::GROUPING.group(hash, MAX)));
                    drop(channels[owner][source].send(Item::Number(*number, hash)));
                    positions[source] += 1;
                    patience = Duration::ZERO;
                }
            }
            if !patience.is_zero() {
                for &task in &tasks {
                    coordinator.handle(now(), Event::Drained { task })?; // One more barrier comes.
                }
            }
            let event = reports.recv_timeout(patience).unwrap_or(Ok(Event::Woke))?;
            coordinator.handle(now(), event)?;
            while let Some(effect) = coordinator.poll() {
                match effect {
                    // It goes behind what was sent so far, and the positions say what that is.
                    Effect::Trigger { task, barrier } => {
                        let cut = positions.clone();
                        let cut = OperatorStates::snapshot_list("read", "positions", cut)?;
                        cuts.insert(barrier.checkpoint, cut);
                        for channel in &channels[task.0] {
                            drop(channel.send(Item::Barrier(barrier)));
                        }
                    }
                    Effect::Decide(decision) => {
                        let checkpoint = decision.barrier.checkpoint;
                        let name = |task: TaskId| format!("count ({task})");
                        let mut metadata = Metadata::decided("job", &decision, name);
                        let cut = cuts.remove(&checkpoint).expect("the barrier came first");
                        metadata.add("read", Operator::new("read").with_coordinator(cut));
                        let count = Operator::keyed("count", &assignment, u64::GROUPING);
                        let count = metadata.add("count", count);
                        for report in decision.reports {
                            let (part, prepared) = report.part;
                            count.subtasks.push(part);
                            committer.handle(now(), sink_2pc::Event::Prepared(prepared))?;
                        }
                        // It knows all that is to be committed: also what is left from before.
                        count.set_prepared(committer.seal(checkpoint));
                        block_on(store.complete(&metadata))?; // The decision.
                        coordinator.handle(now(), Event::Decided { checkpoint })?;
                    }
                    Effect::NotifyComplete { checkpoint, .. } => {
                        committer.handle(now(), sink_2pc::Event::Completed(checkpoint))?;
                        let done = committer.settle(&now, async |wait| thread::park_timeout(wait));
                        block_on(store.carry_out(checkpoint, done))??;
                        for channels in &channels {
                            drop(channels[0].send(Item::Completed(checkpoint)));
                        }
                    }
                    Effect::End { .. } => return Ok(()), // The workers' channels end with this.
                    Effect::FailJob(failure) => return Err(failure.into()),
                    // A checkpoint that fails is followed by `FailJob`; the next run sweeps up.
                    Effect::NotifyAborted { .. } | Effect::NotifySubsumed { .. } => {}
                    Effect::Discard { .. } | Effect::Leave { .. } | Effect::Answer { .. } => {}
                }
            }
        }
    })
}

/// A worker: takes its share of the old state, and counts until nobody sends to it any more.
fn work<S: Sink<Record = u64>>(
    me: WriterContext,
    old: &RestorePoint,
    sink: &S,
    channels: &[mpsc::Receiver<Item>],
    reports: &mpsc::Sender<Report>,
) -> Result<()> {
    // Of all old subtasks it reads what belongs to its key groups, nothing else.
    let groups = range_of(me.subtask, me.parallelism, MAX)?;
    let keyed = old.keyed("count");
    let keyed = keyed.map(|old| Restored::new(old.manifest(), old.read_by(block_on)));
    let mut states = KeyedStates::restore("count", groups, MAX, keyed)?;
    let count = states.value::<u64>("count")?;
    let pieces = old.pieces("count", me.subtask, me.parallelism);
    let mut writer = block_on(sink.writer(me.clone(), pieces))?;
    let (mut aligner, task) = (Aligner::new(channels.len()), TaskId(me.subtask.into()));
    reports.send(Ok(Event::Running { task }))?;
    // In turn, without those that are blocked: what is in there belongs to the next checkpoint.
    for channel in (0..channels.len()).map(Channel).cycle() {
        if aligner.reading(channel) == Reading::Blocked {
            continue;
        }
        match channels[channel.0].recv() {
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
        // Nothing is downstream, each read asks anyway, and no checkpoint is given up.
        while let Some(effect) = aligner.poll() {
            if let align::Effect::Snapshot(barrier) = effect {
                let id = barrier.checkpoint;
                let flushed = block_on(writer.prepare(now(), id, barrier.then.into()))?;
                let frozen = states.snapshot(id);
                // From here on it could go on counting, while another thread stores what is frozen.
                let mut files = Files(old.files().handle(id, "count", me.subtask));
                let stored = frozen.run(&mut files)?;
                let mut part = Subtask::default();
                part.pieces = flushed.state.into_iter().map(Into::into).collect();
                part.keyed = vec![files.0.finish([stored.groups], stored.manifest)];
                let part = (part, flushed.prepared);
                reports.send(Ok(Event::acked(me.generation, id, task, part)))?;
            }
        }
    }
    Ok(())
}

/// Where a snapshot's files go. What has not changed since a confirmed one is named again.
struct Files(HandleWriter);

impl Store for Files {
    fn store(&mut self, file: NewFile) -> Result<()> {
        Ok(block_on(self.0.stream(&file.name, file.content))?)
    }

    fn reuse(&mut self, name: &str) -> Result<bool> {
        Ok(self.0.reuse(name))
    }
}

#[expect(clippy::disallowed_methods, reason = "an engine reads the clock")]
fn now() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    Time::new(START.get_or_init(Instant::now).elapsed())
}
