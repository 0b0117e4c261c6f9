//! What a checkpoint costs when the queues are full: aligned, with debloated queues, with a timeout,
//! unaligned, beside the same job without back-pressure.
//!
//! Two sources, united, and a keyed operator that keeps the last of 1000 keys' records of 100 bytes, and
//! takes a millisecond for each (as in the job that Flink's own figures were taken with) or a fifth of
//! that: a barrier cannot pre-empt the record that is being processed. It waits, as for an answer from
//! elsewhere: an operator that keeps a processor busy would, on two of them, measure how soon the
//! writer's thread gets one.
//!
//! The same job without back-pressure is just that: the same slow operator, busy four fifths of the
//! time, as its sources send that much less than it could take. Beside it is the job whose operator
//! answers at once: to that one the pressed job loses, above all, the rest of the record in process,
//! half a millisecond of the slower operator's on average.
//!
//! A checkpoint is *complete* when the log says so, durably, and whoever asked for it has the answer;
//! its *duration* ends with the last acknowledgement. All kinds take their turns in each round, so that
//! a drift of the machine's speed touches all of them. Medians over the rounds.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
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
/// Each source sends all keys once, and these are processed at once.
const WARM: u64 = 2 * KEYS;
const PAYLOAD: usize = 100;
const ROUNDS: usize = 5;
/// Checkpoints of each kind in each round, and of those that wait for the queues.
const CHECKPOINTS: u32 = 20;
const LONG_CHECKPOINTS: u32 = 3;
/// Between two checkpoints: time to delete the one before.
const PAUSE: Duration = Duration::from_millis(5);

type Message = (u64, String);

/// Never ends.
struct Endless;

#[derive(Clone, Serialize, Deserialize)]
struct Position(u64);

struct One;

struct Generate {
    split: Option<Position>,
    due: Instant,
}

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
        Ok(Generate {
            split: None,
            due: now(),
        })
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
        self.split = splits.into_iter().next();
        Ok(())
    }

    fn no_more_splits(&mut self) {}

    fn poll_batch(
        &mut self,
        out: &mut Vec<Message>,
        max: usize,
    ) -> cutwater_source::Result<Status> {
        let Some(Position(next)) = &mut self.split else {
            return Ok(Status::Idle);
        };
        let load = *LOAD.lock().expect("no panic");
        let most = match load {
            _ if *next < KEYS => KEYS - *next,
            Load::Full => 16,
            Load::Every(period) => {
                let mut records = 0;
                while now() >= self.due {
                    self.due = self.due.max(now() - 4 * period) + period;
                    records += 1;
                }
                records
            }
        };
        let most = most.min(max as u64);
        out.extend((*next..*next + most).map(|i| (i % KEYS, "x".repeat(PAYLOAD))));
        *next += most;
        Ok(match load {
            Load::Full => Status::More,
            Load::Every(_) if *next < KEYS => Status::More,
            Load::Every(_) => Status::Idle,
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> cutwater_source::Result<Vec<Position>> {
        Ok(self.split.iter().cloned().collect())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> cutwater_source::Result<()> {
        Ok(())
    }
}

/// How much the sources of the run send. One run at a time.
static LOAD: Mutex<Load> = Mutex::new(Load::Full);
/// How long the operator of the run waits.
static ANSWER_US: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
enum Load {
    /// As much as there is room for.
    Full,
    /// Each source one record each time that this has passed.
    Every(Duration),
}

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
        if self.processed.load(Ordering::Relaxed) >= WARM {
            wait(Duration::from_micros(ANSWER_US.load(Ordering::Relaxed)));
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
fn wait(time: Duration) {
    if !time.is_zero() {
        std::thread::sleep(time);
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// A kind of checkpoint.
struct Kind {
    name: &'static str,
    /// Of each record.
    answer: Duration,
    load: Load,
    barriers: Mode,
    debloat: Option<Duration>,
    channel_capacity: usize,
    /// Records after which the queues are as long as they stay.
    settled: u64,
    checkpoints: u32,
    /// Of each checkpoint, from the request to the answer.
    complete: Vec<Duration>,
    summaries: Vec<CheckpointSummary>,
}

impl Kind {
    fn new(name: &'static str, answer: Duration, load: Load, barriers: Mode) -> Self {
        Self {
            name,
            answer,
            load,
            barriers,
            debloat: None,
            channel_capacity: 8,
            settled: WARM + 100,
            checkpoints: CHECKPOINTS,
            complete: Vec::new(),
            summaries: Vec::new(),
        }
    }

    /// The job with full queues.
    fn pressed(name: &'static str, answer: Duration, barriers: Mode) -> Self {
        Self::new(name, answer, Load::Full, barriers)
    }

    /// The job whose two sources send four fifths of what the operator can take.
    fn relaxed(name: &'static str, answer: Duration, barriers: Mode) -> Self {
        // A sleep ends some 60 µs late.
        let takes = answer + Duration::from_micros(60);
        let period = takes * 5 / 2;
        Self::new(name, answer, Load::Every(period), barriers)
    }

    /// A run of its own, in which the queues fill first.
    fn run(&mut self) {
        *LOAD.lock().expect("no panic") = self.load;
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
            wait(Duration::from_millis(1));
        }
        for i in 0..self.checkpoints {
            // So that barriers find the record in process at all its ages.
            wait(PAUSE + self.answer * (7 * i % 20) / 20);
            let start = now();
            handle.checkpoint().expect("a checkpoint");
            self.complete.push(now() - start);
        }
        handle.cancel();
        drop(handle);
        self.summaries
            .append(&mut completed.lock().expect("no panic"));
    }

    fn median<T: Ord + Copy>(&self, of: impl Fn(&CheckpointSummary) -> T) -> T {
        median(self.summaries.iter().map(of))
    }
}

fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort();
    values[values.len() / 2]
}

fn main() {
    let unaligned = Mode::Unaligned;
    let mut kinds = [
        Kind::relaxed("operator at once, aligned", Duration::ZERO, Mode::Aligned),
        Kind::relaxed("operator at once, unaligned", Duration::ZERO, unaligned),
        Kind::relaxed("1 ms a record, queues empty", SLOW, unaligned),
        Kind::pressed("1 ms a record, queues full", SLOW, unaligned),
        Kind {
            channel_capacity: 2,
            ..Kind::pressed("… a quarter as long", SLOW, unaligned)
        },
        Kind {
            channel_capacity: 32,
            ..Kind::pressed("… four times as long", SLOW, unaligned)
        },
        Kind::relaxed("200 µs a record, queues empty", LESS_SLOW, unaligned),
        Kind::pressed("200 µs a record, queues full", LESS_SLOW, unaligned),
        Kind {
            checkpoints: LONG_CHECKPOINTS,
            ..Kind::pressed("200 µs a record, aligned", LESS_SLOW, Mode::Aligned)
        },
        Kind {
            checkpoints: LONG_CHECKPOINTS,
            ..Kind::pressed(
                "1 ms a record, aligned for 100 ms",
                SLOW,
                Mode::AlignedFor(Duration::from_millis(100)),
            )
        },
        Kind {
            debloat: Some(Duration::from_millis(200)),
            // The keys came fast, and what they left in the queues goes first.
            settled: WARM + 5000,
            checkpoints: LONG_CHECKPOINTS,
            ..Kind::pressed("… aligned, debloated to 200 ms", SLOW, Mode::Aligned)
        },
        Kind {
            checkpoints: LONG_CHECKPOINTS,
            ..Kind::pressed("… aligned", SLOW, Mode::Aligned)
        },
    ];
    for _ in 0..ROUNDS {
        kinds.iter_mut().for_each(Kind::run);
    }
    report(&kinds);
}

#[expect(clippy::print_stdout, reason = "a bench reports")]
fn report(kinds: &[Kind]) {
    println!(
        "{:36} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "checkpoint, medians",
        "complete",
        "duration",
        "start delay",
        "alignment",
        "sync",
        "async",
        "in flight",
        "bytes"
    );
    for kind in kinds {
        println!(
            "{:36} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
            kind.name,
            format!("{:.1?}", median(kind.complete.iter().copied())),
            format!("{:.1?}", kind.median(|one| one.duration)),
            format!("{:.1?}", kind.median(|one| one.start_delay)),
            format!("{:.1?}", kind.median(|one| one.alignment)),
            format!("{:.1?}", kind.median(|one| one.sync)),
            format!("{:.1?}", kind.median(|one| one.r#async)),
            kind.median(|one| one.records_in_flight),
            kind.median(|one| one.bytes_in_flight),
        );
    }
    let complete = |kind: &Kind| median(kind.complete.iter().copied()).as_secs_f64();
    let duration = |kind: &Kind| kind.median(|one| one.duration).as_secs_f64();
    for (pressed, relaxed) in [(3, 2), (7, 6), (3, 1), (7, 1)] {
        let (pressed, relaxed) = (&kinds[pressed], &kinds[relaxed]);
        println!(
            "{}: complete after {:.2} ×, duration {:.2} × that of: {}",
            pressed.name,
            complete(pressed) / complete(relaxed),
            duration(pressed) / duration(relaxed),
            relaxed.name,
        );
    }
    for (unaligned, aligned) in [(3, 11), (7, 8)] {
        let (unaligned, aligned) = (&kinds[unaligned], &kinds[aligned]);
        println!(
            "{}: duration {:.0} × when aligned",
            unaligned.name,
            duration(aligned) / duration(unaligned)
        );
    }
    let bytes = |kind: &Kind| kind.median(|one| one.bytes_in_flight) as f64;
    let (short, long) = (&kinds[4], &kinds[5]);
    println!(
        "queues 16 times as long: {:.0} µs more for each further 100 KB in flight",
        (duration(long) - duration(short)) * 1e6 / ((bytes(long) - bytes(short)) / 1e5),
    );
}
