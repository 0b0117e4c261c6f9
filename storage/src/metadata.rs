//! What a checkpoint consists of.
//!
//! The types here are what a driver fills in and reads; `wire.rs` is their stored form. Bytes of other
//! crates (a backend's manifest, a source's positions, a sink's token) are opaque to this one.

#[cfg(test)]
mod tests;
mod wire;

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation};
use cutwater_keygroups::{Grouping, KeyGroupRange, MaxParallelism};

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
    /// Why it was taken, which decides how long it is kept.
    pub kind: CheckpointKind,
    /// When it was triggered, in milliseconds since 1970 of the coordinator's clock.
    pub triggered_at_unix_ms: u64,
    /// From the trigger to the last acknowledgement.
    pub duration: Duration,
    /// The operators that have state, by uid.
    pub operators: BTreeMap<String, Operator>,
}

/// Why a checkpoint was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CheckpointKind {
    /// By the coordinator, to recover from. Retention drops it.
    Checkpoint,
    /// By a user, to keep. Only a user drops it.
    Savepoint,
}

/// One operator in a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Operator {
    /// Its name, for people. What identifies it is the uid.
    pub name: String,
    /// How many key groups its keys are divided into.
    pub max_parallelism: MaxParallelism,
    /// How its keys were divided into groups; `None` if it is not keyed.
    pub grouping: Option<Grouping>,
    /// The key groups of each subtask; empty if it is not keyed.
    pub assignment: Vec<Vec<KeyGroupRange>>,
    /// The state of what runs once beside the coordinator: a source's enumerator, a sink's committer.
    pub coordinator: Option<Bytes>,
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
    /// Its splits and their positions, opaque; empty if it is not of a source.
    pub source: Bytes,
    /// Its transactions that are flushed and wait for this checkpoint, or an earlier one, to complete.
    pub prepared: Vec<PreparedTransaction>,
    /// How long its part took, and how large it was.
    pub statistics: Statistics,
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

/// Where the time of one subtask's part went, and how much it wrote.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// From the trigger at the coordinator to the first barrier here. Stored in microseconds, as are
    /// the other times.
    pub start_delay: Duration,
    /// From the first barrier to the last.
    pub alignment: Duration,
    /// The part during which no record is processed.
    pub sync: Duration,
    /// The part that runs beside the task: writing the snapshot.
    pub r#async: Duration,
    /// Bytes of records processed during alignment.
    pub bytes_during_alignment: u64,
    /// Bytes of in-flight records persisted.
    pub channel_state_bytes: u64,
    /// Bytes that this checkpoint added.
    pub delta_bytes: u64,
    /// Bytes that a restore of it reads.
    pub full_bytes: u64,
}

impl Metadata {
    /// A checkpoint without any operator yet.
    pub fn new(
        job: impl Into<String>,
        checkpoint: CheckpointId,
        generation: Generation,
        kind: CheckpointKind,
    ) -> Self {
        Self {
            job: job.into(),
            checkpoint,
            generation,
            kind,
            triggered_at_unix_ms: 0,
            duration: Duration::ZERO,
            operators: BTreeMap::new(),
        }
    }

    /// Every subtask, with the uid of its operator and its index.
    pub fn subtasks(&self) -> impl Iterator<Item = (&str, usize, &Subtask)> {
        self.operators.iter().flat_map(|(uid, operator)| {
            let subtasks = operator.subtasks.iter().enumerate();
            subtasks.map(move |(index, subtask)| (uid.as_str(), index, subtask))
        })
    }

    /// Every file it names.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.subtasks()
            .flat_map(|(_, _, subtask)| &subtask.keyed)
            .flat_map(|handle| &handle.files)
    }

    /// Every transaction it holds.
    pub fn prepared(&self) -> impl Iterator<Item = &PreparedTransaction> {
        self.subtasks()
            .flat_map(|(_, _, subtask)| &subtask.prepared)
    }
}

impl Operator {
    /// An operator without any subtask yet.
    pub fn new(name: impl Into<String>, max_parallelism: MaxParallelism) -> Self {
        Self {
            name: name.into(),
            max_parallelism,
            grouping: None,
            assignment: Vec::new(),
            coordinator: None,
            finished: false,
            subtasks: Vec::new(),
        }
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
        let prepared: usize = self
            .prepared
            .iter()
            .map(|prepared| prepared.token.len())
            .sum();
        keyed + (self.operator_state.len() + self.source.len() + prepared) as u64
    }
}
