//! What a checkpoint every 100 ms costs the thread that processes: its CPU time per update.
//!
//! One thread updates flat out, in stretches of 100 ms that take turns: a plain hash map of the same
//! keys, the state alone, the state with a checkpoint at the start and a writer in another thread. CPU
//! time and medians of many stretches, because the machine is rarely ours alone; the ratio is the
//! median over pairs of neighbours. Criterion has no form for that, hence our own `main`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock, starts a writer thread, and reports"
)]

use std::{
    env,
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use cutwater_barrier::CheckpointId;
use cutwater_state::KeyedStates;

mod common;

use common::{BATCH, Records, Total, add, discard, filled, median, quantile, sizes, thread_cpu};

const STRETCH: Duration = Duration::from_millis(100);
const ROUNDS: usize = 75;

/// Calls `step`, which makes 16 batches of updates, until the thread has used so much CPU time: of wall-clock
/// time it gets what others leave. Returns nanoseconds of CPU time per update.
fn stretch(mut step: impl FnMut()) -> f64 {
    let (before, mut used) = (thread_cpu(), Duration::ZERO);
    let mut updates = 0_u64;
    while used < STRETCH {
        step();
        updates += 16 * BATCH as u64;
        used = thread_cpu() - before;
    }
    used.as_nanos() as f64 / updates as f64
}

fn without_checkpoints(states: &mut KeyedStates<u64>, total: Total, records: &mut Records) -> f64 {
    stretch(|| {
        for _ in 0..16 {
            add(states, total, records.batch());
        }
    })
}

/// What the checkpoint of one stretch cost whom.
struct Costs {
    update_nanos: f64,
    /// Wall-clock time of `snapshot`.
    sync_millis: f64,
    /// CPU time of the writer.
    writer_millis: f64,
}

fn with_checkpoint(
    states: &mut KeyedStates<u64>,
    total: Total,
    records: &mut Records,
    checkpoint: CheckpointId,
) -> Costs {
    let (mut sync_millis, mut writer) = (0.0, None);
    let update_nanos = stretch(|| {
        if writer.is_none() {
            let start = Instant::now();
            let task = states.snapshot(checkpoint);
            sync_millis = start.elapsed().as_secs_f64() * 1e3;
            writer = Some(thread::spawn(|| {
                discard(task);
                thread_cpu().as_secs_f64() * 1e3
            }));
        }
        for _ in 0..16 {
            add(states, total, records.batch());
        }
    });
    let writer = writer.expect("a stretch has steps");
    Costs {
        update_nanos,
        sync_millis,
        writer_millis: writer.join().expect("the writer does not panic"),
    }
}

fn measure(keys: u64) {
    let mut map: hashbrown::HashMap<u64, i64, foldhash::fast::FixedState> =
        (0..keys).map(|key| (key, 0)).collect();
    let (mut states, total) = filled(keys);
    let mut records = Records::new(keys);
    let mut checkpoint = CheckpointId::new(0);
    let (mut plain, mut off, mut on) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ratio, mut sync, mut writer) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let rival = stretch(|| {
            for _ in 0..16 {
                for key in records.batch().0 {
                    *map.entry(*key).or_insert(0) += 1;
                }
            }
        });
        let without = without_checkpoints(&mut states, total, &mut records);
        checkpoint = checkpoint.next();
        let costs = with_checkpoint(&mut states, total, &mut records, checkpoint);
        if round == 0 {
            continue; // the first snapshots fault in the memory that later ones recycle
        }
        plain.push(rival);
        off.push(without);
        on.push(costs.update_nanos);
        ratio.push(costs.update_nanos / without);
        sync.push(costs.sync_millis);
        writer.push(costs.writer_millis);
    }
    black_box(&map);
    println!(
        "{keys} keys, medians of {ROUNDS}: hashbrown one by one {:.1} ns an update; \
         state, prefetched {:.1} ns, with a checkpoint every 100 ms {:.1} ns: × {:.3} \
         (quartiles {:.3}, {:.3}); sync phase {:.2} ms, writer {:.1} ms CPU per snapshot",
        median(plain),
        median(off),
        median(on),
        median(ratio.clone()),
        quantile(ratio.clone(), 0.25),
        quantile(ratio, 0.75),
        median(sync),
        median(writer),
    );
}

fn main() {
    // `cargo test --benches` runs this too, without the argument.
    if env::args().any(|arg| arg == "--bench") {
        sizes().into_iter().for_each(measure);
    }
}
