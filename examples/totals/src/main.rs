//! Running totals over CSV files of one's own, exactly once, whatever happens to the process.
//!
//! The job is in `job.rs`; this is the command around it.

mod decimal;
mod input;
mod job;
mod row;
mod table;

use std::{
    error::Error,
    io::{self, Write},
    num::NonZeroU64,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use cutwater_barrier::Time;
use cutwater_file::FileSink;
use cutwater_runtime::{BoxError, ErrorKind, Moment, Observer, Restart, Settings};
use cutwater_source::Paced;
use cutwater_storage::LocalBlobs;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use tracing_subscriber::EnvFilter;

use crate::{
    input::Input,
    row::{Columns, Row},
    table::Committed,
};

/// Sum columns of CSV files per key, with checkpoints.
///
/// Ctrl-C stops the job with a checkpoint. The same command continues it, as it does after a crash.
#[derive(Debug, Parser)]
struct Arguments {
    /// The column whose values are the keys
    #[arg(long, value_name = "COLUMN")]
    key: String,
    /// A column to sum; may be given more than once. NA and empty cells count as 0
    #[arg(long, value_name = "COLUMN", required = true)]
    sum: Vec<String>,
    /// CSV files with a header, plain or compressed (.gz, .zst)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where checkpoints are kept
    #[arg(long, value_name = "DIR", default_value = "totals/checkpoints")]
    checkpoints: PathBuf,
    /// Where every update of a total is written
    #[arg(long, value_name = "DIR", default_value = "totals/output")]
    output: PathBuf,
    /// Subtasks of each operator; may change from one start to the next
    #[arg(long, value_name = "N", default_value_t = 2)]
    parallelism: u16,
    /// Report rows that cannot be understood and go on, instead of ending
    #[arg(long)]
    skip_bad: bool,
    /// What separates the columns, a single byte
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Read at most so many rows per second, to watch it
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU64>,
    /// Show so many keys
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// As a shell reports a program that Ctrl-C has ended.
const STOPPED: u8 = 130;

fn main() -> ExitCode {
    let default = || EnvFilter::new("warn");
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| default()))
        .with_writer(io::stderr)
        .init();
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(STOPPED),
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// True if the input has ended, false if the job was stopped before.
fn run(arguments: &Arguments) -> Result<bool, BoxError> {
    let columns = Columns {
        key: arguments.key.clone(),
        sums: arguments.sum.clone(),
    };
    let columns = columns.choose()?;
    let input = Input::new(&arguments.files, arguments.delimiter, arguments.skip_bad)?;
    input.check(columns)?;

    let sink = FileSink::new(&arguments.output, job::output_format(columns));
    let rows = input.source::<Row>();
    let job = match arguments.rate {
        Some(rate) => job::build(Paced::new(rows, rate, clock()), columns, sink),
        None => job::build(rows, columns, sink),
    };
    let mut settings = Settings::default();
    settings.parallelism = arguments.parallelism;
    settings.restart = Restart::Never; // The user sees why, and can start it again.
    let store = LocalBlobs::open(&arguments.checkpoints)?;
    let bar = progress_bar();
    let progress = bar.clone();
    settings.observer = Observer::new(move |moment| show(&progress, moment));
    let handle = job.start(store, settings)?;
    handle.stop_on_signals()?;
    let mut out = io::stdout();
    let hint = "Ctrl-C stops with a checkpoint; the same command continues.";
    bar.suspend(|| writeln!(out, "{hint}"))?;

    let outcome = handle.wait().map_err(explain)?;
    bar.finish_and_clear();
    let committed = Committed::read(&arguments.output)?;
    writeln!(out, "{}", committed.table(columns, arguments.top))?;
    writeln!(
        out,
        "{} keys, {} rows; {} at checkpoint {}.",
        HumanCount(committed.keys() as u64),
        HumanCount(committed.rows()),
        if outcome.is_finished {
            "finished"
        } else {
            "stopped"
        },
        outcome.checkpoint
    )?;
    Ok(outcome.is_finished)
}

/// Adds what only this command knows: which of its options belong together.
fn explain(error: cutwater_runtime::Error) -> BoxError {
    let hint = match error.kind() {
        ErrorKind::Restore => {
            "the checkpoints are those of another command; choose other folders with \
             --checkpoints and --output"
        }
        ErrorKind::Fenced => {
            "another process writes to --output, or it belongs to other --checkpoints; choose \
             folders that belong together"
        }
        _ => return error.into(),
    };
    format!("{} ({hint})", error.chain()).into()
}

/// Draws on standard error, and only if that is a terminal.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}")
        .expect("a template without mistakes");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn show(bar: &ProgressBar, moment: &Moment) {
    match moment {
        Moment::Started {
            restored: Some(checkpoint),
            ..
        } => bar.set_message(format!("continuing from checkpoint {checkpoint}")),
        Moment::Started { .. } => bar.set_message("starting"),
        Moment::Completed(summary) => {
            let bytes = HumanBytes(summary.bytes);
            bar.set_message(format!("checkpoint {}, {bytes}", summary.checkpoint));
        }
        _ => {}
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] => Ok(*byte),
        _ => Err("a delimiter is a single byte, or \\t".to_owned()),
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
