//! The keyed-sum job that the benches share, and how they measure it.
//!
//! Every figure is CPU time, so that other work on the machine counts for less; what it does to caches
//! and memory still shows.

#![allow(dead_code, reason = "each bench takes what it needs")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cutwater_barrier::CheckpointId;
use cutwater_runtime::{
    BoxError, Job, JobHandle, KeyedContext, KeyedProcess, KeyedStream, Settings, Stream,
};
use cutwater_source::{
    Assignment, Discovery, Enumerator, Reader, ReaderContext, Source, Split, Status,
};
use cutwater_state::{Handle, ValueState};
use cutwater_storage::LocalBlobs;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub(crate) fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(
        time.tv_sec.try_into().expect("time is positive"),
        time.tv_nsec.try_into().expect("time is positive"),
    )
}

/// SplitMix64 (Steele, Lea, Flood 2014) of `i`, below `bound`.
fn key(i: u64, bound: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

/// All keys once, then uniformly random ones.
pub(crate) fn record(i: u64, keys: u64) -> (u64, i64) {
    (if i < keys { i } else { key(i, keys) }, 1)
}

#[derive(Clone)]
struct Generator {
    keys: u64,
    records: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Part {
    next: u64,
    end: u64,
}

struct One(u64);
struct Generate {
    keys: u64,
    split: Option<Part>,
    ended: bool,
}

impl Split for Part {
    fn id(&self) -> &str {
        "numbers"
    }

    fn is_finished(&self) -> bool {
        self.next == self.end
    }
}

impl Source for Generator {
    type Record = (u64, i64);
    type Split = Part;
    type Enumerator = One;
    type Reader = Generate;

    fn assignment(&self) -> Assignment {
        Assignment::UpFront
    }

    fn enumerator(&self, _: Option<&[u8]>) -> cutwater_source::Result<One> {
        Ok(One(self.records))
    }

    fn reader(&self, _: ReaderContext) -> cutwater_source::Result<Generate> {
        Ok(Generate {
            keys: self.keys,
            split: None,
            ended: false,
        })
    }
}

impl Enumerator for One {
    type Split = Part;

    fn discover(&mut self, _: &BTreeSet<String>) -> cutwater_source::Result<Discovery<Part>> {
        let part = Part {
            next: 0,
            end: self.0,
        };
        Ok(Discovery::complete(vec![part]))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl Reader for Generate {
    type Record = (u64, i64);
    type Split = Part;

    fn add_splits(&mut self, splits: Vec<Part>) -> cutwater_source::Result<()> {
        self.split = splits.into_iter().next();
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.ended = true;
    }

    fn poll_batch(
        &mut self,
        out: &mut Vec<(u64, i64)>,
        max: usize,
    ) -> cutwater_source::Result<Status> {
        let Some(part) = &mut self.split else {
            return Ok(if self.ended {
                Status::Finished
            } else {
                Status::Idle
            });
        };
        let until = part.end.min(part.next + max as u64);
        out.extend((part.next..until).map(|i| record(i, self.keys)));
        part.next = until;
        Ok(match (part.is_finished(), self.ended) {
            (true, true) => Status::Finished,
            (true, false) => Status::Drained,
            (false, _) => Status::More,
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> cutwater_source::Result<Vec<Part>> {
        Ok(self.split.iter().cloned().collect())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> cutwater_source::Result<()> {
        Ok(())
    }
}

/// No stretch of a bench takes so long.
const LONGEST: Duration = Duration::from_secs(300);

/// How far the job is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) records: u64,
    /// CPU time of the processing thread.
    pub(crate) thread: Duration,
    /// CPU time of all threads.
    pub(crate) process: Duration,
}

/// The last sample, which the processing thread takes, and word that there is one.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<(Mutex<Sample>, Condvar)>);

impl Progress {
    pub(crate) fn so_far(&self) -> Sample {
        *self.0.0.lock().expect("nobody panics with it")
    }

    /// The first sample with so many records.
    pub(crate) fn once(&self, records: u64) -> Sample {
        let (last, taken) = &*self.0;
        let last = last.lock().expect("nobody panics with it");
        let (last, waited) = taken
            .wait_timeout_while(last, LONGEST, |last| last.records < records)
            .expect("nobody panics with it");
        assert!(!waited.timed_out(), "the job does not get on");
        *last
    }

    /// Takes a sample now and then.
    #[inline]
    fn passed(&self, records: u64) {
        if records.is_multiple_of(SAMPLE) {
            self.tell(Sample {
                records,
                thread: cpu(ClockId::ThreadCPUTime),
                process: cpu(ClockId::ProcessCPUTime),
            });
        }
    }

    fn tell(&self, sample: Sample) {
        let (last, taken) = &*self.0;
        *last.lock().expect("nobody panics with it") = sample;
        taken.notify_all();
    }
}

/// Samples are so many records apart.
const SAMPLE: u64 = 1 << 16;

type Records = (u64, i64);

/// The keyed sum as most jobs would have it.
pub(crate) fn fold(records: &KeyedStream<u64, Records>, progress: Progress) -> Stream<Records> {
    let count = AtomicU64::new(0); // of one task, so no addition is lost
    records.fold("sum", move |total: &mut i64, (key, value)| {
        *total += value;
        let records = count.load(Ordering::Relaxed) + 1;
        count.store(records, Ordering::Relaxed);
        progress.passed(records);
        (key, *total)
    })
}

/// The keyed sum as a function with a state of its own.
pub(crate) fn process(records: &KeyedStream<u64, Records>, progress: Progress) -> Stream<Records> {
    records.process("sum", move |open| {
        Ok(Sum {
            total: open.keyed.value("total")?,
            records: 0,
            progress: progress.clone(),
        })
    })
}

struct Sum {
    total: Handle<ValueState<u64, i64>>,
    records: u64,
    progress: Progress,
}

impl KeyedProcess<u64> for Sum {
    type In = Records;
    type Out = Records;

    fn process(
        &mut self,
        (key, value): Records,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Records>,
    ) -> Result<(), BoxError> {
        let total = context.keyed[self.total].or_insert_with(context.key, || 0)?;
        *total += value;
        out.push((key, *total));
        self.records += 1;
        self.progress.passed(self.records);
        Ok(())
    }
}

/// A keyed sum that runs.
pub(crate) struct Running {
    pub(crate) handle: JobHandle,
    pub(crate) progress: Progress,
    _directory: TempDir,
}

impl Running {
    /// Starts the job over `records`, with a checkpoint every `interval` and one at the end.
    pub(crate) fn start(
        keys: u64,
        records: u64,
        interval: Option<Duration>,
        sum: fn(&KeyedStream<u64, Records>, Progress) -> Stream<Records>,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = LocalBlobs::open(directory.path()).expect("a directory");
        let progress = Progress::default();
        let job = Job::new("keyed-sum");
        let numbers = job.source("numbers", Generator { keys, records });
        sum(&numbers.key_by(|record| record.0), progress.clone());
        let mut settings = Settings::default();
        settings.checkpoint_interval = interval;
        Self {
            handle: job.start(store, settings).expect("the job starts"),
            progress,
            _directory: directory,
        }
    }
}
