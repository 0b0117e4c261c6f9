//! Key-by exchange and keyed sum of u64 → i64 through the runtime, in records per CPU-second.
//!
//! Every figure is CPU time: of the whole process (all threads: source, exchange, operator, snapshot
//! writer, coordinator), or of the processing thread alone. It counts once all keys are there. The rival is the bare
//! loop in the same run: one thread, one hash map with a fast hash, no exchange, no checkpoints.
//! `CUTWATER_BENCH_KEYS=10000000` adds a size.

mod support;

use std::{env, hint::black_box, ops::Range, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::ClockId;
use support::{Running, cpu, record};

const RECORDS: u64 = 20_000_000;

fn bare_loop(keys: u64) -> Duration {
    let mut totals = hashbrown::HashMap::<u64, i64>::new();
    let mut add = |records: Range<u64>| {
        for i in records {
            let (key, value) = record(i, keys);
            *totals.entry(key).or_insert(0) += value;
        }
    };
    add(0..keys);
    let before = cpu(ClockId::ThreadCPUTime);
    add(keys..keys + RECORDS);
    let used = cpu(ClockId::ThreadCPUTime) - before;
    black_box(&totals);
    used
}

struct Used {
    process: Duration,
    /// Of it, the processing thread's.
    thread: Duration,
}

fn run(keys: u64, interval: Option<Duration>) -> Used {
    measure(
        &Running::start(keys, u64::MAX, interval, support::fold),
        keys,
    )
}

fn measure(job: &Running, keys: u64) -> Used {
    let from = job.progress.once(keys);
    let to = job.progress.once(from.records + RECORDS);
    let share = RECORDS as f64 / (to.records - from.records) as f64;
    Used {
        process: (to.process - from.process).mul_f64(share),
        thread: (to.thread - from.thread).mul_f64(share),
    }
}

fn keyed_sum(c: &mut Criterion) {
    let mut group = c.benchmark_group("keyed sum, CPU time");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(RECORDS));
    let more = env::var("CUTWATER_BENCH_KEYS").ok();
    let more = more.map(|keys| keys.parse().expect("a number of keys"));
    for keys in [100_000, 1_000_000].into_iter().chain(more) {
        let mut bench = |name: &str, run: &dyn Fn() -> Duration| {
            group.bench_function(BenchmarkId::new(name, keys), |b| {
                b.iter_custom(|iterations| (0..iterations).map(|_| run()).sum());
            });
        };
        let second = Some(Duration::from_secs(1));
        let tenth = Some(Duration::from_millis(100));
        bench("bare loop over hashbrown", &|| bare_loop(keys));
        bench("job, no checkpoints", &|| run(keys, None).process);
        bench("job, checkpoint every 1 s", &|| run(keys, second).process);
        bench("job, checkpoint every 100 ms", &|| run(keys, tenth).process);
        bench("processing thread, no checkpoints", &|| {
            run(keys, None).thread
        });
        bench("processing thread, checkpoint every 1 s", &|| {
            run(keys, second).thread
        });
        bench(
            "processing thread, own function, checkpoint every 1 s",
            &|| {
                let job = Running::start(keys, u64::MAX, second, support::process);
                measure(&job, keys).thread
            },
        );
    }
    group.finish();
}

criterion_group!(benches, keyed_sum);
criterion_main!(benches);
