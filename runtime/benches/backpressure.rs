//! What a checkpoint costs when the queues are full: aligned, with debloated queues, with a timeout,
//! unaligned, beside the same job without back-pressure.
//!
//! Two sources, united, and a keyed operator that keeps the last of 1000 keys' records of 100 bytes, and
//! takes a millisecond for each (as in the job that Flink's own figures were taken with) or a fifth of
//! that: a barrier cannot pre-empt the record that is being processed. It waits, as for
//! an answer from elsewhere: an operator that keeps a processor busy would, on two of them, measure how
//! soon the writer's thread gets one. All kinds take their turns in each round,
//! so that a drift of the machine's speed touches all of them. Medians over the rounds.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Mode};
use cutwater_runtime::{
    BoxError, CheckpointSummary, Job, KeyedContext, KeyedOpen, KeyedProcess, Moment, Observer,
    Settings, State,
};
use cutwater_source::{
    Assignment, Discovery, Enumerator, Reader, ReaderContext, Source, Split, Status,
};
use cutwater_state::{Handle, ValueState};
use cutwater_storage::LocalBlobs;
use serde::{Deserialize, Serialize};

/// How long the operators wait for each record when they are slow.
const SLOW: Duration = Duration::from_millis(1);
const LESS_SLOW: Duration = Duration::from_micros(200);
const KEYS: u64 = 1000;
const PAYLOAD: usize = 100;
const ROUNDS: usize = 5;
/// Checkpoints of each kind in each round.
const CHECKPOINTS: usize = 3;

type Message = (u64, String);

/// Never ends.
struct Endless;

#[derive(Clone, Serialize, Deserialize)]
struct Position(u64);

struct One;

struct Generate(Option<Position>);

impl Split for Position {
    fn id(&self) -> &str {
        "messages"
    }

    fn is_finished(&self) -> bool {
        false
    }
}

impl Source for Endless {
    type Record = Message;
    type Split = Position;
    type Enumerator = One;
    type Reader = Generate;

    fn assignment(&self) -> Assignment {
        Assignment::UpFront
    }

    fn enumerator(&self, _: Option<&[u8]>) -> cutwater_source::Result<One> {
        Ok(One)
    }

    fn reader(&self, _: ReaderContext) -> cutwater_source::Result<Generate> {
        Ok(Generate(None))
    }
}

impl Enumerator for One {
    type Split = Position;

    fn discover(&mut self, _: &BTreeSet<String>) -> cutwater_source::Result<Discovery<Position>> {
        Ok(Discovery::complete(vec![Position(0)]))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl Reader for Generate {
    type Record = Message;
    type Split = Position;

    fn add_splits(&mut self, splits: Vec<Position>) -> cutwater_source::Result<()> {
        self.0 = splits.into_iter().next();
        Ok(())
    }

    fn no_more_splits(&mut self) {}

    fn poll_batch(
        &mut self,
        out: &mut Vec<Message>,
        max: usize,
    ) -> cutwater_source::Result<Status> {
        let Some(Position(next)) = &mut self.0 else {
            return Ok(Status::Idle);
        };
        // Also without back-pressure it does not flood: 16 records at a time, then a pause.
        let most = max.min(16) as u64;
        out.extend((*next..*next + most).map(|i| (i % KEYS, "x".repeat(PAYLOAD))));
        *next += most;
        Ok(if IS_SLOW.load(Ordering::Relaxed) {
            Status::More
        } else {
            Status::Idle
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> cutwater_source::Result<Vec<Position>> {
        Ok(self.0.iter().cloned().collect())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> cutwater_source::Result<()> {
        Ok(())
    }
}

/// Whether the operator of the run is slow, and how slow. One run at a time.
static IS_SLOW: AtomicBool = AtomicBool::new(false);
static ANSWER_US: AtomicU64 = AtomicU64::new(0);

struct Busy {
    last: Handle<ValueState<u64, String>>,
    processed: Arc<AtomicU64>,
}

impl KeyedProcess<u64> for Busy {
    type In = Message;
    type Out = u64;

    fn process(
        &mut self,
        (key, payload): Message,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        // All keys have been there when it gets slow.
        if IS_SLOW.load(Ordering::Relaxed) && self.processed.load(Ordering::Relaxed) >= KEYS {
            wait();
        }
        *context.keyed[self.last].or_insert_with(context.key, String::new)? = payload;
        out.push(key);
        self.processed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Waits for somebody else's answer.
#[expect(
    clippy::disallowed_methods,
    reason = "a slow operator, as a bench needs it"
)]
fn wait() {
    std::thread::sleep(Duration::from_micros(ANSWER_US.load(Ordering::Relaxed)));
}

/// A kind of checkpoint.
struct Kind {
    name: &'static str,
    /// Of each record; 0 without back-pressure.
    answer: Duration,
    barriers: Mode,
    debloat: Option<Duration>,
    channel_capacity: usize,
    /// Records after which the queues are as long as they stay.
    settled: u64,
    summaries: Vec<CheckpointSummary>,
}

impl Kind {
    fn new(name: &'static str, answer: Duration, barriers: Mode) -> Self {
        Self {
            name,
            answer,
            barriers,
            debloat: None,
            channel_capacity: 8,
            settled: KEYS + 500,
            summaries: Vec::new(),
        }
    }

    /// A run of its own, in which the queues fill first.
    fn run(&mut self) {
        IS_SLOW.store(!self.answer.is_zero(), Ordering::Relaxed);
        let answer = u64::try_from(self.answer.as_micros()).unwrap_or(u64::MAX);
        ANSWER_US.store(answer, Ordering::Relaxed);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = LocalBlobs::open(directory.path()).expect("a directory");
        let job = Job::new("pressed");
        let processed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&processed);
        let open = move |open: &mut KeyedOpen<'_, u64>| {
            Ok(Busy {
                last: open.keyed.value("last").expect("a new state"),
                processed: Arc::clone(&counted),
            })
        };
        let left = job.source("left", Endless);
        let right = job.source("right", Endless);
        left.union(&right)
            .key_by(|message| message.0)
            .process("busy", open);
        let completed = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&completed);
        let mut settings = Settings::default();
        settings.checkpoint_interval = None;
        settings.batch_size = 250;
        settings.channel_capacity = self.channel_capacity;
        settings.barriers = self.barriers;
        settings.debloat = self.debloat;
        settings.observer = Observer::new(move |moment| {
            if let Moment::Completed(summary) = moment {
                taken.lock().expect("no panic").push(summary.clone());
            }
        });
        let handle = job.start(store, settings).expect("the job starts");
        while handle.status().state != State::Running
            || processed.load(Ordering::Relaxed) < self.settled
        {
            std::thread::yield_now();
        }
        for _ in 0..CHECKPOINTS {
            handle.checkpoint().expect("a checkpoint");
        }
        handle.cancel();
        drop(handle);
        self.summaries
            .append(&mut completed.lock().expect("no panic"));
    }

    fn median<T: Ord + Copy>(&self, of: impl Fn(&CheckpointSummary) -> T) -> T {
        let mut values: Vec<T> = self.summaries.iter().map(of).collect();
        values.sort();
        values[values.len() / 2]
    }
}

fn main() {
    let none = Duration::ZERO;
    let mut kinds = [
        Kind::new("no back-pressure, aligned", none, Mode::Aligned),
        Kind::new("no back-pressure, unaligned", none, Mode::Unaligned),
        Kind::new("200 µs a record, unaligned", LESS_SLOW, Mode::Unaligned),
        Kind::new("200 µs a record, aligned", LESS_SLOW, Mode::Aligned),
        Kind::new("1 ms a record, unaligned", SLOW, Mode::Unaligned),
        Kind {
            channel_capacity: 2,
            ..Kind::new("… queues a quarter as long", SLOW, Mode::Unaligned)
        },
        Kind::new(
            "… aligned for 100 ms, then unaligned",
            SLOW,
            Mode::AlignedFor(Duration::from_millis(100)),
        ),
        Kind {
            debloat: Some(Duration::from_millis(200)),
            // The keys came fast, and what they left in the queues goes first.
            settled: KEYS + 5000,
            ..Kind::new("… aligned, debloated to 200 ms", SLOW, Mode::Aligned)
        },
        Kind::new("1 ms a record, aligned", SLOW, Mode::Aligned),
    ];
    for _ in 0..ROUNDS {
        kinds.iter_mut().for_each(Kind::run);
    }
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    {
        println!(
            "{:36} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "checkpoint, medians",
            "duration",
            "start delay",
            "alignment",
            "sync",
            "async",
            "in flight",
            "bytes"
        );
        for kind in &kinds {
            println!(
                "{:36} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
                kind.name,
                format!("{:.1?}", kind.median(|one| one.duration)),
                format!("{:.1?}", kind.median(|one| one.start_delay)),
                format!("{:.1?}", kind.median(|one| one.alignment)),
                format!("{:.1?}", kind.median(|one| one.sync)),
                format!("{:.1?}", kind.median(|one| one.r#async)),
                kind.median(|one| one.records_in_flight),
                kind.median(|one| one.bytes_in_flight),
            );
        }
        let of = |kind: &Kind| kind.median(|one| one.duration).as_secs_f64();
        for (pressed, aligned) in [(2, 3), (4, 8)] {
            println!(
                "{}: {:.2} × the one with empty queues; aligned {:.0} × that",
                kinds[pressed].name,
                of(&kinds[pressed]) / of(&kinds[1]),
                of(&kinds[aligned]) / of(&kinds[pressed]),
            );
        }
    }
}
