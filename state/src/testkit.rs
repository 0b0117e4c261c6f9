//! The suite for whoever stores and restores snapshots. Not covered by semver: a new check may fail
//! old code.
//!
//! Keyed state is checked against ordered maps of the standard library: under random operations with
//! several snapshots open, some of them cancelled, and through chains of rescaling.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test suite panics to report"
)]

mod bytes;

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroup, KeyHash, MaxParallelism, range_of};

use crate::{
    Backend, Handle, Keyed, KeyedStates, ListState, MapState, Restored, SnapshotTask, ValueState,
};

pub use bytes::{SortedRows, byte_backend_conforms};

/// Runs the whole suite. `store` runs a task and keeps its files, the way your engine does.
///
/// ```
/// use std::collections::BTreeMap;
/// use cutwater_state::{Restored, testkit};
///
/// testkit::conforms(|task| {
///     let mut files = BTreeMap::new();
///     let stored = task.run(&mut files);
///     Restored::new(stored.expect("writing to memory").manifest, files)
/// });
/// ```
pub fn conforms(store: impl FnMut(SnapshotTask) -> Restored) {
    conforms_in(&Backend::memory(), store);
}

/// Runs the whole suite with states in `backend`.
pub fn conforms_in(backend: &Backend, mut store: impl FnMut(SnapshotTask) -> Restored) {
    for seed in 1..=4 {
        snapshots_are_cuts_in_time(seed, backend, &mut store);
        rescaling_keeps_each_key_once(seed, backend, &mut store);
    }
}

const MAX: MaxParallelism = MaxParallelism::new(16).unwrap();

/// So many that blocks of the table split, so few that keys are met again.
const KEYS: u64 = 5000;

/// Random operations, with up to three snapshots open: each equals the state at its start.
pub fn snapshots_are_cuts_in_time(
    seed: u64,
    backend: &Backend,
    store: &mut dyn FnMut(SnapshotTask) -> Restored,
) {
    let mut random = Random(seed);
    let mut reference = Reference::default();
    let mut task = Subtask::new(backend, 0, 1, []);
    let mut open: Vec<(SnapshotTask, Reference)> = Vec::new();
    for checkpoint in 1..=12 {
        for batch in batches(&mut random) {
            task.expect(&batch, &mut random);
            for operation in batch {
                reference.apply(&operation);
                task.apply(&operation);
            }
        }
        let view = task.states.snapshot(CheckpointId::new(checkpoint));
        open.push((view, reference.clone()));
        if open.len() == 3 {
            let (view, expected) = open.swap_remove(random.index(3));
            if random.below(4) > 0 {
                let restored = Subtask::new(backend, 0, 1, [store(view)]);
                let found = Reference::of(&mut [restored]);
                assert_eq!(found, expected, "seed {seed}, snapshot");
            } // or else it is cancelled
        }
    }
    let found = Reference::of(&mut [task]);
    assert_eq!(found, reference, "seed {seed}, the live state");
}

/// Random operations on 1 to 5 subtasks, rescaled again and again: every key once, none foreign.
pub fn rescaling_keeps_each_key_once(
    seed: u64,
    backend: &Backend,
    store: &mut dyn FnMut(SnapshotTask) -> Restored,
) {
    let mut random = Random(seed);
    let mut reference = Reference::default();
    let mut subtasks = vec![Subtask::new(backend, 0, 1, [])];
    for checkpoint in 1..=6 {
        for batch in batches(&mut random) {
            for subtask in &mut subtasks {
                subtask.expect(&batch, &mut random);
            }
            for operation in batch {
                reference.apply(&operation);
                let group = u64::GROUPING.group(operation.key.key_hash(), MAX);
                let owner = subtasks
                    .iter_mut()
                    .find(|s| s.states.groups().contains(group));
                owner.expect("each group has an owner").apply(&operation);
            }
        }
        let mut snapshot =
            |subtask: &mut Subtask| store(subtask.states.snapshot(CheckpointId::new(checkpoint)));
        let old: Vec<Restored> = subtasks.iter_mut().map(&mut snapshot).collect();
        let parallelism = 1 + u16::try_from(random.below(5)).unwrap();
        subtasks = (0..parallelism)
            .map(|subtask| Subtask::new(backend, subtask, parallelism, old.iter().cloned()))
            .collect();
        let found = Reference::of(&mut subtasks);
        assert_eq!(found, reference, "seed {seed}, {parallelism} subtasks");
    }
}

/// A subtask with one state of each kind.
struct Subtask {
    states: KeyedStates<u64>,
    value: Handle<ValueState<u64, String>>,
    list: Handle<ListState<u64, u32>>,
    map: Handle<MapState<u64, u16, i64>>,
}

impl Subtask {
    fn new(
        backend: &Backend,
        subtask: u16,
        of: u16,
        old: impl IntoIterator<Item = Restored>,
    ) -> Self {
        let groups = range_of(subtask, of, MAX).unwrap();
        let mut states = KeyedStates::open(backend, "testkit", groups, MAX, old).unwrap();
        let (value, list, map) = (states.value("v"), states.list("l"), states.map("m"));
        assert!(states.undeclared().is_empty(), "all three are declared");
        Self {
            states,
            value: value.unwrap(),
            list: list.unwrap(),
            map: map.unwrap(),
        }
    }

    /// Prepares for a batch, or not, as whoever processes one may do.
    fn expect(&mut self, batch: &[Operation], random: &mut Random) {
        let keys = batch.iter().map(|operation| Keyed::new(&operation.key));
        if random.below(3) == 0 {
            self.states.announce(keys.clone()).unwrap();
        }
        if random.below(3) > 0 {
            let hashes: Vec<KeyHash> = keys.map(|keyed| keyed.hash()).collect();
            self.states.prefetch(&hashes);
        }
    }

    fn apply(&mut self, operation: &Operation) {
        let keyed = Keyed::new(&operation.key);
        let (value, list) = (self.value, self.list);
        match operation.action {
            Action::Put(n) => self.states[value].put(keyed, n.to_string()),
            Action::Grow => self.states[value]
                .or_insert_with(keyed, String::new)
                .map(|text| text.push('+')),
            Action::Clear => self.states[value].update(keyed, |slot| *slot = None),
            Action::Append(n) => self.states[list].append(keyed, n),
            Action::Replace(n) => self.states[list].update(keyed, 0..n),
            Action::ClearList => self.states[list].clear(keyed),
            Action::Insert(at, n) => self.states[self.map].put(keyed, at, n.into()).map(drop),
            Action::Remove(at) => self.states[self.map].remove(keyed, &at).map(drop),
            Action::ClearMap => self.states[self.map].clear(keyed),
        }
        .unwrap();
    }
}

/// What the states should hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Reference {
    values: BTreeMap<u64, String>,
    lists: BTreeMap<u64, Vec<u32>>,
    maps: BTreeMap<u64, BTreeMap<u16, i64>>,
}

impl Reference {
    /// What the states of all subtasks together do hold.
    fn of(subtasks: &mut [Subtask]) -> Self {
        let mut found = Self::default();
        for Subtask {
            states,
            value,
            list,
            map,
        } in subtasks
        {
            let groups = states.groups();
            let check = |key: &u64, is_new: bool| {
                let group: KeyGroup = u64::GROUPING.group(key.key_hash(), MAX);
                assert!(groups.contains(group), "key {key} is foreign");
                assert!(is_new, "key {key} is there twice");
            };
            let values = states[*value].for_each(|key, value| {
                let twice = found.values.insert(*key, value.clone());
                check(key, twice.is_none());
            });
            values.unwrap();
            let lists = states[*list].for_each(|key, list| {
                let twice = found.lists.insert(*key, list.copied().collect());
                check(key, twice.is_none());
            });
            lists.unwrap();
            let maps = states[*map].for_each(|key, map| {
                let map = map.map(|(at, n)| (*at, *n)).collect();
                check(key, found.maps.insert(*key, map).is_none());
            });
            maps.unwrap();
        }
        found
    }

    fn apply(&mut self, operation: &Operation) {
        let key = operation.key;
        match operation.action {
            Action::Put(n) => drop(self.values.insert(key, n.to_string())),
            Action::Grow => self.values.entry(key).or_default().push('+'),
            Action::Clear => drop(self.values.remove(&key)),
            Action::Append(n) => self.lists.entry(key).or_default().push(n),
            Action::Replace(0) | Action::ClearList => drop(self.lists.remove(&key)),
            Action::Replace(n) => drop(self.lists.insert(key, (0..n).collect())),
            Action::Insert(at, n) => {
                self.maps.entry(key).or_default().insert(at, n.into());
            }
            Action::Remove(at) => {
                let map = self.maps.entry(key).or_default();
                map.remove(&at);
                if map.is_empty() {
                    self.maps.remove(&key);
                }
            }
            Action::ClearMap => drop(self.maps.remove(&key)),
        }
    }
}

struct Operation {
    key: u64,
    action: Action,
}

enum Action {
    Put(u32),
    Grow,
    Clear,
    Append(u32),
    Replace(u32),
    ClearList,
    Insert(u16, u32),
    Remove(u16),
    ClearMap,
}

/// Some thousand operations, as they come in batches.
fn batches(random: &mut Random) -> Vec<Vec<Operation>> {
    let mut batches = Vec::new();
    let mut left = random.index(4000);
    while left > 0 {
        let batch = left.min(1 + random.index(100));
        left -= batch;
        batches.push((0..batch).map(|_| Operation::random(random)).collect());
    }
    batches
}

impl Operation {
    fn random(random: &mut Random) -> Self {
        // A few keys get long lists and maps, the others fill the table.
        let key = match random.below(4) {
            0 => random.below(3),
            _ => random.below(KEYS),
        };
        let n = u32::try_from(random.below(1000)).unwrap();
        let at = u16::try_from(random.below(500)).unwrap();
        let action = match random.below(24) {
            0..=4 => Action::Put(n),
            5..=8 => Action::Grow,
            9 => Action::Clear,
            10..=14 => Action::Append(n),
            15 => Action::Replace(n % 200),
            16 if n < 100 => Action::ClearList,
            17..=21 => Action::Insert(at, n),
            22 => Action::Remove(at),
            23 if n < 100 => Action::ClearMap,
            _ => Action::Insert(at / 2, n),
        };
        Self { key, action }
    }
}

/// `SplitMix64` (Steele, Lea, Flood, 2014): a seed gives the same run everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }
}
