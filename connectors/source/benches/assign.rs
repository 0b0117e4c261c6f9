//! What reading from memory costs a record, against a loop over the same slice, and what dealing out
//! costs a split, against a queue.
//!
//! The bare slice loop leaves the records where they are, and a reader gives them away: "copied in
//! batches" is what is left to compare with.

use std::{
    collections::{BTreeSet, VecDeque},
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use cutwater_barrier::CheckpointId;
use cutwater_source::{
    Assigner, Assignment, Discovery, Effect, Enumerator, Event, Reader, ReaderContext, Source,
    Status, VecSource, VecSplit,
};
use serde::{Serialize, de::DeserializeOwned};

const RECORDS: u32 = 1 << 16;
const BATCH: usize = 1024;
const READERS: usize = 4;
const PAIRS: usize = 101;

fn splits(source: &impl Source<Split = VecSplit>) -> Vec<VecSplit> {
    let mut enumerator = source.enumerator(None).expect("vectors can be listed");
    let found = enumerator.discover(&BTreeSet::new());
    found.expect("vectors can be listed").splits
}

/// Reads `records` as one split, in batches. `weigh` is what is done with each record.
fn read<T>(criterion: &mut Criterion, what: &str, records: &[T], weigh: impl Fn(&T) -> u64)
where
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    let weigh_all = |batch: &[T]| batch.iter().map(&weigh).fold(0, u64::wrapping_add);
    let bare = || {
        let batches = black_box(records).chunks(BATCH);
        batches.map(weigh_all).fold(0, u64::wrapping_add)
    };
    let copied = || {
        let mut batch = Vec::with_capacity(BATCH);
        let mut sum = 0_u64;
        for chunk in black_box(records).chunks(BATCH) {
            batch.extend_from_slice(chunk);
            sum = sum.wrapping_add(weigh_all(black_box(&batch)));
            batch.clear();
        }
        sum
    };
    let source = VecSource::new(vec![records.to_vec()]);
    let splits = splits(&source);
    let ours = || {
        let mut reader = source.reader(ReaderContext::new(0, 1)).expect("in memory");
        reader.add_splits(splits.clone()).expect("the same vectors");
        reader.no_more_splits();
        let mut batch = Vec::with_capacity(BATCH);
        let mut sum = 0_u64;
        loop {
            let status = reader.poll_batch(&mut batch, BATCH).expect("in memory");
            sum = sum.wrapping_add(weigh_all(black_box(&batch)));
            batch.clear();
            if status == Status::Finished {
                return sum;
            }
        }
    };
    assert_eq!(ours(), bare(), "both read the same records");
    let mut group = criterion.benchmark_group(format!("read {what}"));
    group.throughput(Throughput::Elements(RECORDS.into()));
    group.bench_function("bare loop", |bencher| bencher.iter(bare));
    group.bench_function("bare loop, copied in batches", |bencher| {
        bencher.iter(copied);
    });
    group.bench_function("VecSource", |bencher| bencher.iter(ours));
    group.finish();
    if env::args().any(|arg| arg == "--bench") {
        #[expect(clippy::print_stdout, reason = "a bench reports its figures")]
        {
            println!(
                "read {what}: VecSource takes {:.2} times the bare loop, {:.2} times the one that copies\n",
                ratio(ours, bare),
                ratio(ours, copied),
            );
        }
    }
}

/// How many times as long `one` takes as `other`: the median of pairs, as the machine may be busy.
fn ratio(one: impl Fn() -> u64, other: impl Fn() -> u64) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
    fn timed(run: impl Fn() -> u64) -> f64 {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    }
    let mut ratios: Vec<f64> = (0..PAIRS).map(|_| timed(&one) / timed(&other)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[PAIRS / 2]
}

/// Everything from the discovery until each split is with a reader; on request, one at a time.
fn assign(assignment: Assignment, splits: Vec<VecSplit>) -> Assigner<VecSplit> {
    let mut assigner = Assigner::new(assignment, READERS);
    assigner.handle(Event::Discovered(Discovery::complete(splits)));
    let mut told = 0;
    while told < READERS {
        if let Assignment::OnRequest = assignment {
            for subtask in 0..READERS {
                assigner.handle(Event::Requested { subtask });
            }
        }
        while let Some(effect) = assigner.poll() {
            told += usize::from(matches!(effect, Effect::NoMore { .. }));
            black_box(effect);
        }
    }
    assigner
}

/// What is left if nobody has to know where a split is.
fn deal(splits: Vec<VecSplit>) -> VecDeque<VecSplit> {
    let mut queue = VecDeque::new();
    for split in splits {
        queue.push_back(split);
    }
    while let Some(split) = queue.pop_front() {
        black_box(vec![split]);
    }
    queue
}

fn assigner(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("assign");
    for count in [16, 1024] {
        let splits = splits(&VecSource::new(vec![vec![0_u8]; count]));
        let fresh = || splits.clone();
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("bare queue", count), |bencher| {
            bencher.iter_batched(fresh, deal, BatchSize::SmallInput);
        });
        for assignment in [Assignment::OnRequest, Assignment::UpFront] {
            let id = BenchmarkId::new(format!("{assignment:?}"), count);
            group.bench_function(id, |bencher| {
                let assign = |splits| assign(assignment, splits);
                bencher.iter_batched(fresh, assign, BatchSize::SmallInput);
            });
        }
        group.bench_function(
            BenchmarkId::new("state for a checkpoint", count),
            |bencher| {
                let mut assigner = assign(Assignment::UpFront, fresh());
                let mut checkpoint = CheckpointId::new(0);
                bencher.iter(|| {
                    checkpoint = checkpoint.next();
                    assigner.snapshot(checkpoint)
                });
            },
        );
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    let numbers: Vec<u64> = (0..RECORDS.into()).collect();
    read(&mut criterion, "u64", &numbers, |number| *number);
    let tails: Vec<String> = (0..RECORDS).map(|i| format!("N{i:05}")).collect();
    read(&mut criterion, "String", &tails, |tail| tail.len() as u64);
    assigner(&mut criterion);
    criterion.final_summary();
}
