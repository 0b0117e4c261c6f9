//! Keyed sums of `u64 → i64` beside a plain hash table, in one run; and what snapshots cost.
//!
//! `CUTWATER_BENCH_KEYS=10000000` adds a size. Records carry their hash, as they do behind a
//! key-by; the rivals hash for themselves, as they would have to.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench reads the clock, starts a writer thread and measures std's HashMap"
)]

use std::{
    collections::HashMap,
    env, fs,
    hint::black_box,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, KeyHash, MaxParallelism};
use cutwater_state::{Handle, Keyed, KeyedStates, SnapshotTask, ValueState};

const BATCH: usize = 1024;

type Total = Handle<ValueState<u64, i64>>;

/// A keyed sum over all key groups, with `keys` keys.
fn filled(keys: u64) -> (KeyedStates<u64>, Total) {
    let max = MaxParallelism::new(128).unwrap();
    let mut states = KeyedStates::new("sum", KeyGroupRange::new(0, 128), max);
    let total = states.value::<i64>("total").unwrap();
    for key in 0..keys {
        states[total].put(Keyed::new(&key), 0).unwrap();
    }
    (states, total)
}

/// A million records with uniform keys, and their hashes.
struct Records {
    keys: Vec<u64>,
    hashes: Vec<KeyHash>,
    next: usize,
}

impl Records {
    fn new(keys: u64) -> Self {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut key = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % keys
        };
        let keys: Vec<u64> = (0..1 << 20).map(|_| key()).collect();
        let hashes = keys.iter().map(Key::key_hash).collect();
        Self {
            keys,
            hashes,
            next: 0,
        }
    }

    fn batch(&mut self) -> (&[u64], &[KeyHash]) {
        let at = self.next;
        self.next = (at + BATCH) % self.keys.len();
        (&self.keys[at..at + BATCH], &self.hashes[at..at + BATCH])
    }
}

fn add(states: &mut KeyedStates<u64>, total: Total, (keys, hashes): (&[u64], &[KeyHash])) {
    states.prefetch(hashes);
    let total = &mut states[total];
    for (key, hash) in keys.iter().zip(hashes) {
        *total
            .or_insert_with(Keyed::with_hash(key, *hash), || 0)
            .unwrap() += 1;
    }
}

fn sizes() -> Vec<u64> {
    let more = env::var("CUTWATER_BENCH_KEYS").ok();
    let more = more.map(|keys| keys.parse().expect("a number of keys"));
    [100_000, 1_000_000].into_iter().chain(more).collect()
}

fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("update");
    group.throughput(Throughput::Elements(BATCH as u64));
    for keys in sizes() {
        let mut records = Records::new(keys);

        let mut map: hashbrown::HashMap<u64, i64, foldhash::fast::FixedState> =
            (0..keys).map(|key| (key, 0)).collect();
        group.bench_function(
            BenchmarkId::new("hashbrown+foldhash, one by one", keys),
            |b| {
                b.iter(|| {
                    for key in records.batch().0 {
                        *map.entry(*key).or_insert(0) += 1;
                    }
                });
            },
        );

        let mut map: HashMap<u64, i64> = (0..keys).map(|key| (key, 0)).collect();
        group.bench_function(BenchmarkId::new("std HashMap, one by one", keys), |b| {
            b.iter(|| {
                for key in records.batch().0 {
                    *map.entry(*key).or_insert(0) += 1;
                }
            });
        });

        let (mut states, total) = filled(keys);
        group.bench_function(BenchmarkId::new("ours, one by one", keys), |b| {
            b.iter(|| {
                let (keys, hashes) = records.batch();
                for (key, hash) in keys.iter().zip(hashes) {
                    let keyed = Keyed::with_hash(key, *hash);
                    *states[total].or_insert_with(keyed, || 0).unwrap() += 1;
                }
            });
        });
        group.bench_function(
            BenchmarkId::new("ours, `update`, prefetched batch", keys),
            |b| {
                b.iter(|| {
                    let (keys, hashes) = records.batch();
                    states.prefetch(hashes);
                    for (key, hash) in keys.iter().zip(hashes) {
                        let keyed = Keyed::with_hash(key, *hash);
                        let sum = |slot: &mut Option<i64>| *slot = Some(slot.unwrap_or(0) + 1);
                        states[total].update(keyed, sum).unwrap();
                    }
                });
            },
        );
        group.bench_function(BenchmarkId::new("ours, prefetched batch", keys), |b| {
            b.iter(|| add(&mut states, total, records.batch()));
        });

        let live = states.snapshot(CheckpointId::new(1));
        for _ in 0..20 * keys / BATCH as u64 {
            add(&mut states, total, records.batch());
        }
        group.bench_function(
            BenchmarkId::new("ours, a snapshot live, all copied", keys),
            |b| {
                b.iter(|| add(&mut states, total, records.batch()));
            },
        );
        discard(live);
    }
    group.finish();

    let mut group = c.benchmark_group("first million updates after a snapshot");
    group.throughput(Throughput::Elements(1 << 20));
    group.sample_size(10);
    for keys in sizes() {
        let (mut states, total) = filled(keys);
        let mut records = Records::new(keys);
        let mut checkpoint = CheckpointId::new(0);
        group.bench_function(
            BenchmarkId::new("ours, the writer not yet started", keys),
            |b| {
                b.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        checkpoint = checkpoint.next();
                        let task = states.snapshot(checkpoint);
                        let start = Instant::now();
                        for _ in 0..(1 << 20) / BATCH {
                            add(&mut states, total, records.batch());
                        }
                        spent += start.elapsed();
                        discard(task);
                    }
                    spent
                });
            },
        );
    }
    group.finish();
}

fn sync_phase(c: &mut Criterion) {
    let mut group = c.benchmark_group("sync phase of a snapshot");
    group.sample_size(20);
    for keys in sizes() {
        let (mut states, total) = filled(keys);
        let mut records = Records::new(keys);
        let mut checkpoint = CheckpointId::new(0);
        group.bench_function(
            BenchmarkId::new("all regions written since the last", keys),
            |b| {
                b.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        for _ in 0..(1 << 20) / BATCH {
                            add(&mut states, total, records.batch());
                        }
                        checkpoint = checkpoint.next();
                        let start = Instant::now();
                        let task = states.snapshot(checkpoint);
                        spent += start.elapsed();
                        discard(black_box(task));
                    }
                    spent
                });
            },
        );
    }
    group.finish();
}

fn discard(task: SnapshotTask) {
    task.run(&mut |file| {
        black_box(file.bytes);
        Ok(())
    })
    .unwrap();
}

/// CPU time of the calling thread; wall-clock time where the system does not tell.
fn thread_cpu(since: Instant) -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// Runs a keyed sum for `wall`, with or without a snapshot every 100 ms which another thread writes.
/// Updates per CPU-second of the processing thread; CPU seconds of the writer per snapshot.
fn run(keys: u64, wall: Duration, snapshots: bool) -> (f64, f64) {
    let (mut states, total) = filled(keys);
    let mut records = Records::new(keys);
    let (to_writer, tasks) = mpsc::channel::<SnapshotTask>();
    let start = Instant::now();
    let writer = thread::spawn(move || {
        let before = thread_cpu(start);
        let written = tasks.into_iter().map(discard).count();
        (thread_cpu(start) - before).as_secs_f64() / written.max(1) as f64
    });
    let before = thread_cpu(start);
    let (mut batches, mut taken) = (0_u64, 0_u32);
    while start.elapsed() < wall {
        if snapshots && start.elapsed() >= Duration::from_millis(100) * taken {
            taken += 1;
            to_writer
                .send(states.snapshot(CheckpointId::new(u64::from(taken))))
                .unwrap();
        }
        for _ in 0..16 {
            add(&mut states, total, records.batch());
        }
        batches += 16;
    }
    let spent = thread_cpu(start) - before;
    drop(to_writer);
    let writer = writer.join().unwrap();
    (
        (batches * BATCH as u64) as f64 / spent.as_secs_f64(),
        writer,
    )
}

#[expect(
    clippy::print_stdout,
    reason = "a ratio that criterion has no form for"
)]
fn cost_of_checkpoints() {
    for keys in sizes() {
        let wall = Duration::from_secs(3);
        // Alternating, since the machine is not ours alone.
        let rounds: Vec<_> = (0..3)
            .map(|_| (run(keys, wall, false).0, run(keys, wall, true)))
            .collect();
        for (without, (with, writer)) in rounds {
            println!(
                "checkpoints every 100 ms, {keys} keys: {:.1} M updates per CPU-second, {:.1} without: \
                 {:.1} % less; the writer takes {:.1} ms CPU for each",
                with / 1e6,
                without / 1e6,
                100.0 * (1.0 - with / without),
                1e3 * writer,
            );
        }
    }
}

criterion_group!(benches, updates, sync_phase);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    if env::args().any(|arg| arg == "--bench") && env::args().len() <= 2 {
        cost_of_checkpoints();
    }
}
