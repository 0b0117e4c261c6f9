//! What a checkpoint consists of.
//!
//! The types here are what a driver fills in and reads; `wire.rs` is their stored form. Bytes of other
//! crates (a backend's manifest, a source's positions, a sink's token) are opaque to this one.

mod in_flight;
#[cfg(test)]
mod tests;
mod wire;

pub use self::in_flight::{ChannelState, ChannelStateWriter, InFlight};

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use cutwater_barrier::{
    CheckpointId, Generation, Kind, Mode,
    coordinate::{Decision, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::{Assignment, Grouping, KeyGroupRange, MaxParallelism};

use crate::FileRef;

/// Everything that makes a set of files a checkpoint: one point to restore a whole job from.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    /// The name of the job.
    pub job: String,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The attempt that took it.
    pub generation: Generation,
    /// Whose it is, which decides how long it is kept: retention drops a checkpoint, a savepoint only
    /// its user.
    pub kind: Kind,
    /// How it was cut, as its barrier said when it was triggered.
    pub mode: Mode,
    /// When it was triggered, in milliseconds since 1970 of the coordinator's clock.
    pub triggered_at_unix_ms: u64,
    /// From the trigger to the last acknowledgement.
    pub duration: Duration,
    /// The operators that have state, by uid.
    pub operators: BTreeMap<String, Operator>,
    /// The records that its barriers overtook or that were in a loop, by receiving subtask; empty for
    /// an aligned checkpoint without loops. Beside the operators, as an edge may end at an operator
    /// that has no state and so no uid (CASES B11).
    pub channels: Vec<ChannelState>,
    /// What the checkpoint cost each task, also those of which nothing else is in here.
    pub tasks: Vec<TaskReport>,
}

/// What a checkpoint cost one task.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TaskReport {
    /// Which one, for people: its operators and its subtask.
    pub name: String,
    /// From the trigger to its acknowledgement, on the coordinator's clock.
    pub took: Duration,
    /// What it measured itself. Times are stored in microseconds.
    pub statistics: TaskStats,
}

/// One operator in a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Operator {
    /// Its name, for people. What identifies it is the uid.
    pub name: String,
    /// How many key groups its keys are divided into; `None` if that was not fixed, as it need not be
    /// for an operator that is not keyed.
    pub max_parallelism: Option<MaxParallelism>,
    /// How its keys were divided into groups; `None` if it is not keyed.
    pub grouping: Option<Grouping>,
    /// The key groups of each subtask; empty if it is not keyed.
    pub assignment: Vec<Vec<KeyGroupRange>>,
    /// The state of what runs once beside the coordinator: a source's enumerator, a sink's committer.
    pub coordinator: Option<Bytes>,
    /// If it is a sink, the transactions to be committed once this checkpoint is complete: what the
    /// sink's committer names when all reports are in, also of earlier checkpoints and generations.
    pub prepared: Vec<PreparedTransaction>,
    /// Whether all its subtasks had finished.
    pub finished: bool,
    /// Its subtasks; as many as its parallelism was.
    pub subtasks: Vec<Subtask>,
}

/// One subtask in a checkpoint.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Subtask {
    /// Whether it had reached the end of its input, and will not run again.
    pub finished: bool,
    /// Its keyed state.
    pub keyed: Vec<KeyedHandle>,
    /// Its operator state, opaque; empty if it has none.
    pub operator_state: Bytes,
    /// Opaque pieces of state which a restore deals out anew, each to exactly one subtask: what the
    /// writer of a sink hands to its successors.
    pub pieces: Vec<Bytes>,
    /// Its splits and their positions, opaque; empty if it is not of a source.
    pub source: Bytes,
    /// How long its part took, and how large it was. Times are stored in microseconds.
    pub statistics: TaskStats,
}

/// A part of keyed state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct KeyedHandle {
    /// The key groups inside.
    pub groups: Vec<KeyGroupRange>,
    /// How the state backend finds its way in the files, opaque.
    pub manifest: Bytes,
    /// The files.
    pub files: Vec<FileRef>,
}

/// A transaction of a sink that is flushed and not visible yet.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PreparedTransaction {
    /// The checkpoint that decides its fate.
    pub checkpoint: CheckpointId,
    /// What the sink's committer needs, opaque.
    pub token: Bytes,
}

impl Metadata {
    /// A checkpoint without any operator yet.
    pub fn new(
        job: impl Into<String>,
        checkpoint: CheckpointId,
        generation: Generation,
        kind: Kind,
    ) -> Self {
        Self {
            job: job.into(),
            checkpoint,
            generation,
            kind,
            mode: Mode::Aligned,
            triggered_at_unix_ms: 0,
            duration: Duration::ZERO,
            operators: BTreeMap::new(),
            channels: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// The checkpoint that the coordinator decides, without any operator yet: its id, kind, mode,
    /// duration, and what it cost each task, which `name` names. When it was triggered by the calendar,
    /// only the driver knows.
    pub fn decided<R>(
        job: impl Into<String>,
        decision: &Decision<R>,
        name: impl Fn(TaskId) -> String,
    ) -> Self {
        let barrier = decision.barrier;
        let tasks = decision.stats.tasks.iter().map(|acked| TaskReport {
            name: name(acked.task),
            took: acked.at - barrier.triggered_at,
            statistics: acked.stats,
        });
        Self {
            mode: barrier.mode,
            duration: decision.stats.duration(),
            tasks: tasks.collect(),
            ..Self::new(job, barrier.checkpoint, decision.generation, barrier.kind)
        }
    }

    /// Adds the operator `uid`, or replaces what was added by that name.
    pub fn add(&mut self, uid: impl Into<String>, operator: Operator) -> &mut Operator {
        let uid = uid.into();
        self.operators.remove(&uid);
        self.operators.entry(uid).or_insert(operator)
    }

    /// Every subtask, with the uid of its operator and its index.
    pub fn subtasks(&self) -> impl Iterator<Item = (&str, usize, &Subtask)> {
        self.operators.iter().flat_map(|(uid, operator)| {
            let subtasks = operator.subtasks.iter().enumerate();
            subtasks.map(move |(index, subtask)| (uid.as_str(), index, subtask))
        })
    }

    /// The subtasks of the operator `uid`; none if it is not in here.
    pub fn subtasks_of(&self, uid: &str) -> &[Subtask] {
        let operator = self.operators.get(uid);
        operator.map_or(&[], |operator| &operator.subtasks)
    }

    /// Every file it names.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let keyed = self.subtasks().flat_map(|(_, _, subtask)| &subtask.keyed);
        let channels = self.channels.iter().map(|channels| &channels.file);
        keyed.flat_map(|handle| &handle.files).chain(channels)
    }

    /// The records that were on `edge`, each section with the file it is in; nothing if there were none,
    /// which is no error (CASES B13).
    pub fn in_flight(&self, edge: &str) -> impl Iterator<Item = (&FileRef, &InFlight)> {
        let sections = self.channels.iter().flat_map(|channels| {
            let sections = channels.sections.iter();
            sections.map(|section| (&channels.file, section))
        });
        sections.filter(move |(_, section)| section.edge == edge)
    }

    /// Every transaction it holds.
    pub fn prepared(&self) -> impl Iterator<Item = &PreparedTransaction> {
        self.operators
            .values()
            .flat_map(|operator| &operator.prepared)
    }
}

impl Operator {
    /// An operator that is not keyed, without any subtask yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            max_parallelism: None,
            grouping: None,
            assignment: Vec::new(),
            coordinator: None,
            prepared: Vec::new(),
            finished: false,
            subtasks: Vec::new(),
        }
    }

    /// An operator whose keys are divided into groups by `grouping`, and these among its subtasks by
    /// `assignment`. Its subtasks are still to be added.
    pub fn keyed(name: impl Into<String>, assignment: &Assignment, grouping: Grouping) -> Self {
        let groups = assignment.all_groups().into_iter();
        Self {
            max_parallelism: Some(assignment.max_parallelism()),
            grouping: Some(grouping),
            assignment: groups.map(|groups| groups.ranges().to_vec()).collect(),
            ..Self::new(name)
        }
    }

    /// The same with the state of what runs beside the coordinator.
    #[must_use]
    pub fn with_coordinator(self, state: impl Into<Bytes>) -> Self {
        Self {
            coordinator: Some(state.into()),
            ..self
        }
    }

    /// Names the transactions of a sink that this checkpoint decides to commit, each with the checkpoint
    /// it was prepared for: what its committer lists once all reports are in.
    pub fn set_prepared(
        &mut self,
        prepared: impl IntoIterator<Item = impl Into<(CheckpointId, Vec<u8>)>>,
    ) {
        let prepared = prepared.into_iter().map(Into::into);
        let named = prepared.map(|(checkpoint, token)| PreparedTransaction::new(checkpoint, token));
        self.prepared = named.collect();
    }

    /// How many subtasks it ran as.
    pub fn parallelism(&self) -> usize {
        self.subtasks.len()
    }
}

impl KeyedHandle {
    /// A part of keyed state.
    pub fn new(
        groups: Vec<KeyGroupRange>,
        manifest: impl Into<Bytes>,
        files: Vec<FileRef>,
    ) -> Self {
        Self {
            groups,
            manifest: manifest.into(),
            files,
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        let files: u64 = self.files.iter().map(|file| file.length).sum();
        files + self.manifest.len() as u64
    }
}

impl PreparedTransaction {
    /// A prepared transaction.
    pub fn new(checkpoint: CheckpointId, token: impl Into<Bytes>) -> Self {
        Self {
            checkpoint,
            token: token.into(),
        }
    }
}

impl Subtask {
    /// How many bytes of state it has, wherever they are.
    pub fn bytes(&self) -> u64 {
        let keyed: u64 = self.keyed.iter().map(KeyedHandle::bytes).sum();
        let pieces: usize = self.pieces.iter().map(Bytes::len).sum();
        keyed + (self.operator_state.len() + pieces + self.source.len()) as u64
    }
}
