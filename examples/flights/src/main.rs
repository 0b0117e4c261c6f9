//! Running totals per aircraft over real flight logs, in a job that is killed and restarted.
//!
//! The job is in `job.rs`, what is right in `logs.rs`, and what it is compared by in `compare.rs`.
//! All that kills and restarts it is the crate `cutwater-example-demo`.

mod compare;
mod flight;
mod job;
mod logs;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use cutwater_example_demo::{Comparison, Counter, Example, Run};
use cutwater_runtime::{BoxError, Job};
use indicatif::HumanCount;

use crate::logs::Fleet;

fn main() -> ExitCode {
    cutwater_example_demo::main::<Flights>()
}

/// The logs, what they add up to, and what they should.
struct Flights {
    logs: Vec<PathBuf>,
    pass: Fleet,
    expected: Fleet,
}

/// What the user says about the logs.
#[derive(clap::Args, Debug)]
struct Options {
    /// A folder of flight logs and `expected-by-tailnum.csv` [default: January 2013]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

const JANUARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/flights-2013-01");

impl Example for Flights {
    type Options = Options;

    const HAS_LOOP: bool = false;

    fn new(options: &Options) -> Result<Self, BoxError> {
        let data = options.data.as_deref().unwrap_or(Path::new(JANUARY));
        let logs = logs::find(data)?;
        Ok(Self {
            pass: logs::count(&logs)?,
            expected: logs::expected(data)?,
            logs,
        })
    }

    fn summary(&self) -> String {
        let (flights, aircraft) = (self.records(), self.pass.len() as u64);
        let (flights, aircraft) = (HumanCount(flights), HumanCount(aircraft));
        let logs = self.logs.len();
        format!("{flights} flights of {aircraft} aircraft in {logs} logs")
    }

    fn records(&self) -> u64 {
        self.pass.values().map(|totals| totals.flights).sum()
    }

    fn files(&self, _directory: &Path) -> Result<Vec<PathBuf>, BoxError> {
        Ok(self.logs.clone())
    }

    fn job(run: &Run, counter: Counter) -> Job {
        job::build(run, counter)
    }

    fn compare(&self, output: &Path) -> Result<Comparison, BoxError> {
        compare::compare(output, &self.pass, &self.expected)
    }
}
