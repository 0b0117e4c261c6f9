//! Jobs that fail and come back: every record counts once, in state and in what is committed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cutwater_runtime::{
    BoxError, Collect, Job, KeyedContext, KeyedOpen, KeyedProcess, Observer, Restart, Settings,
};
use cutwater_source::VecSource;
use cutwater_state::{Handle, ValueState};
use cutwater_storage::{LocalBlobs, SharedBlobs};

/// Counts per key and emits each count.
struct Count {
    count: Handle<ValueState<u64, u64>>,
    fails_at: Arc<AtomicU64>,
}

impl Count {
    fn open(
        open: &mut KeyedOpen<'_, u64>,
        fails_at: &Arc<AtomicU64>,
    ) -> cutwater_runtime::Result<Self> {
        Ok(Self {
            count: open.keyed.value("count").unwrap(),
            fails_at: Arc::clone(fails_at),
        })
    }
}

impl KeyedProcess<u64> for Count {
    type In = u64;
    type Out = (u64, u64);

    fn process(
        &mut self,
        record: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<(u64, u64)>,
    ) -> Result<(), BoxError> {
        if self.fails_at.fetch_sub(1, Ordering::Relaxed) == 1 {
            panic!("record {record} breaks it, once");
        }
        let count = context.keyed.update(self.count, context.key, |count| {
            let count = count.get_or_insert(0);
            *count += 1;
            *count
        })?;
        out.push((record % 10, count));
        Ok(())
    }
}

#[test]
fn a_panic_in_user_code_is_a_failed_attempt_and_each_record_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = SharedBlobs::new(LocalBlobs::open(directory.path()).unwrap());
    let fails_at = Arc::new(AtomicU64::new(50_000));
    let output = Collect::new();
    let job = Job::new("count");
    job.source(
        "numbers",
        VecSource::new(vec![(0..50_000_u64).collect(), (0..50_000).collect()]),
    )
    .map(|number| number)
    .key_by(|number| number % 10)
    .process("count", move |open| Count::open(open, &fails_at))
    .sink("out", output.clone());
    let mut settings = Settings::default();
    settings.parallelism = 2;
    settings.checkpoint_interval = Some(Duration::from_millis(5));
    settings.restart = Restart::FixedDelay {
        attempts: 3,
        delay: Duration::from_millis(1),
    };
    let outcome = job
        .start(store, settings, Observer::default())
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(outcome.restarts, 1);
    let mut counts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (key, count) in output.take() {
        counts.entry(key).or_default().push(count);
    }
    for counts in counts.values_mut() {
        counts.sort_unstable();
        assert_eq!(*counts, (1..=10_000).collect::<Vec<_>>());
    }
}
