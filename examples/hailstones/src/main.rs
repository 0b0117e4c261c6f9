//! Hailstone numbers going round a loop until they are 1, in a job that is killed and restarted.
//!
//! The loop is in `job.rs`, and what must be true of its output in `compare.rs`. All that kills and
//! restarts it is the crate `cutwater-example-demo`.

mod compare;
mod hailstone;
mod job;

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use cutwater_example_demo::{Comparison, Counter, Example, Run};
use cutwater_runtime::{BoxError, Job};
use indicatif::HumanCount;

use crate::hailstone::Hailstone;

fn main() -> ExitCode {
    cutwater_example_demo::main::<Hailstones>()
}

/// Which numbers start.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Hailstones {
    /// All numbers from 1 to this one start
    #[arg(long, value_name = "N", default_value_t = 500)]
    starts: u64,
}

/// So many files, each a split.
const FILES: u64 = 3;

impl Example for Hailstones {
    type Options = Self;

    const HAS_LOOP: bool = true;

    fn new(options: &Self) -> Result<Self, BoxError> {
        Ok(*options)
    }

    fn summary(&self) -> String {
        let (starts, steps) = (HumanCount(self.starts), HumanCount(self.records()));
        format!("{starts} numbers that come down to 1 in {steps} steps")
    }

    fn records(&self) -> u64 {
        let paths = (1..=self.starts).map(|start| Hailstone::new(start).path());
        paths.flatten().map(|_| 1).sum()
    }

    fn files(&self, directory: &Path) -> Result<Vec<PathBuf>, BoxError> {
        let mut files = Vec::new();
        for file in 0..FILES {
            let path = directory.join(format!("starts-{file}.jsonl"));
            let mut lines = String::new();
            for start in (1..=self.starts).filter(|start| start % FILES == file) {
                writeln!(lines, "{start}")?;
            }
            fs::write(&path, lines)?;
            files.push(path);
        }
        Ok(files)
    }

    fn job(run: &Run, counter: Counter) -> Job {
        job::build(run, counter)
    }

    fn compare(&self, output: &Path) -> Result<Comparison, BoxError> {
        compare::compare(output, self.starts)
    }
}
