//! Keyed sums of `u64 → i64` beside a plain hash table, in one run; and a snapshot's own steps.
//!
//! `CUTWATER_BENCH_KEYS=10000000` adds a size. Records carry their hash, as they do behind a
//! key-by; the rivals hash for themselves, as they would have to.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench reads the clock and measures std's HashMap"
)]

use std::{
    collections::HashMap,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cutwater_barrier::CheckpointId;
use cutwater_state::{AHEAD, Keyed};

mod common;

use common::{BATCH, Records, add, discard, filled, sizes};

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
                    for (keys, hashes) in keys.chunks(AHEAD).zip(hashes.chunks(AHEAD)) {
                        states.prefetch(hashes);
                        let total = &mut states[total];
                        for (key, hash) in keys.iter().zip(hashes) {
                            let keyed = Keyed::with_hash(key, *hash);
                            let sum = |slot: &mut Option<i64>| *slot = Some(slot.unwrap_or(0) + 1);
                            total.update(keyed, sum).unwrap();
                        }
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

criterion_group!(benches, updates, sync_phase);
criterion_main!(benches);
