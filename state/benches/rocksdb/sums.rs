//! The keyed sum, ours and the rivals', window by window.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange};
use cutwater_state::{
    Backend, Keyed, KeyedStates, SnapshotTask,
    rocksdb::{Compression, RocksDb, RocksOptions},
};

use crate::{
    MAX,
    common::{BATCH, Total, discard, median, thread_cpu},
    is_wanted, open, options,
    rival::Rival,
    workload::Draw,
};

/// Half of a window of ours; the rivals have no snapshot in the middle, and so less to wait for.
const HALF: Duration = Duration::from_millis(500);

/// Windows until caches are filled, and windows that count.
const WINDOWS: (usize, usize) = (4, 7);

pub(crate) fn run(keys: u64) {
    // What the row cache takes for all rows, with what RocksDB gets beside it.
    let all = keys * 60 + (64 << 20);
    println!("{keys} keys of u64, values of i64; a checkpoint a second\n");
    println!(
        "keyed sum | budget | records/s | get + put | ratio | on the processor | get + put, set up as ours \
         | ratio | on the processor"
    );
    let uniform = || Draw::uniform(keys);
    line("uniform, all fit", keys, &options(all), uniform());
    for skew in [1.2, 0.99] {
        for (part, budget) in [("half", all / 2), ("a tenth", all / 10)] {
            let name = format!("Zipf {skew}, {part} fits");
            line(&name, keys, &fast(budget), Draw::zipf(keys, skew));
            let lz4 = options(budget);
            line(&format!("{name}, LZ4"), keys, &lz4, Draw::zipf(keys, skew));
        }
    }
    line("uniform, a tenth fits", keys, &fast(all / 10), uniform());
    let lz4 = options(all / 10);
    line("uniform, a tenth fits, LZ4", keys, &lz4, uniform());
}

/// Set up for fast reads from files that the system has in its page cache.
fn fast(memory: u64) -> RocksOptions {
    let mut options = options(memory);
    options.compression = Compression::None;
    options.mmap_reads = true;
    options.block_size = 2 << 10;
    options.block_cache_percent = 4;
    options
}

fn line(name: &str, keys: u64, options: &RocksOptions, mut draw: Draw) {
    if !is_wanted(name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Ours::filled(&folder.path().join("ours"), keys, options.clone());
    let rivals = [
        Rival::plain(&folder.path().join("plain"), keys, options.memory),
        Rival::tuned(&folder.path().join("tuned"), keys, options),
    ];
    let mut rates: Vec<[Rate; 3]> = Vec::new();
    for _ in 0..WINDOWS.0 + WINDOWS.1 {
        let mut records = Records::new(&mut draw);
        let mine = Rate::of(|| ours.window(&mut records));
        let [plain, tuned] = rivals.each_ref().map(|rival| {
            let add = |records: &[u64]| records.iter().for_each(|key| rival.add(*key));
            Rate::of(|| records.take_for(HALF, add))
        });
        rates.push([mine, plain, tuned]);
    }
    let rates = &rates[WINDOWS.0..];
    let of = |rate: &dyn Fn(&[Rate; 3]) -> f64| median(rates.iter().map(rate).collect());
    print!(
        "{name} | {} MB | {:.0} k",
        options.memory >> 20,
        of(&|rates| rates[0].clock) / 1e3
    );
    for rival in [1, 2] {
        print!(
            " | {:.0} k | {:.1} | {:.1}",
            of(&|rates| rates[rival].clock) / 1e3,
            of(&|rates| rates[0].clock / rates[rival].clock),
            of(&|rates| rates[0].processor / rates[rival].processor),
        );
    }
    println!();
}

/// Records a second.
struct Rate {
    clock: f64,
    /// Of the calling thread.
    processor: f64,
}

impl Rate {
    /// Of work that says how many records it did.
    fn of(work: impl FnOnce() -> usize) -> Self {
        let (start, cpu) = (Instant::now(), thread_cpu());
        let records = work() as f64;
        Self {
            clock: records / start.elapsed().as_secs_f64(),
            processor: records / (thread_cpu() - cpu).as_secs_f64(),
        }
    }
}

/// Keys that were drawn before the time is taken, over and over if there are too few.
struct Records {
    keys: Vec<u64>,
    at: usize,
}

impl Records {
    fn new(draw: &mut Draw) -> Self {
        Self {
            keys: (0..1 << 22).map(|_| draw.key()).collect(),
            at: 0,
        }
    }

    /// Batches until `time` has passed. Returns how many records they had.
    fn take_for(&mut self, time: Duration, mut work: impl FnMut(&[u64])) -> usize {
        let (start, mut records) = (Instant::now(), 0);
        while start.elapsed() < time {
            work(&self.keys[self.at..self.at + BATCH]);
            self.at = (self.at + BATCH) % self.keys.len();
            records += BATCH;
        }
        records
    }
}

struct Ours {
    states: KeyedStates<u64>,
    total: Total,
    checkpoint: CheckpointId,
}

impl Ours {
    fn filled(folder: &Path, keys: u64, options: RocksOptions) -> Self {
        let backend = Backend::rows(RocksDb::new(folder, options).unwrap());
        let (mut states, total) = open(&backend, KeyGroupRange::all(MAX), []);
        for key in 0..keys {
            states[total].put(Keyed::new(&key), 0).unwrap();
        }
        let mut ours = Self {
            states,
            total,
            checkpoint: CheckpointId::new(0),
        };
        discard(ours.snapshot());
        ours
    }

    fn snapshot(&mut self) -> SnapshotTask {
        self.checkpoint = self.checkpoint.next();
        self.states.snapshot(self.checkpoint)
    }

    /// Batch by batch as the runtime does; a snapshot in the middle is written beside it.
    fn window(&mut self, records: &mut Records) -> usize {
        let first = records.take_for(HALF, |batch| self.add(batch));
        let task = self.snapshot();
        let second = thread::scope(|scope| {
            let writer = scope.spawn(|| discard(task));
            let second = records.take_for(HALF, |batch| self.add(batch));
            writer.join().expect("the writer does not panic");
            second
        });
        self.states.confirmed(self.checkpoint);
        first + second
    }

    fn add(&mut self, batch: &[u64]) {
        let hashes: Vec<_> = batch.iter().map(Key::key_hash).collect();
        let keyed = batch
            .iter()
            .zip(&hashes)
            .map(|(key, hash)| Keyed::with_hash(key, *hash));
        self.states.announce(keyed).unwrap();
        crate::common::add(&mut self.states, self.total, (batch, &hashes));
    }
}
