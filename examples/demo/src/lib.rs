//! Shows a job that survives: runs it in a process of its own, kills that with SIGKILL in the worst
//! moments, starts it again with another parallelism, and compares what it has committed with what is
//! right.
//!
//! An [`Example`] says what to run and what is right; [`main`] is the program around it. Its
//! subcommand `demo` is what one runs, `run` is what that runs and kills, and `compare` looks once
//! more at what a demo has left.

mod demo;
mod event;
mod flow;
mod halt;
mod output;
mod plan;
mod process;
mod report;
mod run;
mod state;

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use cutwater_runtime::{BoxError, Job};
use tracing_subscriber::EnvFilter;

pub use output::{Comparison, Ledger, read_committed};
pub use run::{Counter, Run};

/// A job to be shown.
pub trait Example: Sized {
    /// What its user may say about the input.
    type Options: clap::Args + fmt::Debug;

    /// Whether records go round a loop in the job. Then it always has a [slow](Run::slowed) stage, so
    /// that some are on their way whenever a checkpoint is taken.
    const HAS_LOOP: bool;

    /// The input that `options` ask for.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn new(options: &Self::Options) -> Result<Self, BoxError>;

    /// What there is to read, for people: `27,004 flights in 3 logs`.
    fn summary(&self) -> String;

    /// How many records come into the job's state, all in all.
    fn records(&self) -> u64;

    /// The files that the job reads, each a split. May write them into `directory`, the demo's own.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    fn files(&self, directory: &Path) -> Result<Vec<PathBuf>, BoxError>;

    /// The job, telling `counter` of every record that comes into its state.
    fn job(run: &Run, counter: Counter) -> Job;

    /// What is committed in `output`, beside what is right.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn compare(&self, output: &Path) -> Result<Comparison, BoxError>;
}

/// Runs a job, kills it, and compares what it has committed with what is right.
#[derive(Parser)]
struct Arguments<O: clap::Args> {
    #[command(subcommand)]
    command: Command<O>,
}

#[derive(Subcommand)]
enum Command<O: clap::Args> {
    /// Run the job, kill it four times, and compare what it has committed with what is right
    Demo(demo::Demo<O>),
    /// Compare again what a demo has committed with what is right
    Compare(demo::Compare<O>),
    /// One run of the job, as the demo starts it
    #[command(hide = true)]
    Run(Run),
}

/// The whole program of an example.
pub fn main<E: Example>() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_ansi(false) // A run's goes to a file.
        .with_writer(io::stderr)
        .init();
    let succeeded = match Arguments::<E::Options>::parse().command {
        Command::Demo(options) => demo::demo::<E>(&options),
        Command::Compare(options) => demo::compare::<E>(&options),
        Command::Run(options) => run::run::<E>(options).map(|()| true),
    };
    match succeeded {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line += &format!(": {cause}");
        source = cause.source();
    }
    line
}
