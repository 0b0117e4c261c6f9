//! What the job tests share: numbers in, one update per number out, and the ledger.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use cutwater_runtime::{
    BoxError, Collect, Job, JobHandle, KeyedContext, KeyedOpen, KeyedProcess, Restart, Result,
    Settings,
};
use cutwater_source::{Source, VecSource};
use cutwater_state::{Handle, ValueState};
use cutwater_storage::LocalBlobs;

/// Keys of the test jobs.
pub(crate) const KEYS: u64 = 97;

/// An update: a key, and how often it has come.
pub(crate) type Update = (u64, u64);

/// Counts per key and emits each count.
pub(crate) struct Count(Handle<ValueState<u64, u64>>);

impl Count {
    pub(crate) fn open(open: &mut KeyedOpen<'_, u64>) -> Result<Self> {
        Ok(Self(open.keyed.value("count")?))
    }
}

impl KeyedProcess<u64> for Count {
    type In = u64;
    type Out = Update;

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        let count = context.keyed.update(self.0, context.key, |count| {
            let count = count.get_or_insert(0);
            *count += 1;
            *count
        })?;
        out.push((number % KEYS, count));
        Ok(())
    }
}

/// Three splits of `records` numbers each.
pub(crate) fn numbers(records: u64) -> VecSource<u64> {
    VecSource::new(
        (0..3)
            .map(|part| (part..part + records).collect())
            .collect(),
    )
}

/// Numbers, `each` applied to every one, counted per key.
pub(crate) fn counting(
    records: u64,
    output: &Collect<Update>,
    each: impl Fn(u64) -> u64 + Send + Sync + 'static,
) -> Job {
    let job = Job::new("counting");
    job.source("numbers", numbers(records))
        .map(each)
        .key_by(|number| number % KEYS)
        .process("count", Count::open)
        .sink("updates", output.clone());
    job
}

/// Numbers from `source`, counted per key.
pub(crate) fn counting_from<S>(source: S, output: &Collect<Update>) -> Job
where
    S: Source<Record = u64>,
{
    let job = Job::new("counting");
    job.source("numbers", source)
        .key_by(|number| number % KEYS)
        .process("count", Count::open)
        .sink("updates", output.clone());
    job
}

/// `parallelism` subtasks, a checkpoint every few milliseconds, quick restarts.
pub(crate) fn settings(parallelism: u16) -> Settings {
    let mut settings = Settings::default();
    settings.parallelism = parallelism;
    settings.checkpoint_interval = Some(Duration::from_millis(5));
    settings.retained_checkpoints = 3;
    settings.batch_size = 64;
    settings.restart = Restart::FixedDelay {
        attempts: 3,
        delay: Duration::from_millis(1),
    };
    settings
}

pub(crate) fn store(directory: &Path) -> LocalBlobs {
    LocalBlobs::open(directory).unwrap()
}

pub(crate) fn start(job: Job, directory: &Path, settings: Settings) -> JobHandle {
    job.start(store(directory), settings).unwrap()
}

/// Damages a file in its middle.
pub(crate) fn flip_a_byte(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Every count of every key of three splits of `records` numbers, once.
#[track_caller]
pub(crate) fn assert_ledger(updates: Vec<Update>, records: u64) {
    let mut expected = BTreeMap::<u64, u64>::new();
    for number in (0..3).flat_map(|part| part..part + records) {
        *expected.entry(number % KEYS).or_default() += 1;
    }
    let mut found = BTreeMap::<u64, Vec<u64>>::new();
    for (key, count) in updates {
        found.entry(key).or_default().push(count);
    }
    for (key, total) in expected {
        let mut counts = found.remove(&key).unwrap_or_default();
        counts.sort_unstable();
        assert_eq!(
            counts,
            (1..=total).collect::<Vec<_>>(),
            "updates of key {key}"
        );
    }
    assert!(found.is_empty(), "keys that nobody sent: {found:?}");
}

/// Holds threads back until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Barrage(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_open: bool,
    waiting: usize,
}

/// Longer than any of these waits should take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Barrage {
    /// Waits until somebody opens it.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.waiting += 1;
        changed.notify_all();
        let _open = changed.wait_while(state, |state| !state.is_open).unwrap();
    }

    /// Waits until somebody waits.
    pub(crate) fn await_waiting(&self) {
        let (state, changed) = &*self.0;
        let (state, late) = changed
            .wait_timeout_while(state.lock().unwrap(), PATIENCE, |state| state.waiting == 0)
            .unwrap();
        assert!(!late.timed_out(), "nobody came within {PATIENCE:?}");
        drop(state);
    }

    pub(crate) fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().is_open = true;
        changed.notify_all();
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let (tick, ticks) = std::sync::mpsc::channel::<()>();
    let rounds = PATIENCE.as_millis();
    for _ in 0..rounds {
        if condition() {
            return;
        }
        let _nobody_sends = ticks.recv_timeout(Duration::from_millis(1));
    }
    drop(tick);
    panic!("not within {PATIENCE:?}: {what}");
}
