//! What a checkpoint costs on a local disk, against a loop that makes the same bytes durable in one
//! file; and what a restore reads and a successor waits, against reading the same files.
//!
//! Other work on the disk comes and goes, so besides criterion's figures each ratio is taken pairwise:
//! both sides in turn, and the median of the ratios.
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::{
    env,
    fs::{self, File},
    hint::black_box,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{Criterion, SamplingMode, Throughput};
use cutwater_barrier::{CheckpointId, Kind};
use cutwater_keygroups::{Assignment, Grouping, MaxParallelism};
use cutwater_storage::{
    CheckpointStore, KeyedHandle, LocalBlobs, Metadata, Operator, Options, Subtask, Term, layout,
};
use futures::executor::block_on;
use tempfile::TempDir;

const SUBTASKS: u16 = 4;
const RESTORED_BYTES: usize = 16 << 20;
/// As a state backend reads its key groups: some blocks at a time.
const RANGE_BYTES: u64 = 256 << 10;
const LOG_ENTRIES: usize = 256;
const PAIRS: usize = 15;

/// One of the two that are compared. A run says how long it took, without its preparations.
struct Side<'a> {
    name: &'static str,
    run: &'a mut dyn FnMut() -> Duration,
}

/// Measures both sides, each as often as criterion likes, then prints the median of paired ratios.
fn compare(criterion: &mut Criterion, name: &str, throughput: Throughput, sides: [Side<'_>; 2]) {
    let [mut bare, mut ours] = sides;
    let mut group = criterion.benchmark_group(name);
    group.throughput(throughput);
    group.sampling_mode(SamplingMode::Flat);
    for side in [&mut bare, &mut ours] {
        group.bench_function(side.name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| (side.run)()).sum());
        });
    }
    group.finish();
    if env::args().any(|arg| arg == "--bench") {
        let pair = |_| (ours.run)().as_secs_f64() / (bare.run)().as_secs_f64();
        let mut ratios: Vec<f64> = (0..PAIRS).map(pair).collect();
        ratios.sort_by(f64::total_cmp);
        #[expect(clippy::print_stdout, reason = "a bench reports its figures")]
        {
            let ratio = ratios[PAIRS / 2];
            println!(
                "{name}: {} takes {ratio:.2} times {}\n",
                ours.name, bare.name
            );
        }
    }
}

/// Makes durable what earlier runs have left in the file system's journal: else the next fsync pays
/// for it, whoever calls it.
fn settle(directory: &Path) {
    let mut file = File::create(directory.join("settle")).expect("a directory");
    file.write_all(b"settled").expect("room on the disk");
    file.sync_all().expect("a sound disk");
}

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn open(directory: &Path) -> CheckpointStore {
    let blobs = LocalBlobs::open(directory).expect("a directory");
    block_on(CheckpointStore::open(blobs, Options::default())).expect("a sound log")
}

/// A job of one operator that takes checkpoints, each of `state` per subtask.
struct Job {
    store: CheckpointStore,
    term: Term,
    next: CheckpointId,
    assignment: Assignment,
    state: Bytes,
}

impl Job {
    fn start(directory: &Path, bytes: usize) -> Self {
        let mut store = open(directory);
        let term = block_on(store.take_over()).expect("nobody else is here");
        Self {
            store,
            term,
            next: term.first,
            assignment: Assignment::contiguous(SUBTASKS, MaxParallelism::default_for(SUBTASKS))
                .expect("no more subtasks than groups"),
            state: vec![7; bytes].into(),
        }
    }

    /// From the first byte of state to the decision. This is how long sinks wait to commit.
    fn complete(&mut self, kind: Kind) -> cutwater_storage::Result<CheckpointId> {
        let id = self.next;
        self.next = id.next();
        block_on(async {
            let mut operator = Operator::keyed("totals", &self.assignment, Grouping::Xxh64);
            let files = self.store.files()?;
            for subtask in 0..SUBTASKS {
                let file = files.store(id, "totals", subtask, "keyed", self.state.clone());
                let groups = self.assignment.range(subtask).into_iter().collect();
                let mut part = Subtask::default();
                part.keyed
                    .push(KeyedHandle::new(groups, "", vec![file.await?]));
                operator.subtasks.push(part);
            }
            let mut metadata = Metadata::new("bank", id, self.term.generation, kind);
            metadata.operators.insert("totals".to_owned(), operator);
            self.store.complete(&metadata).await?;
            Ok(id)
        })
    }

    /// What follows once the sinks have committed: the note of it, and the deletion of an old one.
    fn carry_out(&mut self, id: CheckpointId) -> cutwater_storage::Result<()> {
        block_on(async {
            self.store.check_leading().await?;
            self.store.committed(id).await?;
            self.store.apply_retention().await.map(drop)
        })
    }

    fn checkpoint(&mut self) -> cutwater_storage::Result<()> {
        let id = self.complete(Kind::Checkpoint)?;
        self.carry_out(id)
    }
}

fn checkpoints(criterion: &mut Criterion) {
    fn one_file(run: &mut dyn FnMut() -> Duration) -> Side<'_> {
        let name = "write and fsync of one file";
        Side { name, run }
    }
    fn store(run: &mut dyn FnMut() -> Duration) -> Side<'_> {
        let name = "store";
        Side { name, run }
    }
    for (name, bytes) in [("inline 4 x 1 kB", 1_000), ("object 4 x 1 MB", 1_000_000)] {
        let directory = TempDir::new().expect("a temporary directory");
        let mut job = Job::start(&directory.path().join("store"), bytes);
        let file = directory.path().join("bare");
        let state = job.state.clone();
        let mut bare = || {
            settle(directory.path());
            timed(|| {
                let mut file = File::create(&file).expect("a directory");
                for _ in 0..SUBTASKS {
                    file.write_all(&state).expect("room on the disk");
                }
                file.sync_all().expect("a sound disk");
            })
        };
        let throughput = Throughput::BytesDecimal(u64::from(SUBTASKS) * bytes as u64);
        let mut whole = || {
            settle(directory.path());
            timed(|| job.checkpoint().expect("it leads"))
        };
        compare(
            criterion,
            &format!("checkpoint, {name}, whole"),
            throughput.clone(),
            [one_file(&mut bare), store(&mut whole)],
        );
        let mut until_complete = || {
            settle(directory.path());
            let start = Instant::now();
            let id = job.complete(Kind::Checkpoint).expect("it leads");
            let took = start.elapsed();
            job.carry_out(id).expect("it leads");
            took
        };
        compare(
            criterion,
            &format!("checkpoint, {name}, until complete"),
            throughput,
            [one_file(&mut bare), store(&mut until_complete)],
        );
    }
}

fn restore(criterion: &mut Criterion) {
    let directory = TempDir::new().expect("a temporary directory");
    let mut job = Job::start(directory.path(), RESTORED_BYTES);
    let id = job.complete(Kind::Checkpoint).expect("it leads");
    let metadata = block_on(job.store.load(id)).expect("just written");
    let file = metadata.files().next().expect("one per subtask");
    let path = directory
        .path()
        .join(file.path().expect("too long for inline"));
    let read = |step: u64| {
        let step = step.try_into().expect("64 bits");
        for start in (0..file.length).step_by(step) {
            let range = start..file.length.min(start + step as u64);
            black_box(block_on(job.store.read(file, range)).expect("just written"));
        }
    };
    for (name, step) in [
        ("in one", file.length),
        ("in ranges of 256 KiB", RANGE_BYTES),
    ] {
        let bare = Side {
            name: "fs::read",
            run: &mut || timed(|| fs::read(&path).expect("just written")),
        };
        let ours = Side {
            name: "verified read",
            run: &mut || timed(|| read(step)),
        };
        let throughput = Throughput::BytesDecimal(file.length);
        let name = format!("restore, 16 MiB {name}");
        compare(criterion, &name, throughput, [bare, ours]);
    }
}

/// The entries of the log, oldest first.
fn log(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory.join(layout::LOG)).expect("a log");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("digits");
    let mut names: Vec<_> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}

fn take_over(criterion: &mut Criterion) {
    let outside = TempDir::new().expect("a temporary directory");
    let directory = &outside.path().join("store");
    let mut job = Job::start(directory, 1_000);
    // It stays needed, so the log is not trimmed after it.
    let savepoint = job.complete(Kind::Savepoint).expect("it leads");
    job.carry_out(savepoint).expect("it leads");
    while log(directory).len() < LOG_ENTRIES {
        job.checkpoint().expect("it leads");
    }
    let entries = log(directory);
    let paths: Vec<_> = entries
        .iter()
        .map(|name| directory.join(layout::LOG).join(name))
        .collect();
    let last: u64 = entries
        .last()
        .expect("filled above")
        .parse()
        .expect("digits");
    let next = directory.join(layout::log_entry(last + 1));
    let bare = Side {
        name: "read of each, write and fsync of one",
        run: &mut || {
            settle(outside.path());
            let took = timed(|| {
                for path in &paths {
                    black_box(fs::read(path).expect("an entry"));
                }
                let mut file = File::create(&next).expect("a directory");
                file.write_all(&[7; 64]).expect("room on the disk");
                file.sync_all().expect("a sound disk");
            });
            fs::remove_file(&next).expect("just written");
            took
        },
    };
    let ours = Side {
        name: "open, take_over",
        run: &mut || {
            settle(outside.path());
            let took = timed(|| {
                let mut store = open(directory);
                block_on(store.take_over()).expect("nobody else is here");
                store
            });
            // So that the next one finds the same log.
            fs::remove_file(&next).expect("just appended");
            took
        },
    };
    let name = format!("take over, {} log entries", entries.len());
    let throughput = Throughput::Elements(entries.len() as u64);
    compare(criterion, &name, throughput, [bare, ours]);
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    checkpoints(&mut criterion);
    restore(&mut criterion);
    take_over(&mut criterion);
    criterion.final_summary();
}
