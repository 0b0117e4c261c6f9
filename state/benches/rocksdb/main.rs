//! State in RocksDB beside RocksDB as it is commonly used, in one run.
//!
//! ```text
//! cargo xtask bench rocksdb                               a million keys
//! CUTWATER_BENCH_KEYS=10000000 cargo xtask bench rocksdb
//! ```
//!
//! Windows of either side alternate, and the median of their ratios counts, so that what else the machine does hits
//! both. Time on the clock includes flushes, which our side writes beside the task, with a snapshot
//! every window; time on the processor is the task's alone.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench prints, reads the clock, and writes snapshots beside the task as an engine does"
)]

#[path = "../common/mod.rs"]
mod common;
mod rival;
mod workload;

use std::{
    collections::BTreeMap,
    env, fs,
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use common::{BATCH, median, thread_cpu};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{
    Backend, BoxError, Handle, Keyed, KeyedStates, NewFile, Restored, Snapshot, SnapshotTask,
    Store, ValueState,
    rocksdb::{Compression, RocksDb, RocksOptions},
};
use rival::Rival;
use workload::{Draw, Uniform, Zipf};

pub(crate) const MAX: MaxParallelism = MaxParallelism::new(128).unwrap();

type Total = Handle<ValueState<u64, i64>>;

fn main() {
    let keys = env::var("CUTWATER_BENCH_KEYS").ok();
    let keys: u64 = keys.map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    // What the row cache takes for all rows, with what RocksDB gets beside it.
    let all = keys * 60 + (64 << 20);
    println!("{keys} keys of u64, values of i64\n");
    println!(
        "keyed sum | budget | records/s | get + put, records/s | ratio, clock | ratio, processor"
    );
    let lz4 = options(all / 10);
    let mut fast = options(all / 10);
    fast.compression = Compression::None;
    fast.mmap_reads = true;
    sums(
        "uniform, all fit",
        keys,
        options(all),
        &mut Uniform::new(keys),
    );
    sums(
        "Zipf 1.2, a tenth fits",
        keys,
        lz4.clone(),
        &mut Zipf::new(keys, 1.2),
    );
    sums(
        "Zipf 0.99, a tenth fits",
        keys,
        lz4.clone(),
        &mut Zipf::new(keys, 0.99),
    );
    sums("uniform, a tenth fits", keys, lz4, &mut Uniform::new(keys));
    sums(
        "the same, not compressed, mapped",
        keys,
        fast,
        &mut Uniform::new(keys),
    );
    if is_wanted("restore") {
        restores(keys, all / 10);
    }
    if is_wanted("incremental") {
        incremental(keys);
    }
}

/// Whether the command line asks for this part; without a word it asks for all.
fn is_wanted(name: &str) -> bool {
    let mut words = env::args().skip(1).filter(|word| !word.starts_with('-'));
    words.next().is_none_or(|word| name.contains(&word))
}

/// Ours and the rival's keyed sum, window by window.
fn sums(name: &str, keys: u64, options: RocksOptions, draw: &mut dyn Draw) {
    if !is_wanted(name) {
        return;
    }
    let memory = options.memory;
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Ours::filled(folder.path(), keys, options);
    let rival = Rival::filled(&folder.path().join("rival"), keys, memory);
    let (mut clock, mut processor) = (Vec::new(), Vec::new());
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let records: Vec<u64> = (0..1 << 19).map(|_| draw.draw()).collect();
        let window = Rate::of(&records, |records| ours.window(records));
        let few = &records[..1 << 16];
        let rival_window = Rate::of(few, |records| rival.window(records));
        if round < 2 {
            continue; // until caches are filled
        }
        clock.push(window.clock / rival_window.clock);
        processor.push(window.processor / rival_window.processor);
        mine.push(window.clock);
        theirs.push(rival_window.clock);
    }
    println!(
        "{name} | {} MB | {:.0} k | {:.0} k | {:.1} | {:.1}",
        memory >> 20,
        median(mine) / 1e3,
        median(theirs) / 1e3,
        median(clock),
        median(processor),
    );
}

/// Records a second.
struct Rate {
    clock: f64,
    /// Of the calling thread.
    processor: f64,
}

impl Rate {
    fn of(records: &[u64], work: impl FnOnce(&[u64])) -> Self {
        let (start, cpu) = (Instant::now(), thread_cpu());
        work(records);
        let per = |time: Duration| records.len() as f64 / time.as_secs_f64();
        Self {
            clock: per(start.elapsed()),
            processor: per(thread_cpu() - cpu),
        }
    }
}

fn options(memory: u64) -> RocksOptions {
    let mut options = RocksOptions::default();
    options.memory = memory;
    options
}

fn open(
    backend: &Backend,
    groups: KeyGroupRange,
    old: impl IntoIterator<Item = Restored>,
) -> (KeyedStates<u64>, Total) {
    let mut states = KeyedStates::open(backend, "sum", groups, MAX, old).unwrap();
    let total = states.value("total").unwrap();
    (states, total)
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
        nowhere(ours.snapshot());
        ours
    }

    fn snapshot(&mut self) -> SnapshotTask {
        self.checkpoint = self.checkpoint.next();
        self.states.snapshot(self.checkpoint)
    }

    /// Batch by batch as the runtime does; a snapshot in the middle is written beside it.
    fn window(&mut self, records: &[u64]) {
        let (first, second) = records.split_at(records.len() / 2);
        self.add(first);
        let task = self.snapshot();
        thread::scope(|scope| {
            let writer = scope.spawn(|| nowhere(task));
            self.add(second);
            writer.join().expect("the writer does not panic");
        });
        self.states.confirmed(self.checkpoint);
    }

    fn add(&mut self, records: &[u64]) {
        for batch in records.chunks(BATCH) {
            let hashes: Vec<_> = batch.iter().map(Key::key_hash).collect();
            let keyed = batch
                .iter()
                .zip(&hashes)
                .map(|(key, hash)| Keyed::with_hash(key, *hash));
            self.states.announce(keyed).unwrap();
            for (batch, hashes) in batch.chunks(32).zip(hashes.chunks(32)) {
                self.states.prefetch(hashes);
                let total = &mut self.states[self.total];
                for (key, hash) in batch.iter().zip(hashes) {
                    let keyed = Keyed::with_hash(key, *hash);
                    *total.or_insert_with(keyed, || 0).unwrap() += 1;
                }
            }
        }
    }
}

/// Reads files and forgets them, but knows them when they come again.
struct Nowhere;

impl Store for Nowhere {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        for piece in file.content {
            std::hint::black_box(piece?);
        }
        Ok(())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn nowhere(task: SnapshotTask) {
    task.run(&mut Nowhere).unwrap();
}

/// A folder of files, as a store on a local disk.
struct Files<'a>(&'a Path);

impl Store for Files<'_> {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        let mut out = File::create(self.0.join(&file.name))?;
        for piece in file.content {
            io::Write::write_all(&mut out, &piece?)?;
        }
        Ok(())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn restored(folder: &Path, snapshot: &Snapshot) -> Restored {
    let folder = folder.to_owned();
    Restored::new(&snapshot.manifest, move |name: &str, range: Range<u64>| {
        let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
        File::open(folder.join(name))?.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    })
}

/// Restores of two subtasks' state by as many, and by three: the slowest subtask's time.
fn restores(keys: u64, memory: u64) {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    let backend = |databases_max| {
        let mut options = options(memory);
        options.databases_max = databases_max;
        Backend::rows(RocksDb::new(folder.path().join("state"), options).unwrap())
    };
    let old: Vec<Restored> = [(0, 64), (64, 128)]
        .map(|(start, end)| {
            let groups = KeyGroupRange::new(start, end);
            let (mut states, total) = open(&backend(4), groups, []);
            for key in 0..keys {
                let _of_the_other = states[total].put(Keyed::new(&key), 1);
            }
            let task = states.snapshot(CheckpointId::new(1));
            restored(&files, &task.run(&mut Files(&files)).unwrap())
        })
        .into();
    let bytes: u64 = fs::read_dir(&files)
        .unwrap()
        .map(|f| f.unwrap().metadata().unwrap().len())
        .sum();
    let slowest = |parts: &[(u16, u16)], databases_max| {
        let backend = backend(databases_max);
        let restore = |&(start, end): &(u16, u16)| {
            let begin = Instant::now();
            let (mut states, total) = open(
                &backend,
                KeyGroupRange::new(start, end),
                old.iter().cloned(),
            );
            let _one_row_of_any_group = states.get(total, Keyed::new(&1));
            begin.elapsed().as_secs_f64()
        };
        parts.iter().map(restore).fold(0.0, f64::max)
    };
    let mut rows = BTreeMap::<&str, Vec<f64>>::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let mut buffer = vec![0; 1 << 20];
        for file in fs::read_dir(&files).unwrap() {
            let mut file = File::open(file.unwrap().path()).unwrap();
            while file.read(&mut buffer).unwrap() > 0 {}
        }
        rows.entry("0 reading the files, half of it")
            .or_default()
            .push(begin.elapsed().as_secs_f64() / 2.0);
        let two = [(0, 64), (64, 128)];
        let three = [(0, 43), (43, 86), (86, 128)];
        rows.entry("1 restore by 2")
            .or_default()
            .push(slowest(&two, 4));
        rows.entry("2 restore by 3, databases side by side")
            .or_default()
            .push(slowest(&three, 4));
        rows.entry("3 restore by 3, copied together")
            .or_default()
            .push(slowest(&three, 1));
    }
    println!(
        "\n2 old subtasks with {} MB | slowest subtask | of restore by 2",
        bytes >> 20
    );
    let plain = median(rows["1 restore by 2"].clone());
    for (name, times) in rows {
        let time = median(times);
        println!(
            "{} | {:.0} ms | {:.2}",
            &name[2..],
            time * 1e3,
            time / plain
        );
    }
}

/// A checkpoint after 1 % of 100-byte values have changed, beside a full one.
fn incremental(keys: u64) {
    let keys = keys / 2;
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::rows(RocksDb::new(folder.path(), options(keys * 300)).unwrap());
    let mut states = KeyedStates::open(&backend, "sum", KeyGroupRange::all(MAX), MAX, []).unwrap();
    let value = states.value::<String>("value").unwrap();
    let mut draw = Uniform::new(keys);
    let mut text = || {
        format!(
            "{:016x}{:016x}{:016x}{:052x}",
            draw.next(),
            draw.next(),
            draw.next(),
            0
        )
    };
    for key in 0..keys {
        states[value].put(Keyed::new(&key), text()).unwrap();
    }
    println!("\n{keys} values of 100 bytes | bytes stored | of all | time");
    let line = |name: &str, states: &mut KeyedStates<u64>, n| {
        let task = states.snapshot(CheckpointId::new(n));
        let begin = Instant::now();
        let snapshot = task.run(&mut Nowhere).unwrap();
        let (new, full) = (snapshot.bytes_new as f64, snapshot.bytes_full as f64);
        let time = begin.elapsed().as_secs_f64();
        println!(
            "{name} | {:.1} MB | {:.1} % | {:.0} ms",
            new / 1e6,
            100.0 * new / full,
            time * 1e3
        );
        states.confirmed(CheckpointId::new(n));
    };
    line("full", &mut states, 1);
    let spread = (0..keys).step_by(100);
    for key in spread {
        states[value].put(Keyed::new(&key), text()).unwrap();
    }
    line("1 % of all, spread", &mut states, 2);
    line("nothing", &mut states, 3);
}
