//! What an attempt starts from: a checkpoint dealt out to operators by uid, or nothing.
//!
//! An attempt that starts fresh asks the same questions and gets empty answers, so an engine has one way
//! in, not two. Bytes stay opaque: what a state backend or a sink is to be given leaves here as plain
//! pairs and closures.

use std::{error, ops::Range, pin::Pin};

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::operator_state;

use super::CheckpointStore;
use crate::{HandleReader, Metadata, Operator, Result, StateFiles, Subtask};

/// The checkpoint that an attempt is restored from, or none.
#[derive(Clone, Debug)]
pub struct RestorePoint {
    metadata: Option<Metadata>,
    is_committed: bool,
    files: StateFiles,
}

/// A part of an operator's keyed state in a checkpoint: its manifest, and a way to its files.
#[derive(Clone, Debug)]
pub struct OldKeyed {
    manifest: Bytes,
    reader: HandleReader,
}

type BoxError = Box<dyn error::Error + Send + Sync>;
type Read = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

impl CheckpointStore {
    /// The newest checkpoint or savepoint to restore from; one without metadata if there is none.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and `Misuse` before this process has taken over: whoever leads might
    /// discard what is being read.
    pub async fn restore_latest(&self) -> Result<RestorePoint> {
        match self.latest().map(|latest| latest.checkpoint) {
            Some(latest) => self.restore(latest).await,
            None => self.restore_nothing(),
        }
    }

    /// The checkpoint or savepoint to restore from, chosen by the caller.
    ///
    /// # Errors
    ///
    /// As [`restore_latest`](Self::restore_latest).
    pub async fn restore(&self, checkpoint: CheckpointId) -> Result<RestorePoint> {
        let fresh = self.restore_nothing()?;
        Ok(RestorePoint {
            metadata: Some(self.load(checkpoint).await?),
            is_committed: self.last_committed() >= Some(checkpoint),
            ..fresh
        })
    }

    /// For an attempt that starts fresh.
    ///
    /// # Errors
    ///
    /// `Misuse` before this process has taken over.
    pub fn restore_nothing(&self) -> Result<RestorePoint> {
        Ok(RestorePoint {
            metadata: None,
            is_committed: false,
            files: self.files()?,
        })
    }
}

impl RestorePoint {
    /// What it consists of; `None` if the attempt starts fresh.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Which one it is; `None` if the attempt starts fresh.
    pub fn checkpoint(&self) -> Option<CheckpointId> {
        self.metadata().map(|metadata| metadata.checkpoint)
    }

    /// What reads its files and writes those of the attempt.
    pub fn files(&self) -> &StateFiles {
        &self.files
    }

    /// The operator `uid`; `None` if it is not in the checkpoint.
    pub fn operator(&self, uid: &str) -> Option<&Operator> {
        self.metadata()?.operators.get(uid)
    }

    /// The old subtasks of the operator `uid`, in order; none if it is not in the checkpoint.
    pub fn subtasks(&self, uid: &str) -> &[Subtask] {
        self.metadata()
            .map_or(&[], |metadata| metadata.subtasks_of(uid))
    }

    /// The state of what ran beside the coordinator for the operator `uid`, such as a source's
    /// enumerator; empty if there was none.
    pub fn coordinator(&self, uid: &str) -> &[u8] {
        let state = self
            .operator(uid)
            .and_then(|old| old.coordinator.as_deref());
        state.unwrap_or_default()
    }

    /// The keyed state of all old subtasks of the operator `uid`.
    pub fn keyed(&self, uid: &str) -> impl Iterator<Item = OldKeyed> {
        let handles = self.subtasks(uid).iter().flat_map(|old| &old.keyed);
        handles.map(|handle| OldKeyed {
            manifest: handle.manifest.clone(),
            reader: self.files.reader(handle),
        })
    }

    /// The operator state of all old subtasks of the operator `uid`, in order.
    pub fn operator_states(&self, uid: &str) -> impl Iterator<Item = &Bytes> {
        self.subtasks(uid).iter().map(|old| &old.operator_state)
    }

    /// The [pieces](Subtask::pieces) of the operator `uid` that fall to subtask `subtask` of `parallelism`:
    /// each piece to exactly one, and to the old one if their number is as before.
    ///
    /// # Panics
    ///
    /// Unless `subtask` is less than `parallelism`.
    pub fn pieces(&self, uid: &str, subtask: u16, parallelism: u16) -> Vec<Vec<u8>> {
        let old = self.subtasks(uid).iter().map(|old| old.pieces.clone());
        let mut dealt = operator_state::split(old.collect(), parallelism);
        let own = dealt.swap_remove(usize::from(subtask));
        own.into_iter().map(Into::into).collect()
    }

    /// The transactions of the sink `uid` that the checkpoint decided to commit: the checkpoint each one
    /// was prepared for, and its token.
    ///
    /// None if the log says that they are committed: somebody may have taken the output away since.
    pub fn prepared(&self, uid: &str) -> impl Iterator<Item = (CheckpointId, Bytes)> {
        let decided = self.operator(uid).filter(|_| !self.is_committed);
        let prepared = decided.into_iter().flat_map(|sink| &sink.prepared);
        prepared.map(|one| (one.checkpoint, one.token.clone()))
    }
}

impl OldKeyed {
    /// How the state backend finds its way in the files, opaque here.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Reads the bytes `range` of a file by the name that the backend gave it, verified: for a backend
    /// that is synchronous, and an engine that waits by `block_on`.
    ///
    /// ```no_run
    /// # fn restore(old: &cutwater_storage::RestorePoint) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// for old in old.keyed("totals") {
    ///     let read = old.read_by(futures::executor::block_on);
    ///     let bytes = read("keyed-7-0", 0..100)?; // as the manifest says
    /// }
    /// # Ok(()) }
    /// ```
    pub fn read_by<F: Fn(Read) -> Result<Bytes> + Send + Sync>(
        &self,
        block_on: F,
    ) -> impl Fn(&str, Range<u64>) -> Result<Bytes, BoxError> + Send + Sync + use<F> {
        let reader = self.reader.clone();
        move |name, range| {
            let (reader, name) = (reader.clone(), name.to_owned());
            let read = async move { reader.read(&name, range).await };
            Ok(block_on(Box::pin(read))?)
        }
    }
}
