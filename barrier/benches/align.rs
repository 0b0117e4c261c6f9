//! What the aligner costs: next to nothing while idle, little per barrier.
//!
//! `idle` is the loop that a driver really has: over four bounded `std::sync::mpsc` channels in turn, one
//! batch of 64 records or a single record at a time, up to 32 of them from a channel before the next, once
//! bare and once asking for the `reading` of each channel; one barrier ends each. Both loops have one source.
//!
//! As the promise is 2 %, which is less than two separate measurements differ, the ratio is taken
//! pairwise: both loops in turn, many times, and the median of the ratios. What the aligner adds is one
//! compare before up to 32 reads; what both loops do for each item is one function, since how the
//! compiler lays out two loops makes more of a difference than that.
//!
//! *Fed* channels are filled by another thread meanwhile, as those of a task are; their figure needs two
//! cores that have nothing else to do. *Full* ones were filled before, so that nobody else touches them:
//! with single records, of which nothing is made, the worst case there is.
//!
//! `checkpoint` is one checkpoint over n channels: each barrier handled, each effect polled.

use std::{
    hint::black_box,
    sync::mpsc::{self, Receiver, SyncSender, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput};
use cutwater_barrier::align::{Channel, Event, Reading};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Mode, Time};

const CHANNELS: usize = 4;
/// Items of a channel: short enough that few pairs are interrupted.
const ITEMS: u64 = 2_048;
const RECORDS: u64 = 64;
const PAIRS: usize = 1_001;
/// Items that are read from a channel before it is the next one's turn.
const VISIT: usize = 32;
/// Odd, so that either loop goes first at each.
const DEPTHS: usize = 63;

enum Item<D> {
    Data(D),
    Barrier(Barrier),
}

/// What a channel carries: records one by one, or in batches.
trait Data: Send + Sized {
    /// An item whose first record is `first`.
    fn new(first: u64) -> Self;
    /// What the task does with it. Not inlined, as an operator would not be.
    fn sum(&self, channel: Channel) -> u64;
    fn save(&self, into: &mut Vec<u64>);
}

impl Data for u64 {
    fn new(first: u64) -> Self {
        first
    }

    #[inline(never)]
    fn sum(&self, channel: Channel) -> u64 {
        *self ^ channel.0 as Self
    }

    #[cold]
    #[inline(never)]
    fn save(&self, into: &mut Vec<u64>) {
        into.push(*self);
    }
}

impl Data for Vec<u64> {
    fn new(first: u64) -> Self {
        (first..first + RECORDS).collect()
    }

    #[inline(never)]
    fn sum(&self, channel: Channel) -> u64 {
        self.iter()
            .copied()
            .fold(channel.0 as u64, u64::wrapping_add)
    }

    #[cold]
    #[inline(never)]
    fn save(&self, into: &mut Vec<u64>) {
        into.extend_from_slice(self);
    }
}

/// Who fills the channels.
#[derive(Clone, Copy)]
enum Feed {
    /// Nobody any more.
    Before,
    /// Another thread.
    Meanwhile,
}

fn fill<D: Data>(channels: &[SyncSender<Item<D>>]) {
    let send_all = |item: &dyn Fn() -> Item<D>| {
        for channel in channels {
            channel.send(item()).expect("the receiver is here");
        }
    };
    for first in 0..ITEMS {
        send_all(&|| Item::Data(D::new(first)));
    }
    let barrier = Barrier::checkpoint(CheckpointId::new(1), Time::ZERO);
    send_all(&|| Item::Barrier(barrier));
}

/// Ends when all channels have. Without checkpoints it drops the barriers.
#[inline(never)]
fn read_all<const CHECKPOINTS: bool, D: Data>(channels: &[Receiver<Item<D>>]) -> u64 {
    let mut aligner = Aligner::new(channels.len());
    let (mut sum, mut saved) = (0_u64, Vec::new());
    let mut ended = 0;
    while ended < channels.len() {
        ended = 0;
        for (index, items) in channels.iter().enumerate() {
            let channel = Channel(index);
            // The answer holds until the machine is told something.
            let reading = if CHECKPOINTS {
                aligner.reading(channel)
            } else {
                Reading::Free
            };
            let (of_visit, visited) = match reading {
                Reading::Free => visit::<D>(items, channel, None),
                Reading::Recorded => visit(items, channel, Some(&mut saved)),
                Reading::Blocked => continue,
            };
            sum = of_visit.wrapping_add(sum);
            match visited {
                Visited::Barrier(barrier) if CHECKPOINTS => {
                    handle(&mut aligner, Event::Barrier { channel, barrier });
                }
                Visited::Barrier(barrier) => drop(black_box(barrier)),
                Visited::Ended => ended += 1,
                Visited::Enough => {}
            }
        }
    }
    black_box(saved);
    sum
}

/// Why a visit to a channel came to its end.
enum Visited {
    Barrier(Barrier),
    Ended,
    Enough,
}

/// Reads a channel for a while: the same code in both loops.
#[inline(never)]
fn visit<D: Data>(
    items: &Receiver<Item<D>>,
    channel: Channel,
    mut saved: Option<&mut Vec<u64>>,
) -> (u64, Visited) {
    let mut sum = 0_u64;
    for _ in 0..VISIT {
        match items.try_recv() {
            Ok(Item::Data(data)) => {
                if let Some(saved) = &mut saved {
                    data.save(saved);
                }
                sum = sum.wrapping_add(data.sum(channel));
            }
            Ok(Item::Barrier(barrier)) => return (sum, Visited::Barrier(barrier)),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => return (sum, Visited::Ended),
        }
    }
    (sum, Visited::Enough)
}

/// Out of the record loop, as barriers are rare.
#[cold]
#[inline(never)]
fn handle(aligner: &mut Aligner, event: Event) {
    aligner.handle(Time::ZERO, event).expect("in order");
    while let Some(effect) = aligner.poll() {
        black_box(effect);
    }
}

/// Calls `run` so many stack frames down: where the stack lies decides about more than 2 %.
#[inline(never)]
fn at_depth<R>(depth: usize, run: &dyn Fn() -> R) -> R {
    let frame = black_box([0_u64; 3]);
    let result = if depth == 0 {
        run()
    } else {
        at_depth(depth - 1, run)
    };
    black_box(frame);
    result
}

type Loop<D> = fn(&[Receiver<Item<D>>]) -> u64;

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn time<D: Data>(read: Loop<D>, feed: Feed, depth: usize) -> Duration {
    // Room for everything, so that the feeder never waits.
    let channels = (0..CHANNELS).map(|_| mpsc::sync_channel(ITEMS as usize + 1));
    let (senders, receivers): (Vec<_>, Vec<_>) = channels.unzip();
    let read = || {
        at_depth(depth, &|| {
            let start = Instant::now();
            black_box(read(&receivers));
            start.elapsed()
        })
    };
    match feed {
        Feed::Before => {
            fill(&senders);
            drop(senders);
            read()
        }
        Feed::Meanwhile => thread::scope(|scope| {
            scope.spawn(move || fill(&senders));
            read()
        }),
    }
}

#[expect(clippy::print_stdout, reason = "a bench reports its figures")]
fn idle<D: Data>(name: &str, feed: Feed) {
    let mut ratios = Vec::with_capacity(PAIRS);
    let mut fastest = (Duration::MAX, Duration::MAX);
    for pair in 0..PAIRS {
        let with = || time(read_all::<true, D>, feed, pair % DEPTHS);
        let without = || time(read_all::<false, D>, feed, pair % DEPTHS);
        // Who goes first changes, since the first pays for cold caches.
        let (with, without) = if pair % 2 == 0 {
            let with = with();
            (with, without())
        } else {
            let without = without();
            (with(), without)
        };
        ratios.push(with.as_secs_f64() / without.as_secs_f64());
        fastest = (fastest.0.min(with), fastest.1.min(without));
    }
    ratios.sort_by(f64::total_cmp);
    let nanos = |time: Duration| time.as_nanos() as f64 / (ITEMS * CHANNELS as u64) as f64;
    let percent = |at: usize| (ratios[at] - 1.0) * 100.0;
    println!(
        "idle, {name}: {:+.2} % (median of {PAIRS} pairs; quartiles {:+.2} %, {:+.2} %); fastest {:.2} ns per item, bare {:.2} ns",
        percent(PAIRS / 2),
        percent(PAIRS / 4),
        percent(PAIRS * 3 / 4),
        nanos(fastest.0),
        nanos(fastest.1),
    );
}

fn checkpoint(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkpoint");
    for mode in [Mode::Aligned, Mode::Unaligned] {
        for channels in [1, 4, 16, 64] {
            group.throughput(Throughput::Elements(channels as u64));
            let id = BenchmarkId::new(format!("{mode:?}"), channels);
            group.bench_function(id, |bencher| {
                let mut aligner = Aligner::new(channels);
                let mut checkpoint = CheckpointId::new(0);
                bencher.iter(|| {
                    checkpoint = checkpoint.next();
                    let barrier = Barrier::checkpoint(checkpoint, Time::ZERO).with_mode(mode);
                    for channel in (0..channels).map(Channel) {
                        let event = if barrier.may_overtake() {
                            Event::Overtook { channel, barrier }
                        } else {
                            Event::Barrier { channel, barrier }
                        };
                        handle(&mut aligner, event);
                    }
                });
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(300))
        .configure_from_args();
    idle::<u64>("full channels of single records", Feed::Before);
    idle::<Vec<u64>>("full channels of batches", Feed::Before);
    idle::<u64>("fed channels of single records", Feed::Meanwhile);
    checkpoint(&mut criterion);
    criterion.final_summary();
}
