//! Key-by exchange and keyed sum of u64 → i64 through the runtime, in records per CPU-second.
//!
//! Every figure is CPU time of the whole process (all threads: source, exchange, operator, snapshot
//! writer, coordinator), so that other work on the machine does not count. The rival is the bare
//! loop in the same run: one thread, one hash map of the standard library's kind with a fast hash,
//! no exchange, no checkpoints.

use std::{
    collections::BTreeSet,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cutwater_barrier::CheckpointId;
use cutwater_runtime::{
    BoxError, Job, KeyedContext, KeyedOpen, KeyedProcess, Moment, Observer, Settings,
};
use cutwater_source::{
    Assignment, Discovery, Enumerator, Reader, ReaderContext, Source, Split, Status,
};
use cutwater_state::{Handle, ValueState};
use cutwater_storage::{LocalBlobs, SharedBlobs};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const RECORDS: u64 = 20_000_000;

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(
        time.tv_sec.try_into().expect("time is positive"),
        time.tv_nsec.try_into().expect("time is positive"),
    )
}

/// SplitMix64 (Steele, Lea, Flood 2014) of `i`, below `bound`.
fn key(i: u64, bound: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

/// All keys once, then uniformly random ones.
fn record(i: u64, keys: u64) -> (u64, i64) {
    (if i < keys { i } else { key(i, keys) }, 1)
}

#[derive(Clone)]
struct Generator {
    keys: u64,
    records: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Part {
    next: u64,
    end: u64,
}

struct One(u64);
struct Generate {
    keys: u64,
    split: Option<Part>,
    ended: bool,
}

impl Split for Part {
    fn id(&self) -> &str {
        "numbers"
    }

    fn is_finished(&self) -> bool {
        self.next == self.end
    }
}

impl Source for Generator {
    type Record = (u64, i64);
    type Split = Part;
    type Enumerator = One;
    type Reader = Generate;

    fn assignment(&self) -> Assignment {
        Assignment::UpFront
    }

    fn enumerator(&self, _: Option<&[u8]>) -> cutwater_source::Result<One> {
        Ok(One(self.records))
    }

    fn reader(&self, _: ReaderContext) -> cutwater_source::Result<Generate> {
        Ok(Generate {
            keys: self.keys,
            split: None,
            ended: false,
        })
    }
}

impl Enumerator for One {
    type Split = Part;

    fn discover(&mut self, _: &BTreeSet<String>) -> cutwater_source::Result<Discovery<Part>> {
        let part = Part {
            next: 0,
            end: self.0,
        };
        Ok(Discovery::complete(vec![part]))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl Reader for Generate {
    type Record = (u64, i64);
    type Split = Part;

    fn add_splits(&mut self, splits: Vec<Part>) -> cutwater_source::Result<()> {
        self.split = splits.into_iter().next();
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.ended = true;
    }

    fn poll_batch(
        &mut self,
        out: &mut Vec<(u64, i64)>,
        max: usize,
    ) -> cutwater_source::Result<Status> {
        let Some(part) = &mut self.split else {
            return Ok(if self.ended {
                Status::Finished
            } else {
                Status::Idle
            });
        };
        let until = part.end.min(part.next + max as u64);
        out.extend((part.next..until).map(|i| record(i, self.keys)));
        part.next = until;
        Ok(match (part.is_finished(), self.ended) {
            (true, true) => Status::Finished,
            (true, false) => Status::Drained,
            (false, _) => Status::More,
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> cutwater_source::Result<Vec<Part>> {
        Ok(self.split.iter().cloned().collect())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> cutwater_source::Result<()> {
        Ok(())
    }
}

/// Adds up, and tells now and then what its thread has used.
struct Sum {
    total: Handle<ValueState<u64, i64>>,
    records: u64,
    thread: Arc<AtomicU64>,
}

impl Sum {
    fn open(
        open: &mut KeyedOpen<'_, u64>,
        thread: &Arc<AtomicU64>,
    ) -> cutwater_runtime::Result<Self> {
        let total = open.keyed.value("total").expect("a new state");
        Ok(Self {
            total,
            records: 0,
            thread: Arc::clone(thread),
        })
    }
}

impl KeyedProcess<u64> for Sum {
    type In = (u64, i64);
    type Out = (u64, i64);

    fn process(
        &mut self,
        (key, value): (u64, i64),
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<(u64, i64)>,
    ) -> Result<(), BoxError> {
        let total = context.keyed.update(self.total, context.key, |total| {
            let total = total.get_or_insert(0);
            *total += value;
            *total
        })?;
        out.push((key, total));
        self.records += 1;
        if self.records.is_multiple_of(1 << 16) {
            let used = cpu(ClockId::ThreadCPUTime).as_nanos();
            self.thread
                .store(u64::try_from(used).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// CPU time of the process, CPU time of the processing thread, checkpoints completed.
fn run(keys: u64, interval: Option<Duration>) -> (Duration, Duration, u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = SharedBlobs::new(LocalBlobs::open(directory.path()).expect("a directory"));
    let thread = Arc::new(AtomicU64::new(0));
    let job = Job::new("keyed-sum");
    let used = Arc::clone(&thread);
    job.source(
        "numbers",
        Generator {
            keys,
            records: RECORDS,
        },
    )
    .key_by(|record| record.0)
    .process("sum", move |open| Sum::open(open, &used));
    let mut settings = Settings::default();
    settings.checkpoint_interval = interval;
    let completed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&completed);
    let observer = Observer::new(move |moment| {
        if let Moment::Completed(_) = moment {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let before = cpu(ClockId::ProcessCPUTime);
    let handle = job
        .start(store, settings, observer)
        .expect("the job starts");
    handle.wait().expect("the job ends well");
    let process = cpu(ClockId::ProcessCPUTime) - before;
    let thread = Duration::from_nanos(thread.load(Ordering::Relaxed));
    (process, thread, completed.load(Ordering::Relaxed))
}

fn bare_loop(keys: u64) -> Duration {
    let before = cpu(ClockId::ProcessCPUTime);
    let mut totals = hashbrown::HashMap::<u64, i64>::new();
    for i in 0..RECORDS {
        let (key, value) = record(i, keys);
        *totals.entry(key).or_insert(0) += value;
    }
    black_box(&totals);
    cpu(ClockId::ProcessCPUTime) - before
}

fn keyed_sum(c: &mut Criterion) {
    let mut group = c.benchmark_group("keyed sum, CPU time");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(RECORDS));
    for keys in [100_000, 1_000_000] {
        let mut bench = |name: &str, run: &dyn Fn() -> Duration| {
            group.bench_function(BenchmarkId::new(name, keys), |b| {
                b.iter_custom(|iterations| (0..iterations).map(|_| run()).sum());
            });
        };
        bench("bare loop over hashbrown", &|| bare_loop(keys));
        bench("job, no checkpoints", &|| run(keys, None).0);
        bench("job, checkpoint every 1 s", &|| {
            run(keys, Some(Duration::from_secs(1))).0
        });
        bench("job, checkpoint every 100 ms", &|| {
            run(keys, Some(Duration::from_millis(100))).0
        });
    }
    group.finish();
}

/// What checkpoints cost the thread that processes, and everybody else: medians of paired runs.
fn cost_of_checkpoints(_: &mut Criterion) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (mut thread, mut process, mut checkpoints) = (Vec::new(), Vec::new(), 0);
    for _ in 0..7 {
        let off = run(1_000_000, None);
        let on = run(1_000_000, Some(Duration::from_millis(100)));
        thread.push(on.1.as_secs_f64() / off.1.as_secs_f64());
        process.push((on.0.as_secs_f64() - off.0.as_secs_f64()) / RECORDS as f64 * 1e9);
        checkpoints += on.2;
    }
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    {
        println!(
            "1 million keys, checkpoints every 100 ms against none, {checkpoints} checkpoints in 7 pairs:\n  \
             processing thread: CPU time × {:.3}\n  whole process: {:+.1} ns a record",
            median(thread),
            median(process),
        );
    }
}

criterion_group!(benches, keyed_sum, cost_of_checkpoints);
criterion_main!(benches);
