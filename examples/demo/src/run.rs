//! One run of the job, in the process that the demo kills.
//!
//! It tells the demo on standard output what happens ([`Event`]), and at the moment it was told it
//! stops for ever and says so. It ends with its standard input, so it never outlives the demo.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    num::NonZeroU64,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cutwater_barrier::{CheckpointId, Time};
use cutwater_file::{FileSink, JsonLines, Rolling};
use cutwater_runtime::{
    BoxError, CheckpointSummary, Job, Moment, Observer, Record, Restart, Settings, Stream,
};
use cutwater_source::{Paced, Source};
use cutwater_storage::LocalBlobs;

use crate::{
    Example,
    event::{Checkpoint, Event, What},
    flow::{self, Flow},
    halt::{Halt, Window},
    state::State,
};

/// What the demo says on the command line of a run.
#[derive(clap::Args, Clone, Debug)]
pub struct Run {
    /// The files to read, each a split.
    #[arg(long = "input", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Where its checkpoints are.
    #[arg(long)]
    pub(crate) checkpoints: PathBuf,
    /// Where the sink writes.
    #[arg(long)]
    pub(crate) output: PathBuf,
    /// Subtasks of each operator.
    #[arg(long)]
    pub(crate) parallelism: u16,
    /// Records per second; 0 for as fast as it goes.
    #[arg(long)]
    pub(crate) rate: u64,
    #[command(flatten)]
    pub(crate) flow: Flow,
    #[command(flatten)]
    pub(crate) state: State,
    /// Stop and wait at the first such moment, `prepared:5400` for example.
    #[arg(long)]
    pub(crate) halt: Option<Halt>,
}

/// Checkpoints are this far apart.
const INTERVAL: Duration = Duration::from_millis(50);

/// A file of the output is not kept open for longer.
const AGE_MAX: Duration = Duration::from_secs(10);

impl Run {
    /// The files to read, each a split.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Reads `source` at the run's rate, or as fast as it goes if the [slow](Self::slowed) stage is to
    /// keep that.
    pub fn read<S: Source>(&self, job: &Job, uid: &str, source: S) -> Stream<S::Record> {
        match NonZeroU64::new(self.rate) {
            Some(rate) if !self.flow.is_slow() => {
                job.source(uid, Paced::new(source, rate, clock()))
            }
            _ => job.source(uid, source),
        }
    }

    /// The same records, each of which holds up the task that has made it if the run is to have a slow
    /// stage. So what goes into that task waits in its channels.
    pub fn slowed<T: Record>(&self, stream: &Stream<T>) -> Stream<T> {
        if !self.flow.is_slow() {
            return stream.clone();
        }
        let cost = flow::cost(self.parallelism, self.rate);
        stream.map(move |record| {
            flow::pause(cost);
            record
        })
    }

    /// The sink of the run's output, a JSON object a line.
    ///
    /// Its files are full about once between two checkpoints. So most checkpoints close some, which a
    /// kill could lose or double, and leave some open, which the next run has to carry on.
    pub fn sink<T: Record>(&self) -> FileSink<JsonLines<T>> {
        const RECORD_BYTES: f64 = 100.0;
        let per_interval = self.rate as f64 * INTERVAL.as_secs_f64() * RECORD_BYTES;
        let bytes_max = match self.rate {
            0 => 1 << 20,
            _ => per_interval as u64 / 2,
        };
        let rolling = Rolling::new(bytes_max, AGE_MAX);
        FileSink::new(&self.output, JsonLines::new()).rolling(rolling)
    }

    /// The command line that [`Run`] is read from.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["run".into()];
        for input in &self.inputs {
            arguments.extend(["--input".into(), input.into()]);
        }
        arguments.extend(["--checkpoints".into(), (&self.checkpoints).into()]);
        arguments.extend(["--output".into(), (&self.output).into()]);
        arguments.extend(["--parallelism".into(), self.parallelism.to_string().into()]);
        arguments.extend(["--rate".into(), self.rate.to_string().into()]);
        arguments.extend(self.flow.arguments());
        arguments.extend(self.state.arguments());
        if let Some(halt) = self.halt {
            arguments.extend(["--halt".into(), halt.to_string().into()]);
        }
        arguments
    }

    fn settings(&self) -> Result<Settings, BoxError> {
        let mut settings = Settings::default();
        settings.parallelism = self.parallelism;
        settings.checkpoint_interval = Some(INTERVAL);
        settings.retained_checkpoints = 3;
        self.flow.set(&mut settings);
        self.state.set(&mut settings, &self.checkpoints)?;
        settings.restart = Restart::Never; // A failure that was not planned is not to be mended in silence.
        Ok(settings)
    }
}

/// Runs the job to the end of its input, or to its halt.
pub(crate) fn run<E: Example>(run: Run) -> Result<(), BoxError> {
    end_with_standard_input();
    let watch = Arc::new(Watch {
        halt: run.halt,
        restored: AtomicU64::new(0),
        records: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
    });
    let job = E::job(&run, Counter(Arc::clone(&watch)));
    let store = LocalBlobs::open(&run.checkpoints)?;
    let mut settings = run.settings()?;
    let observes = Arc::clone(&watch);
    settings.observer = Observer::new(move |moment| observes.reached(moment));
    job.start(store, settings)?.wait()?;
    watch.say(What::Finished);
    Ok(())
}

/// Told of every record that comes into the job's state.
#[derive(Clone, Debug)]
pub struct Counter(Arc<Watch>);

impl Counter {
    /// So many came with the state of a checkpoint.
    pub fn restored(&self, records: u64) {
        self.0.restored.fetch_add(records, Ordering::Relaxed);
        self.0.records.fetch_add(records, Ordering::Relaxed);
    }

    /// One was processed. Does not return if the run is to be killed here.
    pub fn processed(&self) {
        self.0.records.fetch_add(1, Ordering::Relaxed);
        self.0.halt_if_due(Window::Record, None);
    }
}

/// Counts, reports, and knows when it is time to halt.
#[derive(Debug)]
struct Watch {
    halt: Option<Halt>,
    restored: AtomicU64,
    records: AtomicU64,
    /// Completed in this run.
    checkpoints: AtomicU64,
}

impl Watch {
    fn reached(&self, moment: &Moment) {
        match moment {
            Moment::Started {
                restored,
                records_in_flight,
                ..
            } => self.say(What::Started {
                restored: restored.map(CheckpointId::get),
                in_flight: *records_in_flight,
            }),
            Moment::Prepared(checkpoint) => self.halt_if_due(Window::Prepared, Some(*checkpoint)),
            Moment::Completed(summary) => {
                self.say(What::Completed(checkpoint(summary)));
                self.checkpoints.fetch_add(1, Ordering::Relaxed);
                self.halt_if_due(Window::Completed, Some(summary.checkpoint));
            }
            Moment::Committed(checkpoint) => {
                self.halt_if_due(Window::Committed, Some(*checkpoint));
            }
            Moment::Aborted { checkpoint, reason } => self.say(What::Aborted {
                checkpoint: checkpoint.get(),
                reason: reason.clone(),
            }),
            // A failure ends the process, and its error says more.
            _ => {}
        }
    }

    fn halt_if_due(&self, window: Window, checkpoint: Option<CheckpointId>) {
        let is_due = self.halt.is_some_and(|halt| {
            halt.window == window
                && halt.records <= self.records.load(Ordering::Relaxed)
                && Halt::CHECKPOINTS <= self.checkpoints.load(Ordering::Relaxed)
        });
        if is_due {
            self.say(What::Halted {
                checkpoint: checkpoint.map(CheckpointId::get),
            });
            loop {
                thread::park();
            }
        }
    }

    fn say(&self, what: What) {
        let event = Event {
            restored: self.restored.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            what,
        };
        let line = serde_json::to_string(&event).expect("an event is JSON");
        // If the demo no longer listens, standard input is about to end.
        let _unheard = writeln!(io::stdout(), "{line}");
    }
}

fn checkpoint(summary: &CheckpointSummary) -> Checkpoint {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Checkpoint {
        id: summary.checkpoint.get(),
        duration: micros(summary.duration),
        start_delay: micros(summary.start_delay),
        alignment: micros(summary.alignment),
        sync: micros(summary.sync),
        r#async: micros(summary.r#async),
        bytes: summary.bytes,
        in_flight: summary.records_in_flight,
        bytes_in_flight: summary.bytes_in_flight,
    }
}

/// The time since now.
#[expect(
    clippy::disallowed_methods,
    reason = "a program owns the clock it paces its source by"
)]
fn clock() -> impl Fn() -> Time + Send + Sync + 'static {
    let start = Instant::now();
    move || Time::new(start.elapsed())
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing of the job: it waits for the demo to go away"
)]
fn end_with_standard_input() {
    thread::spawn(|| {
        let _error_or_end = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}
