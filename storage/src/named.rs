//! What retained checkpoints name, and what checkpoints in progress were promised.
//!
//! A snapshot may name files of earlier checkpoints again. Between the moment in which it asks for one and
//! the decision about its own checkpoint, the one that it got it from may be discarded: a newer one
//! completes, or a task does not know yet that it has. So what is asked for is promised, and nothing
//! promised is deleted until the checkpoint it was promised to is decided.
//!
//! One table for the store, which decides and deletes, and for all that write files in this process.
//! Nothing in it is durable: after a crash no checkpoint is in progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cutwater_barrier::CheckpointId;

use crate::{FileRef, Metadata};

/// Cloning is cheap; all clones are one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    retained: BTreeMap<CheckpointId, Files>,
    /// The objects promised to checkpoints in progress.
    promised: BTreeMap<CheckpointId, BTreeSet<String>>,
}

/// The files that a checkpoint names.
#[derive(Debug, Default)]
struct Files {
    objects: BTreeSet<String>,
    /// Those of keyed state, by the uid of the operator and the name. `None` if several have that name:
    /// whoever asks for it could mean either (CASES B31).
    keyed: BTreeMap<String, BTreeMap<String, Option<FileRef>>>,
}

impl Named {
    /// Nothing is promised any more: another term has begun.
    pub(crate) fn begin_term(&self) {
        self.tables().promised.clear();
    }

    pub(crate) fn knows(&self, checkpoint: CheckpointId) -> bool {
        self.tables().retained.contains_key(&checkpoint)
    }

    /// A checkpoint is complete and not discarded: what it names counts.
    pub(crate) fn retain(&self, metadata: &Metadata) {
        let mut tables = self.tables();
        let files = Files::of(metadata);
        tables.retained.insert(metadata.checkpoint, files);
    }

    /// Only checkpoints that are `retained` count.
    pub(crate) fn retain_only(&self, retained: impl Fn(CheckpointId) -> bool) {
        self.tables().retained.retain(|id, _| retained(*id));
    }

    /// A checkpoint is discarded: what it names does not count.
    pub(crate) fn remove(&self, checkpoint: CheckpointId) {
        self.tables().retained.remove(&checkpoint);
    }

    /// A checkpoint is complete: what was promised to it is named now, and those before it will not be
    /// complete any more.
    pub(crate) fn decided(&self, checkpoint: CheckpointId) {
        let mut tables = self.tables();
        tables.promised = tables.promised.split_off(&checkpoint.next());
    }

    /// A checkpoint has failed.
    pub(crate) fn failed(&self, checkpoint: CheckpointId) {
        self.tables().promised.remove(&checkpoint);
    }

    /// The file `name` of the operator `uid` in a retained checkpoint, promised to `checkpoint`.
    pub(crate) fn promise(
        &self,
        checkpoint: CheckpointId,
        uid: &str,
        name: &str,
    ) -> Option<FileRef> {
        let mut tables = self.tables();
        let mut newest_first = tables.retained.values().rev();
        let file = newest_first.find_map(|files| files.keyed.get(uid)?.get(name)?.clone())?;
        if let Some(path) = file.path() {
            let promised = tables.promised.entry(checkpoint).or_default();
            promised.insert(path.to_owned());
        }
        Some(file)
    }

    /// Whether a retained checkpoint names `object`.
    pub(crate) fn names(&self, object: &str) -> bool {
        let tables = self.tables();
        let mut retained = tables.retained.values();
        retained.any(|files| files.objects.contains(object))
    }

    /// Whether `object` is promised to `checkpoint`.
    pub(crate) fn is_promised_to(&self, checkpoint: CheckpointId, object: &str) -> bool {
        let tables = self.tables();
        let promised = tables.promised.get(&checkpoint);
        promised.is_some_and(|objects| objects.contains(object))
    }

    /// Whether `object` is promised to any checkpoint in progress.
    pub(crate) fn is_promised(&self, object: &str) -> bool {
        let tables = self.tables();
        let mut promised = tables.promised.values();
        promised.any(|objects| objects.contains(object))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn of(metadata: &Metadata) -> Self {
        let mut files = Self {
            objects: objects_of(metadata),
            ..Self::default()
        };
        for (uid, _, subtask) in metadata.subtasks() {
            let keyed = files.keyed.entry(uid.to_owned()).or_default();
            for file in subtask.keyed.iter().flat_map(|handle| &handle.files) {
                let known = keyed
                    .entry(file.name.clone())
                    .or_insert_with(|| Some(file.clone()));
                if known.as_ref() != Some(file) {
                    *known = None;
                }
            }
        }
        files
    }
}

/// The objects of all files that a checkpoint names.
pub(crate) fn objects_of(metadata: &Metadata) -> BTreeSet<String> {
    let paths = metadata.files().filter_map(FileRef::path);
    paths.map(str::to_owned).collect()
}
