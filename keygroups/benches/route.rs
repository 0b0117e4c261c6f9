//! What routing costs a record at the key-by: from key to hash, group and subtask, against a loop
//! that only reads the keys. The time is that of a batch of 4096.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use cutwater_keygroups::{Assignment, Flink, Key, MaxParallelism};
use xxhash_rust::xxh64::xxh64;

const BATCH: u32 = 4096;

fn route(criterion: &mut Criterion) {
    let numbers: Vec<u64> = (0..u64::from(BATCH))
        .map(|i| i.wrapping_mul(0x9E37_79B9))
        .collect();
    let tails: Vec<String> = (0..BATCH).map(|i| format!("N{i:05}")).collect();
    let flink: Vec<Flink<i64>> = numbers.iter().map(|n| Flink(n.cast_signed())).collect();
    let mut group = criterion.benchmark_group("route");
    group.throughput(Throughput::Elements(BATCH.into()));
    group.bench_function("u64 bare loop", |bencher| {
        bencher.iter(|| {
            black_box(&numbers)
                .iter()
                .fold(0u64, |sum, key| sum.wrapping_add(*key))
        });
    });
    // What a key-by did before there were key groups.
    group.bench_function("u64 modulo parallelism", |bencher| {
        let parallelism = black_box(3u64);
        bencher.iter(|| {
            black_box(&numbers)
                .iter()
                .fold(0u64, |sum, key| sum + key % parallelism)
        });
    });
    group.bench_function("u64 hash", |bencher| {
        let hash = |sum: u64, key: &u64| sum.wrapping_add(key.key_hash().0);
        bencher.iter(|| black_box(&numbers).iter().fold(0, hash));
    });
    group.bench_function("u64 hash by xxhash-rust", |bencher| {
        let hash = |sum: u64, key: &u64| sum.wrapping_add(xxh64(&key.to_le_bytes(), 0));
        bencher.iter(|| black_box(&numbers).iter().fold(0, hash));
    });
    group.bench_function("u64 hash, group", |bencher| {
        let max = black_box(MaxParallelism::default_for(3));
        bencher.iter(|| {
            let group = |key: &u64| u64::GROUPING.group(key.key_hash(), max);
            black_box(&numbers)
                .iter()
                .fold(0, |sum, key| sum + u64::from(group(key).get()))
        });
    });
    group.bench_function("u64 hash, group, subtask", |bencher| {
        bencher.iter(subtasks(&numbers));
    });
    group.bench_function("Flink<i64> hash, group, subtask", |bencher| {
        bencher.iter(subtasks(&flink));
    });
    group.bench_function("String hash, group, subtask", |bencher| {
        bencher.iter(subtasks(&tails));
    });
    group.finish();
}

/// Sums up the subtasks of all keys, so that none can be left out.
fn subtasks<K: Key>(keys: &[K]) -> impl FnMut() -> u64 {
    let max = black_box(MaxParallelism::default_for(3));
    let assignment = Assignment::contiguous(3, max).expect("3 is less than 128");
    move || {
        let owner = |key: &K| assignment.owner(K::GROUPING.group(key.key_hash(), max));
        black_box(keys)
            .iter()
            .fold(0, |sum, key| sum + u64::from(owner(key)))
    }
}

criterion_group!(benches, route);
criterion_main!(benches);
