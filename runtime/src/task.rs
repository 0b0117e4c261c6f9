//! A task: one subtask of a chain, what it is told, and what it tells.

use std::{collections::BTreeMap, sync::Arc};

use cutwater_barrier::{
    Barrier, CheckpointId,
    align::Input,
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::{Assignment, MaxParallelism};

use crate::{
    Error,
    alarm::Alarm,
    attempt::Attempt,
    channel::{Gate, Sender},
    graph::NodeId,
    outlets::Backlog,
    running::Running,
    source::SplitMessage,
    stage::TaskResult,
    upload::TaskPart,
};

/// What the coordinator tells a task.
pub(crate) enum Control {
    /// Inject this barrier: the task is a source.
    Trigger(Barrier),
    /// The checkpoint is complete.
    Completed(CheckpointId),
    /// The checkpoint will not be complete.
    Aborted(CheckpointId),
    /// What a sink wrote for checkpoints before this one is committed and no longer named.
    Released { before: CheckpointId },
    /// Something for the task's reader.
    Split(SplitMessage),
    /// A checkpoint was triggered whose barriers have to get into the task's loop.
    Due(CheckpointId),
    /// Find out whether the task's loop is empty: its input has ended.
    Probe(u64),
    /// It is.
    LoopEnded,
}

/// What a task tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// Its operators are open and restored.
    Running,
    /// Its reader has nothing to read.
    SplitsRequested,
    /// It has processed all the input there will be.
    Drained,
    /// It is the head of a loop, and nothing more comes from outside.
    LoopInputEnded,
    /// The probe of this round has come back to it.
    Probed {
        round: u64,
        /// No record came back since the probe left.
        is_quiet: bool,
    },
    /// Its part of a checkpoint is in the store.
    Acked {
        checkpoint: CheckpointId,
        part: Box<TaskPart>,
        stats: TaskStats,
    },
    /// It does not deliver its part of a checkpoint.
    Declined {
        checkpoint: CheckpointId,
        reason: Decline,
        error: Error,
    },
    /// It ended, as the job's last checkpoint asked for.
    Ended { last: CheckpointId },
    /// It failed, and with it the attempt.
    Failed(Error),
}

/// What operators need to know when they are made, on their task's thread.
pub(crate) struct TaskContext {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) subtask: u16,
    pub(crate) parallelism: u16,
    pub(crate) max_parallelism: MaxParallelism,
    /// The outgoing channels of each edge that leaves the task.
    pub(crate) senders: BTreeMap<usize, Vec<Sender<Control>>>,
    /// Told by exchanges that have filled a channel.
    pub(crate) backlog: Backlog,
    /// Set by operators that have timers.
    pub(crate) alarm: Alarm,
}

impl TaskContext {
    pub(crate) fn batch_size(&self) -> usize {
        self.attempt.settings.batch_size
    }

    pub(crate) fn take_senders(&mut self, edge: usize) -> Vec<Sender<Control>> {
        self.senders
            .remove(&edge)
            .expect("an edge between tasks has channels and is connected once")
    }

    /// Who owns which key groups when `targets` subtasks share them.
    pub(crate) fn assignment(&self, targets: usize) -> Assignment {
        u16::try_from(targets)
            .ok()
            .and_then(|targets| Assignment::contiguous(targets, self.max_parallelism).ok())
            .expect("the parallelism was checked against the max parallelism")
    }
}

/// A channel at a task's gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputChannel {
    pub(crate) edge: usize,
    /// The subtask that sends.
    pub(crate) from: u16,
    /// The input of the head that it belongs to.
    pub(crate) port: usize,
    /// What barriers may do in it.
    pub(crate) input: Input,
}

/// One subtask of a chain, about to run.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) head: NodeId,
    pub(crate) context: TaskContext,
    pub(crate) gate: Arc<Gate<Control>>,
    pub(crate) channels: Vec<InputChannel>,
}

impl Task {
    /// Makes the operators and runs until the last checkpoint, a failure, or the attempt's end.
    pub(crate) fn run(self) -> TaskResult<CheckpointId> {
        Running::open(self)?.run()
    }
}
