//! What a job lets others watch: the moments of a checkpoint, and the state of the job.

use std::{fmt, sync::Arc, time::Duration};

use cutwater_barrier::{CheckpointId, Generation};

use crate::Error;

/// Called at every [`Moment`], on a thread that may be blocked.
///
/// The job waits for it, so a test can stop it exactly between two steps of the protocol.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&Moment) + Send + Sync>);

impl Observer {
    /// Calls `function` at every moment.
    pub fn new(function: impl Fn(&Moment) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn reached(&self, moment: &Moment) {
        (self.0)(moment);
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// A step in the life of a job.
#[derive(Debug)]
#[non_exhaustive]
pub enum Moment {
    /// An attempt begins, from this checkpoint or from nothing.
    Started {
        /// The attempt.
        generation: Generation,
        /// What it was restored from.
        restored: Option<CheckpointId>,
        /// Records that were in flight in that checkpoint, and are again.
        records_in_flight: u64,
        /// Its subtasks.
        parallelism: u16,
    },
    /// All parts of a checkpoint are stored, and all sinks have prepared. It does not count yet.
    Prepared(CheckpointId),
    /// The checkpoint is complete. Sinks have not been told.
    Completed(CheckpointSummary),
    /// All sinks have committed it. The log has not been told.
    Committed(CheckpointId),
    /// A checkpoint came to nothing.
    Aborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        reason: String,
    },
    /// An attempt failed.
    Failed {
        /// The attempt, if it got so far.
        generation: Option<Generation>,
        /// Why.
        error: String,
    },
}

/// Where the time and the bytes of a completed checkpoint went: of each part the slowest task's.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CheckpointSummary {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// From the trigger to the last acknowledgement.
    pub duration: Duration,
    /// From the trigger to the first barrier at a task.
    pub start_delay: Duration,
    /// From the first to the last barrier at a task.
    pub alignment: Duration,
    /// A task's stop for its snapshot.
    pub sync: Duration,
    /// Writing a task's snapshot.
    pub r#async: Duration,
    /// What all tasks wrote together.
    pub bytes: u64,
    /// Records that its barriers overtook, or that circled in a loop.
    pub records_in_flight: u64,
    /// What they took of [`bytes`](Self::bytes).
    pub bytes_in_flight: u64,
}

/// What a job is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Where it is in its life.
    pub state: State,
    /// The current attempt, once there is one.
    pub generation: Option<Generation>,
    /// How often it was restarted.
    pub restarts: u32,
    /// The newest completed checkpoint, the restored one included.
    pub latest: Option<CheckpointId>,
    /// How many checkpoints this process completed.
    pub completed: u64,
    /// How many came to nothing.
    pub aborted: u64,
    /// What the job promises, its state and each sink.
    pub guarantees: Vec<String>,
    /// Why the last attempt failed, if one has.
    pub error: Option<String>,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// It takes over, restores, and starts its tasks.
    Starting,
    /// All its tasks run.
    Running,
    /// It takes its last checkpoint, as its input has ended or somebody asked it to stop.
    Stopping,
    /// Its last attempt failed, the next is about to start.
    Restarting,
    /// It has ended well.
    Finished,
    /// It has ended otherwise.
    Failed,
}

/// How a job ended well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Its last checkpoint; everything before it is committed.
    pub checkpoint: CheckpointId,
    /// Whether its input had ended, so that nothing is left to do.
    pub is_finished: bool,
    /// How often it was restarted in this process.
    pub restarts: u32,
}

impl Status {
    pub(crate) fn new(guarantees: Vec<String>) -> Self {
        Self {
            state: State::Starting,
            generation: None,
            restarts: 0,
            latest: None,
            completed: 0,
            aborted: 0,
            guarantees,
            error: None,
        }
    }

    pub(crate) fn failed(&mut self, error: &Error) {
        self.error = Some(error.chain());
    }
}
