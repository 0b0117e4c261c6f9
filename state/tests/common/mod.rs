//! What several tests need: snapshots kept in memory.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{Backend, Data, Handle, KeyedStates, Restored, SnapshotTask, ValueState};

pub(crate) const MAX: MaxParallelism = MaxParallelism::new(12).unwrap();

pub(crate) fn all() -> KeyGroupRange {
    KeyGroupRange::new(0, 12)
}

/// The value state that tests of backends have.
pub(crate) type Value = Handle<ValueState<u64, String>>;

/// The states of one subtask that owns all groups, with one value state.
pub(crate) fn open(
    backend: &Backend,
    old: impl IntoIterator<Item = Restored>,
) -> (KeyedStates<u64>, Value) {
    let mut states = KeyedStates::open(backend, "op", all(), MAX, old).unwrap();
    let value = states.value("v").unwrap();
    (states, value)
}

/// All keys with their values.
pub(crate) fn entries<K: Key, V: Data>(state: &mut ValueState<K, V>) -> Vec<(K, V)> {
    let mut entries = Vec::new();
    let each = state.for_each(|key, value| entries.push((key.clone(), value.clone())));
    each.unwrap();
    entries
}

/// The manifest and files of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) manifest: Vec<u8>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Stored {
    pub(crate) fn by(task: SnapshotTask) -> Self {
        let mut files = BTreeMap::new();
        let snapshot = task.run(&mut files);
        let manifest = snapshot.unwrap().manifest;
        Self { manifest, files }
    }

    pub(crate) fn of<K: Key>(states: &mut KeyedStates<K>) -> Self {
        Self::by(states.snapshot(CheckpointId::new(1)))
    }

    pub(crate) fn restored(&self) -> Restored {
        Restored::new(self.manifest.clone(), self.files.clone())
    }
}
