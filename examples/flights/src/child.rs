//! One run of the job, in the process that the demo kills.
//!
//! It tells the demo on standard output what happens ([`Event`]), and at the moment it was told it
//! stops for ever and says so. It ends with its standard input, so it never outlives the demo.

use std::{
    io::{self, Read, Write},
    num::NonZeroU64,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use cutwater_barrier::CheckpointId;
use cutwater_file::Rolling;
use cutwater_runtime::{BoxError, CheckpointSummary, Moment, Observer, Restart, Settings};
use cutwater_storage::LocalBlobs;

use crate::{
    event::{Checkpoint, Event, What},
    halt::{Halt, Window},
    job::{self, Counted},
};

/// What the demo says on the command line of a run.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Run {
    /// The logs to read, each a split.
    #[arg(long = "log", required = true)]
    pub(crate) logs: Vec<PathBuf>,
    /// Where its checkpoints are.
    #[arg(long)]
    pub(crate) checkpoints: PathBuf,
    /// Where the sink writes.
    #[arg(long)]
    pub(crate) output: PathBuf,
    /// Subtasks of each operator.
    #[arg(long)]
    pub(crate) parallelism: u16,
    /// Flights per second; 0 for as fast as it goes.
    #[arg(long)]
    pub(crate) rate: u64,
    /// Stop and wait at the first such moment, `prepared:5400` for example.
    #[arg(long)]
    pub(crate) halt: Option<Halt>,
}

/// Checkpoints are this far apart.
const INTERVAL: Duration = Duration::from_millis(50);

/// A file of updates is not kept open for longer.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Runs the job to the end of its input, or to its halt.
pub(crate) fn run(run: Run) -> Result<(), BoxError> {
    end_with_standard_input();
    let watch = Arc::new(Watch {
        halt: run.halt,
        restored: AtomicU64::new(0),
        flights: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
    });
    let counts = Arc::clone(&watch);
    let counted = move |flights| counts.counted(flights);
    let rate = NonZeroU64::new(run.rate);
    let job = job::build(run.logs, rate, &run.output, rolling(rate), counted);

    let mut settings = Settings::default();
    settings.parallelism = run.parallelism;
    settings.checkpoint_interval = Some(INTERVAL);
    settings.retained_checkpoints = 3;
    settings.restart = Restart::Never; // A failure that was not planned is not to be mended in silence.
    let store = LocalBlobs::open(&run.checkpoints)?;
    let observes = Arc::clone(&watch);
    settings.observer = Observer::new(move |moment| observes.reached(moment));
    job.start(store, settings)?.wait()?;
    watch.say(What::Finished);
    Ok(())
}

/// Files that are full about once between two checkpoints. So most checkpoints close some, which a
/// kill could lose or double, and leave some open, which the next run has to carry on.
fn rolling(rate: Option<NonZeroU64>) -> Rolling {
    const UPDATE_BYTES: f64 = 100.0;
    let per_interval = rate.map(|rate| rate.get() as f64 * INTERVAL.as_secs_f64() * UPDATE_BYTES);
    Rolling::new(
        per_interval.map_or(1 << 20, |bytes| bytes as u64 / 2),
        AGE_MAX,
    )
}

/// Counts, reports, and knows when it is time to halt.
struct Watch {
    halt: Option<Halt>,
    restored: AtomicU64,
    flights: AtomicU64,
    /// Completed in this run.
    checkpoints: AtomicU64,
}

impl Watch {
    fn counted(&self, counted: Counted) {
        match counted {
            Counted::Restored(flights) => {
                self.restored.fetch_add(flights, Ordering::Relaxed);
                self.flights.fetch_add(flights, Ordering::Relaxed);
            }
            Counted::Read => {
                self.flights.fetch_add(1, Ordering::Relaxed);
                self.halt_if_due(Window::Flight, None);
            }
        }
    }

    fn reached(&self, moment: &Moment) {
        match moment {
            Moment::Started { restored, .. } => self.say(What::Started {
                restored: restored.map(CheckpointId::get),
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
                && halt.flights <= self.flights.load(Ordering::Relaxed)
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
            flights: self.flights.load(Ordering::Relaxed),
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
        alignment: micros(summary.alignment),
        sync: micros(summary.sync),
        r#async: micros(summary.r#async),
        bytes: summary.bytes,
    }
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
