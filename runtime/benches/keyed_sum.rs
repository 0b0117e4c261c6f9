//! Key-by exchange and keyed sum of u64 → i64 through the runtime, in records per CPU-second.
//!
//! Every figure is CPU time of the whole process (all threads: source, exchange, operator, snapshot
//! writer, coordinator). The rival is the bare loop in the same run: one thread, one hash map with a
//! fast hash, no exchange, no checkpoints.

mod support;

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::ClockId;
use support::{Running, cpu, record};

const RECORDS: u64 = 20_000_000;

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

struct Used {
    process: Duration,
    /// Of it, the processing thread's.
    thread: Duration,
}

fn run(keys: u64, interval: Option<Duration>) -> Used {
    let before = cpu(ClockId::ProcessCPUTime);
    let Running {
        handle, progress, ..
    } = Running::start(keys, RECORDS, interval);
    handle.wait().expect("the job ends well");
    let process = cpu(ClockId::ProcessCPUTime) - before;
    let (records, thread) = progress.so_far();
    Used {
        process,
        thread: thread.mul_f64(RECORDS as f64 / records as f64),
    }
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
        let millis = |interval| Some(Duration::from_millis(interval));
        bench("job, no checkpoints", &|| run(keys, None).process);
        bench("job, checkpoint every 1 s", &|| {
            run(keys, millis(1_000)).process
        });
        bench("job, checkpoint every 100 ms", &|| {
            run(keys, millis(100)).process
        });
        bench("processing thread alone", &|| run(keys, None).thread);
    }
    group.finish();
}

criterion_group!(benches, keyed_sum);
criterion_main!(benches);
