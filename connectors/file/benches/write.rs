//! What `FileSink` costs a record and a checkpoint, against a buffered file and `serde_json`, made
//! durable by one fsync.
//!
//! Each round writes the records of one checkpoint in batches, prepares it, commits it, and then takes
//! the file away; the three parts are timed apart. Besides criterion's figures each ratio is taken
//! pairwise, both sides in turn, and its median printed, as the disk may be busy.
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::{
    env,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use criterion::{Criterion, SamplingMode, Throughput};
use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_file::{FileCommitter, FileSink, FileWriter, JsonLines, Rolling};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Input, Sink, Verdict, Writer, WriterContext, testkit::block_on,
};
use serde::Serialize;
use tempfile::TempDir;

const BATCH: u32 = 1024;
const PAIRS: usize = 15;
/// Of the sink's own files too.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Serialize)]
struct Total {
    tailnum: String,
    miles: u64,
    flights: u32,
}

fn fill(batch: &mut Vec<Total>, number: u32) {
    batch.extend((number * BATCH..(number + 1) * BATCH).map(|i| Total {
        tailnum: format!("N{:05}", i.wrapping_mul(2_654_435_761) % 100_000),
        miles: u64::from(i) * 733,
        flights: i % 400,
    }));
}

/// How long the parts of a round took.
#[derive(Clone, Copy)]
struct Round {
    write: Duration,
    prepare: Duration,
    commit: Duration,
}

impl Round {
    fn checkpoint(self) -> Duration {
        self.prepare + self.commit
    }
}

/// Makes durable what earlier rounds have left in the file system's journal: else the next fsync pays
/// for it, whoever calls it.
fn settle(directory: &Path) {
    let mut file = File::create(directory.join("settle")).expect("a directory");
    file.write_all(b"settled").expect("room on the disk");
    file.sync_all().expect("a sound disk");
}

/// Adds what `run` takes to `spent`.
fn timed<T>(spent: &mut Duration, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let outcome = run();
    *spent += start.elapsed();
    outcome
}

/// A file for each round, in a buffer, with a flush and an fsync at its end, and visible all the time.
fn bare(directory: &Path, batches: u32) -> Round {
    settle(directory);
    let path = directory.join("bare.jsonl");
    let (mut write, mut prepare) = (Duration::ZERO, Duration::ZERO);
    let mut file = timed(&mut write, || {
        BufWriter::with_capacity(BUFFER_BYTES, File::create(&path).expect("a directory"))
    });
    let mut batch = Vec::new();
    for number in 0..batches {
        fill(&mut batch, number);
        timed(&mut write, || {
            for total in batch.drain(..) {
                serde_json::to_writer(&mut file, &total).expect("room on the disk");
                file.write_all(b"\n").expect("room on the disk");
            }
        });
    }
    timed(&mut prepare, || {
        file.flush().expect("room on the disk");
        file.get_ref().sync_all().expect("a sound disk");
    });
    fs::remove_file(&path).expect("just written");
    Round {
        write,
        prepare,
        commit: Duration::ZERO,
    }
}

/// Both halves of a sink that makes a file for each checkpoint.
struct Halves {
    directory: PathBuf,
    writer: FileWriter<JsonLines<Total>>,
    committer: FileCommitter,
    next: CheckpointId,
}

impl Halves {
    fn open(directory: PathBuf) -> Self {
        let sink = FileSink::new(&directory, JsonLines::new()).rolling(Rolling::every_checkpoint());
        let generation = Generation::new(1);
        let opened: cutwater_sink_2pc::Result<_> = block_on(async {
            let context = CommitterContext::new("job", "uid", generation);
            let mut committer = sink.committer(context).await?;
            committer.fence(generation).await?;
            committer.sweep().await?;
            let context = WriterContext::new("job", "uid", 0, 1, generation);
            Ok((sink.writer(context, vec![]).await?, committer))
        });
        let (writer, committer) = opened.expect("nobody else is here");
        Self {
            directory,
            writer,
            committer,
            next: CheckpointId::new(1),
        }
    }

    fn round(&mut self, outside: &Path, batches: u32) -> Round {
        settle(outside);
        let (mut write, mut prepare, mut commit) = Default::default();
        let mut batch = Vec::new();
        for number in 0..batches {
            fill(&mut batch, number);
            let written = timed(&mut write, || {
                block_on(self.writer.write(Time::ZERO, &mut batch))
            });
            written.expect("room on the disk");
        }
        let checkpoint = self.next;
        self.next = checkpoint.next();
        let flushed = timed(&mut prepare, || {
            block_on(
                self.writer
                    .prepare(Time::ZERO, checkpoint, Input::Continues),
            )
        });
        let prepared = flushed.expect("room on the disk").prepared;
        let verdicts = timed(&mut commit, || block_on(self.committer.commit(&prepared)));
        assert!(matches!(verdicts[..], [Verdict::Committed]));
        for entry in fs::read_dir(&self.directory).expect("the sink's directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                fs::remove_file(path).expect("just committed");
            }
        }
        Round {
            write,
            prepare,
            commit,
        }
    }
}

/// Measures both sides by criterion, then prints the median of paired ratios of each part.
fn compare(criterion: &mut Criterion, batches: u32) {
    let directory = TempDir::new().expect("a temporary directory");
    let outside = directory.path();
    let mut halves = Halves::open(outside.join("out"));
    let records = batches * BATCH;
    let mut group = criterion.benchmark_group(format!("{records} JSON lines"));
    group.throughput(Throughput::Elements(records.into()));
    group.sampling_mode(SamplingMode::Flat);
    let mut measure = |name: &str, round: &mut dyn FnMut() -> Duration| {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| round()).sum());
        });
    };
    measure("write, bare loop", &mut || bare(outside, batches).write);
    measure("write, FileSink", &mut || {
        halves.round(outside, batches).write
    });
    measure("fsync, bare loop", &mut || bare(outside, batches).prepare);
    measure("prepare, FileSink", &mut || {
        halves.round(outside, batches).prepare
    });
    measure("commit, FileSink", &mut || {
        halves.round(outside, batches).commit
    });
    group.finish();
    if env::args().any(|arg| arg == "--bench") {
        let pairs: Vec<(Round, Round)> = (0..PAIRS)
            .map(|_| (halves.round(outside, batches), bare(outside, batches)))
            .collect();
        let median = |part: fn(Round) -> Duration, of: fn(Round) -> Duration| {
            let ratio =
                |(ours, bare): &(Round, Round)| part(*ours).as_secs_f64() / of(*bare).as_secs_f64();
            let mut ratios: Vec<f64> = pairs.iter().map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[PAIRS / 2]
        };
        #[expect(clippy::print_stdout, reason = "a bench reports its figures")]
        {
            println!(
                "{records} JSON lines: FileSink writes in {:.2} times the bare loop; prepare takes {:.2} \
                 times a flush and fsync, with the commit {:.2} times\n",
                median(|ours| ours.write, |bare| bare.write),
                median(|ours| ours.prepare, |bare| bare.prepare),
                median(Round::checkpoint, |bare| bare.prepare),
            );
        }
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    for batches in [1, 64] {
        compare(&mut criterion, batches);
    }
    criterion.final_summary();
}
