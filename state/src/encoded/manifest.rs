//! The manifest of a snapshot of rows, version 1.
//!
//! ```text
//! manifest   "CWBYTES" 1 │ postcard(Manifest) │ crc32c of all before, 4 bytes little-endian
//! ```
//!
//! The files are the backend's. What its rows look like: [`row_key`](super::row_key) and postcard.

use std::collections::BTreeSet;

use cutwater_keygroups::KeyGroupRange;
use serde::{Deserialize, Serialize};

use super::{OldRows, RowsFile, StateId};
use crate::{
    Error, ErrorKind, Restored, Result,
    format::{self, Head, State},
    names::Names,
    place::Place,
    restore::Expected,
};

/// Starts each manifest; the last byte is the version.
pub(crate) const MAGIC: &[u8; 8] = b"CWBYTES\x01";

/// What the driver keeps in the checkpoint's metadata, opaque to it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Manifest {
    pub(crate) head: Head,
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
        expected.check(&manifest.head)?;
        if manifest.backend != backend {
            return Err(other_backend(expected.uid, &manifest.backend, backend));
        }
        let shared = manifest.head.groups().intersection(groups);
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

    /// The files of the snapshots.
    pub(crate) fn files(&self) -> impl Iterator<Item = &RowsFile> {
        self.manifests.iter().flat_map(|old| &old.files)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.manifests.iter().flat_map(|old| &old.states);
        names.map(|stored| stored.state.name.as_str())
    }

    /// The state that has one of `names`, in each of the snapshots that has it.
    pub(crate) fn find(&self, place: &Place, names: &Names) -> Result<Vec<Found<'_>>> {
        let mut found = Vec::new();
        for Manifest { head, states, .. } in &self.manifests {
            let stored = names.find(place, states, |stored| &stored.state.name)?;
            found.extend(stored.map(|StoredState { id, state }| Found {
                id: *id,
                state,
                groups: head.groups(),
            }));
        }
        Ok(found)
    }

    /// What stands for a state in the keys of its rows: what did in all snapshots where it was `found`, or
    /// else what its name has by itself, or if that stood for another state, something new.
    pub(crate) fn id(&self, place: &Place, found: &[Found<'_>]) -> Result<StateId> {
        let Some(first) = found.first() else {
            let taken = self.ids();
            let mut id = place.id();
            while taken.contains(&id) {
                id = id.next();
            }
            return Ok(id);
        };
        if found.iter().any(|other| other.id != first.id) {
            let message = format!(
                "{place}: it has different numbers in the snapshots of different subtasks; restore \
                 from canonical ones"
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        Ok(first.id)
    }

    /// What stood for states that are not among `declared`.
    pub(crate) fn dropped(&self, declared: &[StateId]) -> Vec<StateId> {
        let ids = self.ids().into_iter();
        ids.filter(|id| !declared.contains(id)).collect()
    }

    fn ids(&self) -> BTreeSet<StateId> {
        let dropped = self.manifests.iter().flat_map(|old| &old.dropped);
        let states = self.manifests.iter().flat_map(|old| &old.states);
        dropped
            .chain(states.map(|stored| &stored.id))
            .copied()
            .collect()
    }
}

/// A state in an old snapshot.
pub(crate) struct Found<'a> {
    id: StateId,
    pub(crate) state: &'a State,
    /// The groups of the snapshot.
    pub(crate) groups: KeyGroupRange,
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
