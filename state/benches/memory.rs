//! The memory backend beside a plain hash table, in one run: steady, right after a snapshot, and the worst batch.
//!
//! All take turns in short stretches, and what is printed are medians of CPU time, because the machine is
//! rarely ours alone. `CUTWATER_BENCH_KEYS=10000000` adds a size.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock, and reports"
)]

use std::{
    env,
    time::{Duration, Instant},
};

use cutwater_barrier::CheckpointId;

mod common;

use common::{BATCH, Records, add, discard, filled, median, sizes, thread_cpu};

const ROUNDS: u64 = 31;

/// Batches of a stretch: a million updates.
const BATCHES: usize = (1 << 20) / BATCH;

/// Makes the batches of one stretch. Returns nanoseconds of CPU time per update, and microseconds of the worst batch.
fn stretch(mut batch: impl FnMut()) -> (f64, f64) {
    let (start, mut worst) = (thread_cpu(), Duration::ZERO);
    let mut before = start;
    for _ in 0..BATCHES {
        batch();
        let now = thread_cpu();
        worst = worst.max(now - before);
        before = now;
    }
    let updates = (BATCHES * BATCH) as f64;
    let nanos = (before - start).as_nanos() as f64 / updates;
    (nanos, worst.as_secs_f64() * 1e6)
}

fn measure(keys: u64) {
    let mut map: hashbrown::HashMap<u64, i64, foldhash::fast::FixedState> =
        (0..keys).map(|key| (key, 0)).collect();
    let (mut states, total) = filled(keys);
    let mut records = Records::new(keys);
    let (mut rival, mut steady, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let (mut worst, mut sync) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (plain, _) = stretch(|| {
            for key in records.batch().0 {
                *map.entry(*key).or_insert(0) += 1;
            }
        });
        let (ours, _) = stretch(|| add(&mut states, total, records.batch()));
        let start = Instant::now();
        let task = states.snapshot(CheckpointId::new(round));
        let took = start.elapsed();
        let (first, batch) = stretch(|| add(&mut states, total, records.batch()));
        discard(task);
        if round == 0 {
            continue; // the first snapshot faults in the memory that later ones recycle
        }
        rival.push(plain);
        steady.push(ours);
        after.push(first);
        worst.push(batch);
        sync.push(took.as_secs_f64() * 1e6);
    }
    let rate = |nanos: Vec<f64>| 1e3 / median(nanos);
    let (rival, steady, after) = (rate(rival), rate(steady), rate(after));
    println!(
        "{keys:>9} keys: hashbrown one by one {rival:.1} M/s; ours, prefetched {steady:.1} M/s (× {:.2}); \
         first million updates after a snapshot, all copied by the task {after:.1} M/s (× {:.2} of hashbrown), \
         worst batch of {BATCH} {:.0} µs; sync phase {:.1} µs",
        steady / rival,
        after / rival,
        median(worst),
        median(sync),
    );
}

fn main() {
    // `cargo test --benches` runs this too, without the argument.
    if env::args().any(|arg| arg == "--bench") {
        sizes().into_iter().for_each(measure);
    }
}
