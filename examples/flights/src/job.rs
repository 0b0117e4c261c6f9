//! The main job: logs of flights in, running totals per aircraft out.

use cutwater_example_demo::{Counter, Run};
use cutwater_file::FileSource;
use cutwater_runtime::{
    BoxError, Error, ErrorKind, Job, KeyedContext, KeyedOpen, KeyedProcess, Result,
};
use cutwater_state::{Handle, ValueState};

use crate::flight::{Flight, Totals, Update};

/// The job over the logs of `run`, one split each.
pub(crate) fn build(run: &Run, counter: Counter) -> Job {
    let job = Job::new("flights");
    let updates = run
        .read(&job, "flights", FileSource::<Flight>::csv(run.inputs()))
        .key_by(|flight| flight.tailnum.clone())
        .process("totals", move |open| {
            RunningTotals::open(open, counter.clone())
        });
    run.slowed(&updates).sink("updates", run.sink());
    job
}

/// Keeps the totals of each aircraft and emits them after each flight.
struct RunningTotals {
    totals: Handle<ValueState<String, Totals>>,
    counter: Counter,
}

impl RunningTotals {
    fn open(open: &mut KeyedOpen<'_, String>, counter: Counter) -> Result<Self> {
        let totals = open.keyed.value::<Totals>("totals").map_err(|error| {
            Error::new(ErrorKind::Restore, "the totals have no state").with_source(error)
        })?;
        let mut flights = 0;
        open.keyed[totals].for_each(|_, totals| flights += totals.flights)?;
        counter.restored(flights);
        Ok(Self { totals, counter })
    }
}

impl KeyedProcess<String> for RunningTotals {
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
        self.counter.processed();
        Ok(())
    }
}
