//! The job: numbers in, round a loop until they are 1, every number that they visit out.

use cutwater_example_demo::{Counter, Run};
use cutwater_file::FileSource;
use cutwater_runtime::{
    BoxError, Error, ErrorKind, Job, KeyedContext, KeyedOpen, KeyedProcess, Result,
};
use cutwater_state::{Handle, ValueState};

use crate::hailstone::{Hailstone, Visit};

/// The job over the starts in the files of `run`.
///
/// ```text
///   starts ──▶ ┐
///              ├─▶ fall ══ by number ══▶ count ──▶ visits
///          ┌─▶ ┘                           │
///          └── the next number, until 1 ◀──┘
/// ```
pub(crate) fn build(run: &Run, counter: Counter) -> Job {
    let job = Job::new("hailstones");
    run.read(&job, "starts", FileSource::json_lines(run.inputs()))
        .map(Hailstone::new)
        .iterate("fall", |hailstones| {
            let visits = hailstones
                .key_by(|hailstone| hailstone.number)
                .process("count", move |open| Count::open(open, counter.clone()));
            let visits = run.slowed(&visits);
            let again = visits.flat_map(|visit, next| next.extend(visit.hailstone().next()));
            (again, visits)
        })
        .sink("visits", run.sink());
    job
}

/// Counts how many hailstones have been at each number. The number is the key, so a hailstone goes
/// through another subtask at nearly every step.
struct Count {
    visits: Handle<ValueState<u64, u64>>,
    counter: Counter,
}

impl Count {
    fn open(open: &mut KeyedOpen<'_, u64>, counter: Counter) -> Result<Self> {
        let visits = open.keyed.value::<u64>("visits").map_err(|error| {
            Error::new(ErrorKind::Restore, "the visits have no state").with_source(error)
        })?;
        let mut sum = 0;
        open.keyed[visits].for_each(|_, visits| sum += visits)?;
        counter.restored(sum);
        Ok(Self { visits, counter })
    }
}

impl KeyedProcess<u64> for Count {
    type In = Hailstone;
    type Out = Visit;

    fn process(
        &mut self,
        hailstone: Hailstone,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Visit>,
    ) -> Result<(), BoxError> {
        let visits = context.keyed[self.visits].or_insert_with(context.key, u64::default)?;
        *visits += 1;
        out.push(Visit::new(hailstone, *visits));
        self.counter.processed();
        Ok(())
    }
}
