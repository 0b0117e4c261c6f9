//! Running totals per aircraft over real flight logs, in a job that is killed and restarted.
//!
//! `demo` is what one runs; `run` is what it runs, and kills. The job itself is in `job.rs`.

mod child;
mod compare;
mod demo;
mod event;
mod flight;
mod halt;
mod job;
mod logs;
mod plan;
mod process;
mod report;

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Running totals per aircraft over real flight logs, in a job that is killed and restarted.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the job, kill it four times, and compare what it has committed with what is right
    Demo(demo::Demo),
    /// Compare again what a demo has committed with what is right
    Compare(demo::Compare),
    /// One run of the job, as the demo starts it
    #[command(hide = true)]
    Run(child::Run),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_ansi(false) // A run's goes to a file.
        .with_writer(io::stderr)
        .init();
    let succeeded = match Arguments::parse().command {
        Command::Demo(options) => demo::demo(&options),
        Command::Compare(options) => demo::compare(&options),
        Command::Run(options) => child::run(options).map(|()| true),
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
