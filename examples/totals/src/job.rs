//! The job: rows in, running totals per key out.

use cutwater_file::{Csv, FileSink};
use cutwater_runtime::{
    BoxError, Error, ErrorKind, Job, KeyedContext, KeyedOpen, KeyedProcess, Result,
};
use cutwater_source::Source;
use cutwater_state::{Handle, ValueState};
use serde::{Deserialize, Serialize};

use crate::{
    decimal::Decimal,
    row::{Columns, Row},
};

/// The name of the job, which is that of its output files.
pub(crate) const NAME: &str = "totals";

/// The state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    /// In the order of [`Columns::sums`].
    pub(crate) sums: Vec<Decimal>,
}

/// A line of the output: a key, its rows so far, its sums so far.
type Update = (String, u64, Vec<Decimal>);

/// The format of the output: the key, `rows`, and the sums under their own names.
pub(crate) fn output_format(columns: &Columns) -> Csv<Update> {
    let names = [&columns.key, "rows"].into_iter().map(str::to_owned);
    Csv::new(names.chain(columns.sums.iter().cloned()))
}

/// The job over `rows`, writing every update of a total to `sink`.
pub(crate) fn build(
    rows: impl Source<Record = Row>,
    columns: &'static Columns,
    sink: FileSink<Csv<Update>>,
) -> Job {
    let job = Job::new(NAME);
    job.source("rows", rows)
        .key_by(|row| row.key.clone())
        .process("totals", move |open| RunningTotals::open(open, columns))
        .sink("updates", sink);
    job
}

/// Keeps the totals of each key and emits them after each row.
struct RunningTotals {
    columns: &'static Columns,
    totals: Handle<ValueState<String, Totals>>,
}

impl RunningTotals {
    fn open(open: &mut KeyedOpen<'_, String>, columns: &'static Columns) -> Result<Self> {
        // The columns are part of the state's name: totals of other columns are refused, not mixed.
        let Columns { key, sums } = columns;
        let name = format!("totals of {} by {key}", sums.join(", "));
        let totals = open.keyed.value(name.as_str()).map_err(|error| {
            Error::new(ErrorKind::Restore, "the totals have no state").with_source(error)
        })?;
        Ok(Self { columns, totals })
    }
}

impl KeyedProcess<String> for RunningTotals {
    type In = Row;
    type Out = Update;

    fn process(
        &mut self,
        row: Row,
        context: &mut KeyedContext<'_, String>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        let totals = context.keyed[self.totals].or_insert_with(context.key, || Totals {
            rows: 0,
            sums: vec![Decimal::default(); row.numbers.len()],
        })?;
        totals.rows += 1;
        for (place, number) in row.numbers.iter().enumerate() {
            let sum = totals.sums[place].checked_add(*number).ok_or_else(|| {
                let (column, key) = (&self.columns.sums[place], &row.key);
                format!("the sum of `{column}` for {key:?} has more than 38 digits")
            })?;
            totals.sums[place] = sum;
        }
        out.push((row.key, totals.rows, totals.sums.clone()));
        Ok(())
    }
}
