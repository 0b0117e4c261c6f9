//! A counting operator that processes a record only with a permit, so that a test decides what is in
//! flight when something happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Mode};
use cutwater_runtime::{
    BoxError, Collect, Job, JobHandle, KeyedContext, KeyedOpen, KeyedProcess, Restart, Result,
    Settings, State,
};
use cutwater_storage::{CheckpointStore, Metadata, Options};
use futures::executor::block_on;

use crate::{
    common::{Count, KEYS, Update, assert_ledger, numbers, settings, start, store, wait_until},
    stepped::{Stepped, Steps},
};

/// So many records may each subtask process.
#[derive(Clone, Default)]
pub(crate) struct Permits(Arc<(Mutex<Counter>, Condvar)>);

#[derive(Default)]
struct Counter {
    /// For each subtask, whoever it is.
    given: u64,
    taken: BTreeMap<u16, u64>,
    waiting: BTreeSet<u16>,
    is_over: bool,
}

const PATIENCE: Duration = Duration::from_secs(60);

impl Permits {
    pub(crate) fn unlimited() -> Self {
        let permits = Self::default();
        permits.give(u64::MAX);
        permits
    }

    /// Lets each subtask process so many more records.
    pub(crate) fn give(&self, permits: u64) {
        let (counter, changed) = &*self.0;
        counter.lock().unwrap().given += permits;
        changed.notify_all();
    }

    /// Whoever asks from now on fails.
    pub(crate) fn end(&self) {
        let (counter, changed) = &*self.0;
        counter.lock().unwrap().is_over = true;
        changed.notify_all();
    }

    /// Waits until `subtasks` wait for a permit.
    pub(crate) fn await_waiting(&self, subtasks: u16) {
        let (counter, changed) = &*self.0;
        let are_missing = |counter: &mut Counter| {
            let mut waiting = counter.waiting.iter();
            let without = |subtask| counter.taken.get(subtask) == Some(&counter.given);
            counter.waiting.len() < usize::from(subtasks) || !waiting.all(without)
        };
        let (counter, late) = changed
            .wait_timeout_while(counter.lock().unwrap(), PATIENCE, are_missing)
            .unwrap();
        assert!(!late.timed_out(), "{:?} of {subtasks}", counter.waiting);
    }

    /// How many records have been processed.
    pub(crate) fn taken(&self) -> u64 {
        self.0.0.lock().unwrap().taken.values().sum()
    }

    pub(crate) fn take(&self, subtask: u16) -> Result<(), BoxError> {
        let (counter, changed) = &*self.0;
        let mut counter = counter.lock().unwrap();
        counter.waiting.insert(subtask);
        counter.taken.entry(subtask).or_default();
        changed.notify_all();
        let is_shut =
            |counter: &mut Counter| counter.taken[&subtask] == counter.given && !counter.is_over;
        let (mut counter, late) = changed
            .wait_timeout_while(counter, PATIENCE, is_shut)
            .unwrap();
        counter.waiting.remove(&subtask);
        if counter.is_over || late.timed_out() {
            return Err("the test ends this attempt".into());
        }
        *counter.taken.entry(subtask).or_default() += 1;
        Ok(())
    }
}

/// Counts like [`Count`], a permit a record.
pub(crate) struct Held {
    count: Count,
    subtask: u16,
    permits: Permits,
}

impl Held {
    pub(crate) fn open(open: &mut KeyedOpen<'_, u64>, permits: &Permits) -> Result<Self> {
        Ok(Self {
            count: Count::open(open)?,
            subtask: open.subtask.index,
            permits: permits.clone(),
        })
    }
}

impl KeyedProcess<u64> for Held {
    type In = u64;
    type Out = Update;

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        self.permits.take(self.subtask)?;
        self.count.process(number, context, out)
    }
}

/// Checkpoints on request only, and no restarts.
pub(crate) fn on_request(parallelism: u16, barriers: Mode) -> Settings {
    let mut settings = settings(parallelism);
    settings.checkpoint_interval = None;
    settings.barriers = barriers;
    settings.restart = Restart::Never;
    settings
}

/// Requests a checkpoint, and lets each subtask process `records` once the barriers of all `readers` are
/// out: a barrier cannot pre-empt the record that is being processed, but it has to wait for no other.
pub(crate) fn checkpoint_past(
    job: &JobHandle,
    steps: &Steps,
    readers: u64,
    permits: &Permits,
    records: u64,
) -> CheckpointId {
    wait_until("all tasks run", || job.status().state == State::Running);
    let before = steps.snapshots();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| job.checkpoint());
        wait_until("the barriers are out", || {
            steps.snapshots() == before + readers
        });
        permits.give(records);
        checkpoint.join().unwrap().unwrap()
    })
}

/// Requests a checkpoint, and lets records pass one by one until it is complete: its barriers have some
/// way to go.
pub(crate) fn checkpoint_while_records_pass(job: &JobHandle, permits: &Permits) -> CheckpointId {
    wait_until("all tasks run", || job.status().state == State::Running);
    let before = job.status().completed;
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| job.checkpoint());
        wait_until("it is complete", || {
            permits.give(1);
            job.status().completed > before
        });
        checkpoint.join().unwrap().unwrap()
    })
}

/// The same until a checkpoint is as wanted: on a busy machine all records that wait may have passed before the
/// barrier comes. Returns its metadata.
pub(crate) fn checkpoint_with(
    is_wanted: impl Fn(&Metadata) -> bool,
    job: &JobHandle,
    permits: &Permits,
    directory: &Path,
) -> Metadata {
    let checkpoints = iter::repeat_with(|| checkpoint_while_records_pass(job, permits));
    let found = checkpoints.map(|checkpoint| metadata(directory, checkpoint));
    let found = found.take(TRIES).find(is_wanted);
    found.expect("one of many checkpoints is as wanted")
}

const TRIES: usize = 20;

pub(crate) fn metadata(directory: &Path, checkpoint: CheckpointId) -> Metadata {
    let store = block_on(CheckpointStore::open(store(directory), Options::default())).unwrap();
    block_on(store.load(checkpoint)).unwrap()
}

/// How many records were in flight on the edges whose name `is_it`.
pub(crate) fn in_flight(metadata: &Metadata, is_it: impl Fn(&str) -> bool) -> u64 {
    let sections = metadata.channels.iter().flat_map(|state| &state.sections);
    sections
        .filter(|section| is_it(&section.edge))
        .map(|section| section.records)
        .sum()
}

pub(crate) const RECORDS: u64 = 2_000;

pub(crate) fn held(steps: &Steps, permits: &Permits, output: &Collect<Update>) -> Job {
    let permits = permits.clone();
    let job = Job::new("counting");
    job.source("numbers", Stepped::watched(numbers(RECORDS), steps))
        .map(|number| number + WIDE)
        .key_by(|number| number % KEYS)
        .process("count", move |open| Held::open(open, &permits))
        .sink("updates", output.clone());
    job
}

/// Makes a number long and leaves its key.
pub(crate) const WIDE: u64 = KEYS << 56;

/// Ends the job as it is.
pub(crate) fn kill(job: JobHandle, permits: &Permits) {
    job.cancel();
    permits.end();
    job.wait().unwrap_err();
}

/// Runs the job to its end from the latest checkpoint.
pub(crate) fn finish(directory: &Path, output: &Collect<Update>, settings: Settings) {
    let job = held(&Steps::up_to(u64::MAX), &Permits::unlimited(), output);
    assert!(start(job, directory, settings).wait().unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

/// So many records in flight are not part of the metadata but a file of their own.
pub(crate) const MANY: u64 = 3_000;

/// Channels that hold them.
pub(crate) fn roomy() -> Settings {
    let mut settings = on_request(1, Mode::Unaligned);
    settings.channel_capacity = 64;
    settings.tolerable_failures = 1;
    settings
}
