//! The demo: run the job, kill it, run it again with another parallelism, and look at what came out.

use std::{
    fs,
    io::{self, Write},
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

use cutwater_runtime::BoxError;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::{
    Example,
    event::{Event, What},
    flow::Flow,
    plan::{self, PARALLELISM, Planned},
    process::Process,
    report::{History, Recovery, Stop},
    run::Run,
    state::State,
};

/// What the user says on the command line of the demo.
#[derive(clap::Args, Debug)]
pub(crate) struct Demo<O: clap::Args> {
    #[command(flatten)]
    input: O,
    /// Records per second; 0 for as fast as it goes [default: all of them in 10 s]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    #[command(flatten)]
    flow: Flow,
    #[command(flatten)]
    state: State,
    /// Let every other run keep its state in memory instead, which takes full checkpoints
    #[arg(long)]
    switch: bool,
    /// Decides where the job is killed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A new folder for checkpoints, output and logs [default: the next in target/demo]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show every checkpoint in the table
    #[arg(long)]
    all: bool,
}

/// For the default folder.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// In the demo's folder, what the sink writes.
const OUTPUT: &str = "output";

/// How long the input takes unless the user sets a rate: some two hundred checkpoints.
const SECONDS: u64 = 10;

/// True if all is as it should be.
pub(crate) fn demo<E: Example>(options: &Demo<E::Options>) -> Result<bool, BoxError> {
    let example = E::new(&options.input)?;
    let records = example.records();
    let rate = options.rate.unwrap_or_else(|| (records / SECONDS).max(1));
    let directory = new_directory(options.dir.as_deref())?;
    let runs = plan::runs(options.seed, records);
    let flow = match E::HAS_LOOP {
        true => options.flow.slow(),
        false => options.flow,
    };
    introduce(&example, rate, options.seed, &runs, &directory)?;

    let stage = Stage {
        inputs: example.files(&directory)?,
        rate,
        flow,
        state: options.state,
        switch: options.switch,
        output: directory.join(OUTPUT),
        checkpoints: directory.join("checkpoints"),
        directory,
        bar: progress_bar(records),
    };
    let mut history = History::default();
    for (number, run) in runs.iter().enumerate() {
        stage.perform(number, run, &mut history)?;
    }
    stage.bar.finish_and_clear();

    let mut comparison = example.compare(&stage.output)?;
    if E::HAS_LOOP || flow.is_unaligned() {
        comparison = comparison.claim(
            "records that were in flight came back with their checkpoint",
            history.nothing_in_flight(),
        );
    }
    let mut out = io::stdout();
    history.write(&mut out, options.all)?;
    comparison.write(&mut out)?;
    writeln!(
        out,
        "\nThe checkpoints are kept: cargo run -p cutwater -- verify {}",
        stage.checkpoints.display()
    )?;
    Ok(comparison.agrees())
}

/// What the user says to compare once more.
#[derive(clap::Args, Debug)]
pub(crate) struct Compare<O: clap::Args> {
    #[command(flatten)]
    input: O,
    /// The folder of the demo
    dir: PathBuf,
}

/// Compares what an earlier demo has committed. True if all is as it should be.
pub(crate) fn compare<E: Example>(options: &Compare<E::Options>) -> Result<bool, BoxError> {
    let example = E::new(&options.input)?;
    let comparison = example.compare(&options.dir.join(OUTPUT))?;
    comparison.write(&mut io::stdout())?;
    Ok(comparison.agrees())
}

/// Where the runs happen.
struct Stage {
    inputs: Vec<PathBuf>,
    rate: u64,
    flow: Flow,
    state: State,
    switch: bool,
    directory: PathBuf,
    checkpoints: PathBuf,
    output: PathBuf,
    bar: ProgressBar,
}

impl Stage {
    /// Runs the job until its kill, or to the end.
    fn perform(&self, number: usize, run: &Planned, history: &mut History) -> Result<(), BoxError> {
        let log = self.directory.join(format!("run-{}.log", number + 1));
        let mut process = Process::start(&self.child(number, run), &log)?;
        let mut restored = Restored::default();
        let mut latest = None;
        loop {
            let (event, since_start) = process.next()?;
            self.show(number, run, &event);
            match event.what {
                What::Started {
                    restored: checkpoint,
                    in_flight,
                } => {
                    restored = Restored {
                        checkpoint,
                        in_flight,
                    };
                }
                What::Completed(checkpoint) => {
                    self.recovered(run, restored, &event, since_start, history)?;
                    latest = Some(checkpoint.id);
                    history.checkpoints.push((number + 1, checkpoint));
                }
                What::Aborted { .. } => history.aborted += 1,
                What::Halted { checkpoint } => {
                    let halt = run.halt.ok_or("a run halted that should not")?;
                    process.kill()?;
                    let stop = Stop {
                        window: halt.window,
                        checkpoint,
                        latest,
                        records: event.records,
                        parallelism: run.parallelism,
                    };
                    self.say(&format!("run {} was killed {stop}", number + 1))?;
                    history.stopped = Some(stop);
                    return Ok(());
                }
                What::Finished if run.halt.is_none() => return process.finish(),
                What::Finished => {
                    return Err(format!(
                        "run {} read its input to the end before it could be killed; use a lower \
                         --rate than {}",
                        number + 1,
                        self.rate
                    )
                    .into());
                }
            }
        }
    }

    fn child(&self, number: usize, run: &Planned) -> Run {
        Run {
            inputs: self.inputs.clone(),
            checkpoints: self.checkpoints.clone(),
            output: self.output.clone(),
            parallelism: run.parallelism,
            rate: self.rate,
            flow: self.flow,
            state: self.state.of_run(number, self.switch),
            halt: run.halt,
        }
    }

    /// A checkpoint is complete. The first after a kill says that the recovery has worked.
    fn recovered(
        &self,
        run: &Planned,
        restored: Restored,
        event: &Event,
        since_start: Duration,
        history: &mut History,
    ) -> Result<(), BoxError> {
        let Some(stop) = history.stopped.take() else {
            return Ok(());
        };
        let recovery = Recovery {
            stop,
            restored: restored.checkpoint,
            records: event.restored,
            in_flight: restored.in_flight,
            parallelism: run.parallelism,
            first_checkpoint: since_start,
        };
        self.say(&recovery.to_string())?;
        history.recoveries.push(recovery);
        Ok(())
    }

    fn show(&self, number: usize, run: &Planned, event: &Event) {
        self.bar.set_position(event.records);
        let checkpoint = match event.what {
            What::Completed(checkpoint) => format!(", checkpoint {}", checkpoint.id),
            _ => String::new(),
        };
        let (run_number, runs) = (number + 1, PARALLELISM.len());
        let parallelism = run.parallelism;
        self.bar.set_message(format!(
            "run {run_number} of {runs}, parallelism {parallelism}{checkpoint}"
        ));
    }

    /// A line above the bar.
    fn say(&self, line: &str) -> io::Result<()> {
        self.bar.suspend(|| writeln!(io::stdout(), "{line}"))
    }
}

/// What a run has started from.
#[derive(Clone, Copy, Debug, Default)]
struct Restored {
    checkpoint: Option<u64>,
    in_flight: u64,
}

/// Draws on standard error, and only if that is a terminal.
fn progress_bar(records: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:40.cyan/blue} {human_pos}/{human_len} records  {msg}")
            .expect("a template without mistakes")
            .progress_chars("━╸─");
    ProgressBar::new(records).with_style(style)
}

fn introduce(
    example: &impl Example,
    rate: u64,
    seed: u64,
    runs: &[Planned],
    directory: &Path,
) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}, in {}", example.summary(), directory.display())?;
    match NonZeroU64::new(rate) {
        Some(rate) => writeln!(out, "at {} records per second", HumanCount(rate.get()))?,
        None => writeln!(out, "as fast as it goes")?,
    }
    writeln!(out, "\nThe plan of seed {seed}:")?;
    for (number, run) in runs.iter().enumerate() {
        let end = match run.halt {
            Some(halt) => format!(
                "killed {}, after {} records",
                halt.window,
                HumanCount(halt.records)
            ),
            None => "to the end".to_owned(),
        };
        let parallelism = run.parallelism;
        writeln!(
            out,
            "  run {}  parallelism {parallelism}  {end}",
            number + 1
        )?;
    }
    writeln!(out)
}

/// A folder that did not exist.
fn new_directory(chosen: Option<&Path>) -> Result<PathBuf, BoxError> {
    if let Some(directory) = chosen {
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::create_dir(directory).map_err(|error| {
            let directory = directory.display();
            format!("{directory} cannot be made: {error}; name a folder that does not exist")
        })?;
        return Ok(directory.to_owned());
    }
    let demos = Path::new(WORKSPACE).join("target/demo");
    fs::create_dir_all(&demos)?;
    let demos = demos.canonicalize()?;
    for number in 1_u32.. {
        let directory = demos.join(number.to_string());
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("target/demo is full".into())
}
