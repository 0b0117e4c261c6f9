//! What the aligner costs: next to nothing while idle, little per barrier.
//!
//! `idle` is the loop that a driver really has: over four `std::sync::mpsc` channels in turn, one
//! batch of 64 records at a time, with and without asking `is_blocked` before each read; one barrier
//! ends each channel. As the promise is 2 %, which is less than two separate measurements differ, the
//! ratio is taken pairwise: both loops in turn, many times, and the median of the ratios. `barrier` is
//! one checkpoint over n channels: each barrier handled, each effect polled.

use std::{
    hint::black_box,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use cutwater_barrier::align::{Channel, Event};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time};

const CHANNELS: usize = 4;
const BATCHES: u64 = 1_024;
const RECORDS: u64 = 64;
const PAIRS: usize = 1_001;

enum Item {
    Batch(Vec<u64>),
    Barrier(Barrier),
}

fn filled() -> Vec<Receiver<Item>> {
    let channel = |_| {
        let (sender, receiver) = mpsc::channel();
        for batch in 0..BATCHES {
            sender
                .send(Item::Batch((batch..batch + RECORDS).collect()))
                .expect("the receiver is here");
        }
        let barrier = Barrier::checkpoint(CheckpointId::new(1), Time::ZERO);
        sender
            .send(Item::Barrier(barrier))
            .expect("the receiver is here");
        receiver
    };
    (0..CHANNELS).map(channel).collect()
}

/// The loop without checkpoints: it drops the barrier at the end of each channel. Ends when all channels have.
fn bare(channels: Vec<Receiver<Item>>) -> u64 {
    let mut sum = 0_u64;
    let mut open = true;
    while open {
        open = false;
        for channel in &channels {
            match channel.try_recv() {
                Ok(Item::Batch(records)) => {
                    sum = records.into_iter().fold(sum, u64::wrapping_add);
                }
                Ok(Item::Barrier(barrier)) => {
                    black_box(barrier);
                }
                Err(_) => continue,
            }
            open = true;
        }
    }
    sum
}

/// The same loop, able to checkpoint.
fn aligned(channels: Vec<Receiver<Item>>) -> u64 {
    let mut aligner = Aligner::new(channels.len());
    let mut sum = 0_u64;
    let mut open = true;
    while open {
        open = false;
        for (index, items) in channels.iter().enumerate() {
            let channel = Channel(index);
            if aligner.is_blocked(channel) {
                continue;
            }
            match items.try_recv() {
                Ok(Item::Batch(records)) => {
                    sum = records.into_iter().fold(sum, u64::wrapping_add);
                }
                Ok(Item::Barrier(barrier)) => carry_out(&mut aligner, channel, barrier),
                Err(_) => continue,
            }
            open = true;
        }
    }
    sum
}

/// Out of the record loop, as barriers are rare.
#[cold]
#[inline(never)]
fn carry_out(aligner: &mut Aligner, channel: Channel, barrier: Barrier) {
    let event = Event::Barrier { channel, barrier };
    aligner.handle(Time::ZERO, event).expect("in order");
    while let Some(effect) = aligner.poll() {
        black_box(effect);
    }
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle");
    group.throughput(Throughput::Elements(BATCHES * RECORDS * CHANNELS as u64));
    group.bench_function("bare loop", |bencher| {
        bencher.iter_batched(filled, bare, BatchSize::SmallInput);
    });
    group.bench_function("with aligner", |bencher| {
        bencher.iter_batched(filled, aligned, BatchSize::SmallInput);
    });
    group.finish();
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
#[expect(clippy::print_stdout, reason = "a bench reports its figures")]
fn idle_ratio() {
    let time = |run: fn(Vec<Receiver<Item>>) -> u64| -> Duration {
        let channels = filled();
        let start = Instant::now();
        black_box(run(channels));
        start.elapsed()
    };
    let mut ratios = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        // Who goes first changes, since the first pays for cold caches.
        let (with, without) = if pair % 2 == 0 {
            let with = time(aligned);
            (with, time(bare))
        } else {
            let without = time(bare);
            (time(aligned), without)
        };
        ratios.push(with.as_secs_f64() / without.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let percent = |at: usize| (ratios[at] - 1.0) * 100.0;
    println!(
        "idle: the aligner adds {:+.2} % (median of {PAIRS} pairs; quartiles {:+.2} %, {:+.2} %)\n",
        percent(PAIRS / 2),
        percent(PAIRS / 4),
        percent(PAIRS * 3 / 4),
    );
}

fn barrier(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("barrier");
    for channels in [1, 4, 16, 64] {
        group.throughput(Throughput::Elements(channels as u64));
        let id = BenchmarkId::new("checkpoint over channels", channels);
        group.bench_function(id, |bencher| {
            let mut aligner = Aligner::new(channels);
            let mut checkpoint = CheckpointId::new(0);
            bencher.iter(|| {
                checkpoint = checkpoint.next();
                let barrier = Barrier::checkpoint(checkpoint, Time::ZERO);
                for channel in (0..channels).map(Channel) {
                    let event = Event::Barrier { channel, barrier };
                    aligner.handle(Time::ZERO, event).expect("in order");
                    while let Some(effect) = aligner.poll() {
                        black_box(effect);
                    }
                }
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .configure_from_args();
    idle(&mut criterion);
    idle_ratio();
    barrier(&mut criterion);
    criterion.final_summary();
}
