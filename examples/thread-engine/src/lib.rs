//! An engine of plain threads with exactly-once checkpoints: what it takes to use the crates.
//!
//! ```text
//!  this thread                                        one OS thread each
//!  source 0 ─┐ records, barriers                      ┌─▶ worker 0: key groups   0..64 ─▶ writer 0
//!  source 1 ─┴────────────── mpsc ────────────────────┴─▶ worker 1: key groups  64..128 ─▶ writer 1
//!  coordinator ◀───────────── mpsc ── acknowledgements ───┘
//!   ├─▶ checkpoint store
//!   └─▶ committer
//! ```
//!
//! The job counts words, and writes a line such as `alice 3` each time it sees one. So every line is
//! there once exactly if state, output and positions of the sources agree, whatever crashes.
//!
//! Read on in this file (the start and the stop of an attempt), then `driver` (its loop), then
//! `worker`. Nothing here is async: a `block_on` stands around the store and the sink.
#![warn(clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod driver;
pub mod lines;
mod worker;

use std::{collections::BTreeMap, error, path::PathBuf, sync::mpsc, thread, time::Instant};

use cutwater_barrier::Time;
use cutwater_keygroups::{MaxParallelism, range_of};
use cutwater_sink_2pc::{CommitterContext, Driver, Machine, Prepared, Retry, Sink, WriterContext};
use cutwater_state::OperatorStates;
use cutwater_storage::{CheckpointStore, LocalBlobs, Metadata, Options, Subtask};
use futures::executor::block_on;

use crate::{driver::Attempt, worker::Worker};

/// Whatever went wrong. Crates say it precisely, an engine mostly passes it on.
pub type Error = Box<dyn error::Error + Send + Sync>;
/// A `Result` whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

const JOB: &str = "words";
/// The operator uids, by which a restore finds what is whose.
const SOURCE: &str = "source";
const COUNT: &str = "count";
/// Fixed for the life of the job. The parallelism is free, up to this.
const MAX_PARALLELISM: MaxParallelism = MaxParallelism::default_for(1);

/// What to run, with how many threads.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "written as a literal by its users"
)]
pub struct Job<'a, S> {
    /// What each source reads.
    pub input: &'a [Vec<String>],
    /// Where the output goes.
    pub sink: &'a S,
    /// Where checkpoints are kept.
    pub checkpoints: PathBuf,
    /// How many worker threads there are.
    pub parallelism: u16,
    /// A checkpoint is asked for after so many words of each source.
    pub every: usize,
    /// Where to stop as if killed, at the first checkpoint of this run.
    pub crash: Option<Crash>,
}

/// The moments at which a checkpoint is half done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "before the decision, and after it")]
pub enum Crash {
    /// All output is prepared, all state is stored, and the checkpoint is not complete.
    BeforeComplete,
    /// The checkpoint is complete, and nothing of it is committed.
    BeforeCommit,
}

/// How a run ended.
#[derive(Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "it ended or it did not")]
pub enum Outcome {
    /// All input is counted; these are the counts.
    Finished(BTreeMap<String, u64>),
    /// As the job asked for.
    Crashed,
}

/// Runs one attempt of the job, from the newest checkpoint if there is one.
///
/// # Errors
///
/// Whatever made the attempt fail. Run it again: the next attempt starts from the newest checkpoint.
pub fn run<S: Sink<Record = String>>(job: &Job<'_, S>) -> Result<Outcome> {
    #[expect(clippy::disallowed_methods, reason = "an engine reads the clock")]
    let start = Instant::now();
    let clock = move || Time::new(start.elapsed());

    // Lead. From here on, an earlier attempt that still lives can complete nothing.
    let blobs = LocalBlobs::open(&job.checkpoints)?;
    let mut store = block_on(CheckpointStore::open(blobs, Options::default()))?;
    let term = block_on(store.take_over())?;
    let restored = match store.latest() {
        Some(latest) => Some(block_on(store.load(latest.checkpoint))?),
        None => None,
    };

    // Commit what that checkpoint names, and sweep what came after it. Only then may writers open.
    let mut context = CommitterContext::new(JOB, COUNT, term.generation);
    context.restored = writer_state(restored.as_ref(), 0, 1)?;
    let committer = block_on(job.sink.committer(context))?;
    let (guarantee, retry) = (job.sink.guarantee(), Retry::default());
    let machine = match &restored {
        None => Machine::new(term.generation, guarantee, retry),
        Some(metadata) => {
            let prepared = metadata.prepared();
            let prepared = prepared.map(|it| Prepared::new(it.checkpoint, it.token.to_vec()));
            let prepared = prepared.collect();
            Machine::restore(
                term.generation,
                guarantee,
                retry,
                metadata.checkpoint,
                prepared,
            )
        }
    };
    let sink = Driver::new(machine, committer);
    let files = store.files()?;
    let mut attempt = Attempt::new(job, clock, store, sink, term, restored.as_ref())?;
    attempt.settle(Machine::is_ready)?;

    thread::scope(|scope| {
        let mut threads = Vec::new();
        for subtask in 0..job.parallelism {
            let (to_worker, inbox) = mpsc::channel();
            let reports = attempt.connect(to_worker);
            let worker = Worker {
                groups: range_of(subtask, job.parallelism, MAX_PARALLELISM)?,
                old: restored
                    .as_ref()
                    .map_or(&[], |old| &old.operators[COUNT].subtasks),
                files: files.clone(),
                context: WriterContext::new(
                    JOB,
                    COUNT,
                    subtask.into(),
                    job.parallelism.into(),
                    term.generation,
                ),
                pieces: writer_state(restored.as_ref(), subtask.into(), job.parallelism.into())?,
                channels: job.input.len(),
                reports,
            };
            threads.push(scope.spawn(move || worker.run(job.sink, inbox, clock)));
        }
        let is_finished = attempt.run();
        drop(attempt); // A worker ends when nobody can send to it any more.
        let mut counts = BTreeMap::new();
        for thread in threads {
            counts.extend(thread.join().map_err(|_| "a worker panicked")??);
        }
        Ok(if is_finished? {
            Outcome::Finished(counts)
        } else {
            Outcome::Crashed
        })
    })
}

/// What writers left in the checkpoint for their successors, dealt out anew: the part of `subtask`.
fn writer_state(
    old: Option<&Metadata>,
    subtask: usize,
    parallelism: usize,
) -> Result<Vec<Vec<u8>>> {
    let subtasks = old.map_or(&[][..], |old| &old.operators[COUNT].subtasks);
    let bytes = |old: &Subtask| Some(old.operator_state.clone()).filter(|bytes| !bytes.is_empty());
    let old = subtasks.iter().map(bytes);
    let mut states = OperatorStates::restore(COUNT, subtask, parallelism, old)?;
    let pieces = states.list::<Vec<u8>>("writer")?;
    Ok(std::mem::take(&mut states[pieces]))
}
