//! The manifest of a snapshot of rows, version 1.
//!
//! ```text
//! manifest   "CWBYTES" 1 │ postcard(Manifest) │ crc32c of all before, 4 bytes little-endian
//! ```
//!
//! The files are the backend's. What its rows look like: [`row_key`](super::row_key) and postcard.

use std::collections::BTreeMap;

use cutwater_keygroups::KeyGroupRange;
use serde::{Deserialize, Serialize};

use super::{OldRows, RowsFile, StateId};
use crate::{
    Error, ErrorKind, Restored, Result,
    format::{self, State},
    restore::Expected,
};

/// Starts each manifest; the last byte is the version.
pub(crate) const MAGIC: &[u8; 8] = b"CWBYTES\x01";

/// What the driver keeps in the checkpoint's metadata, opaque to it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Manifest {
    pub(crate) checkpoint: u64,
    pub(crate) uid: String,
    pub(crate) max_parallelism: u16,
    /// The owned key groups, `start..end`.
    pub(crate) groups: (u16, u16),
    /// How hashes pick groups.
    pub(crate) grouping: String,
    /// Rust's name for the key type, for messages.
    pub(crate) key_type: String,
    /// The name of the backend whose files these are.
    pub(crate) backend: String,
    pub(crate) states: Vec<StoredState>,
    /// States of former days that nobody declared: there may be rows of them.
    pub(crate) dropped: Vec<StateId>,
    pub(crate) files: Vec<RowsFile>,
    /// The backend's.
    pub(crate) description: Vec<u8>,
}

/// A state, and what stands for it in the keys of its rows.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct StoredState {
    pub(crate) id: StateId,
    pub(crate) state: State,
}

/// The states in the snapshots that a store was opened with.
#[derive(Debug, Default)]
pub(crate) struct OldStates {
    manifests: Vec<Manifest>,
}

impl OldStates {
    /// Reads a manifest, if it is of a snapshot of rows. Returns what the backend is to be opened with, unless the
    /// snapshot has no key group of `groups`.
    pub(crate) fn add(
        &mut self,
        restored: &Restored,
        backend: &str,
        groups: KeyGroupRange,
        expected: &Expected<'_>,
    ) -> Result<Option<OldRows>> {
        let what = format!("operator `{}`: a snapshot's manifest", expected.uid);
        let manifest: Manifest = format::unsealed(MAGIC, restored.manifest(), &what)?;
        expected.check(&manifest.uid, manifest.max_parallelism, &manifest.grouping)?;
        if manifest.backend != backend {
            return Err(other_backend(expected.uid, &manifest.backend, backend));
        }
        let old_groups = KeyGroupRange::new(manifest.groups.0, manifest.groups.1);
        let shared = old_groups.intersection(groups);
        if shared.is_empty() {
            return Ok(None);
        }
        let old = OldRows::new(
            shared,
            manifest.files.clone(),
            manifest.description.clone(),
            restored.files(),
        );
        self.manifests.push(manifest);
        Ok(Some(old))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.states().map(|stored| stored.state.name.as_str())
    }

    /// The state called `name` in each of the snapshots that has it.
    pub(crate) fn find<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a StoredState> {
        self.states()
            .filter(move |stored| stored.state.name == name)
    }

    /// What may stand for a new state in the keys of its rows: nothing that did for another.
    pub(crate) fn new_id(&self, name: &str) -> StateId {
        let dropped = self.manifests.iter().flat_map(|old| &old.dropped);
        let known = self.states().map(|stored| &stored.id);
        let taken: BTreeMap<StateId, ()> = dropped.chain(known).map(|id| (*id, ())).collect();
        let mut id = StateId::of(name);
        while taken.contains_key(&id) {
            id = id.next();
        }
        id
    }

    /// What stands for states that are not among `declared`.
    pub(crate) fn dropped(&self, declared: &[StateId]) -> Vec<StateId> {
        let before = self.manifests.iter().flat_map(|old| &old.dropped);
        let known = self.states().map(|stored| &stored.id);
        let mut ids: Vec<_> = before.chain(known).copied().collect();
        ids.retain(|id| !declared.contains(id));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn states(&self) -> impl Iterator<Item = &StoredState> {
        self.manifests.iter().flat_map(|old| &old.states)
    }
}

/// Whether a manifest is of a snapshot of rows.
pub(crate) fn is_of_rows(manifest: &[u8]) -> bool {
    manifest.starts_with(&MAGIC[..MAGIC.len() - 1])
}

fn other_backend(uid: &str, old: &str, new: &str) -> Error {
    let message = format!(
        "operator `{uid}`: the snapshot was taken with the backend `{old}`, and now it is `{new}`; \
         restore with the former, and take a canonical snapshot there to change the backend"
    );
    Error::new(ErrorKind::Incompatible, message)
}
