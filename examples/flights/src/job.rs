//! The main job: logs of flights in, running totals per aircraft out.

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Instant,
};

use cutwater_barrier::Time;
use cutwater_file::{FileSink, FileSource, JsonLines, Rolling};
use cutwater_runtime::{
    BoxError, Error, ErrorKind, Job, KeyedContext, KeyedOpen, KeyedProcess, Result,
};
use cutwater_source::Paced;
use cutwater_state::{Handle, ValueState};

use crate::flight::{Flight, Totals, Update};

/// The job over `logs`, one split each, read at `rate` flights per second or as fast as it goes.
///
/// `counted` is told of the flights that come into the state.
pub(crate) fn build(
    logs: Vec<PathBuf>,
    rate: Option<NonZeroU64>,
    output: &Path,
    rolling: Rolling,
    counted: impl Fn(Counted) + Clone + Send + Sync + 'static,
) -> Job {
    let job = Job::new("flights");
    let logs = FileSource::<Flight>::csv(logs);
    let flights = match rate {
        Some(rate) => job.source("flights", Paced::new(logs, rate, clock())),
        None => job.source("flights", logs),
    };
    flights
        .key_by(|flight| flight.tailnum.clone())
        .process("totals", move |open| {
            RunningTotals::open(open, counted.clone())
        })
        .sink(
            "updates",
            FileSink::new(output, JsonLines::new()).rolling(rolling),
        );
    job
}

/// How flights came into the state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// So many, with the state of a checkpoint.
    Restored(u64),
    /// One that was read.
    Read,
}

/// Keeps the totals of each aircraft and emits them after each flight.
struct RunningTotals<F> {
    totals: Handle<ValueState<String, Totals>>,
    counted: F,
}

impl<F: Fn(Counted)> RunningTotals<F> {
    fn open(open: &mut KeyedOpen<'_, String>, counted: F) -> Result<Self> {
        let totals = open.keyed.value::<Totals>("totals").map_err(|error| {
            Error::new(ErrorKind::Restore, "the totals have no state").with_source(error)
        })?;
        let restored = open.keyed[totals].iter();
        let flights = restored.map(|(_, totals)| totals.flights).sum();
        counted(Counted::Restored(flights));
        Ok(Self { totals, counted })
    }
}

impl<F: Fn(Counted) + 'static> KeyedProcess<String> for RunningTotals<F> {
    type In = Flight;
    type Out = Update;

    fn process(
        &mut self,
        flight: Flight,
        context: &mut KeyedContext<'_, String>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        let totals = context.keyed[self.totals].or_insert_with(context.key, Totals::default)?;
        totals.add(&flight);
        out.push(Update::new(flight.tailnum, *totals));
        (self.counted)(Counted::Read);
        Ok(())
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
