//! What a run tells the demo: one JSON object a line, on the child's standard output.

use serde::{Deserialize, Serialize};

/// A moment of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Records that came into its state with the checkpoint that it was restored from.
    pub(crate) restored: u64,
    /// All records in its state.
    pub(crate) records: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// It has taken over, and starts from this checkpoint or from nothing.
    Started {
        restored: Option<u64>,
        /// Records that were in flight in that checkpoint, and are again.
        in_flight: u64,
    },
    Completed(Checkpoint),
    Aborted {
        checkpoint: u64,
        reason: String,
    },
    /// The run waits for its kill, at this checkpoint if it is at one.
    Halted {
        checkpoint: Option<u64>,
    },
    /// The input is read to its end, and all of it is committed.
    Finished,
}

/// A completed checkpoint. Durations in microseconds, each the slowest task's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) id: u64,
    /// From the trigger to the last acknowledgement.
    pub(crate) duration: u64,
    /// From the trigger to the first barrier at a task.
    pub(crate) start_delay: u64,
    /// From the first to the last barrier at a task.
    pub(crate) alignment: u64,
    /// A task's stop for its snapshot.
    pub(crate) sync: u64,
    /// Writing the snapshot.
    pub(crate) r#async: u64,
    /// Written by all tasks together.
    pub(crate) bytes: u64,
    /// Records between two tasks.
    pub(crate) in_flight: u64,
    /// What they took of `bytes`.
    pub(crate) bytes_in_flight: u64,
}
