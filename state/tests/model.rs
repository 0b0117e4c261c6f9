//! Random operations against maps of the standard library, and a writer in another thread.

mod common;

use std::{collections::BTreeMap, thread};

use common::{MAX, Stored, all, entries};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::Key;
use cutwater_state::{Handle, Keyed, KeyedStates, Result, SnapshotTask, ValueState};
use proptest::prelude::*;

type Reference<K, V> = BTreeMap<K, V>;

fn contents<K: Key>(
    states: &mut KeyedStates<K>,
    handle: Handle<ValueState<K, Vec<u8>>>,
) -> Reference<K, Vec<u8>> {
    let entries = entries(&mut states[handle]);
    let count = entries.len();
    let found: Reference<_, _> = entries.into_iter().collect();
    assert_eq!(found.len(), count, "a key is there twice");
    found
}

fn written(view: SnapshotTask) -> Reference<String, Vec<u8>> {
    let old = Stored::by(view).restored();
    let mut states = KeyedStates::restore("op", all(), MAX, [old]).unwrap();
    let handle = states.value("v").unwrap();
    contents(&mut states, handle)
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16, Vec<u8>),
    Push(u16, u8),
    Clear(u16),
    Get(u16),
    /// The keys of so many steps to come.
    Prefetch(usize),
    Snapshot,
    Write(prop::sample::Index),
    Cancel(prop::sample::Index),
}

impl Step {
    fn key(&self) -> Option<String> {
        match self {
            Self::Put(key, _) | Self::Push(key, _) | Self::Clear(key) | Self::Get(key) => {
                Some(key.to_string())
            }
            _ => None,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..400_u16;
    prop_oneof![
        40 => (key(), prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(k, v)| Step::Put(k, v)),
        20 => (key(), any::<u8>()).prop_map(|(k, v)| Step::Push(k, v)),
        20 => key().prop_map(Step::Clear),
        20 => key().prop_map(Step::Get),
        3 => (1..100_usize).prop_map(Step::Prefetch),
        2 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::Write),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// F098, F099, F105: keys and values that own memory; any number of snapshots open, written in
    /// any order or cancelled; each is the state at its start.
    #[test]
    fn random_operations_equal_a_reference_map(steps in prop::collection::vec(step(), 0..1500)) {
        let mut states = KeyedStates::<String>::new("op", all(), MAX);
        let handle = states.value::<Vec<u8>>("v").unwrap();
        let mut reference = Reference::<String, Vec<u8>>::new();
        let mut open = Vec::new();
        for (at, step) in steps.iter().cloned().enumerate() {
            match step {
                Step::Prefetch(count) => {
                    let ahead = steps[at..].iter().take(count);
                    let hashes = ahead.filter_map(|step| Some(step.key()?.key_hash()));
                    states.prefetch(&hashes.collect::<Vec<_>>());
                }
                Step::Put(key, value) => {
                    let key = key.to_string();
                    states[handle].put(Keyed::new(&key), value.clone()).unwrap();
                    reference.insert(key, value);
                }
                Step::Push(key, byte) => {
                    let key = key.to_string();
                    states[handle].or_insert_with(Keyed::new(&key), Vec::new).unwrap().push(byte);
                    reference.entry(key).or_default().push(byte);
                }
                Step::Clear(key) => {
                    let key = key.to_string();
                    states[handle].clear(Keyed::new(&key)).unwrap();
                    reference.remove(&key);
                }
                Step::Get(key) => {
                    let key = key.to_string();
                    let found = states[handle].get(Keyed::new(&key)).unwrap();
                    prop_assert_eq!(found, reference.get(&key));
                }
                Step::Snapshot => {
                    let view = states.snapshot(CheckpointId::new(1));
                    open.push((view, reference.clone()));
                }
                Step::Write(which) if !open.is_empty() => {
                    let (view, expected) = open.swap_remove(which.index(open.len()));
                    prop_assert_eq!(written(view), expected);
                }
                Step::Cancel(which) if !open.is_empty() => {
                    drop(open.swap_remove(which.index(open.len())));
                }
                Step::Write(_) | Step::Cancel(_) => {}
            }
        }
        for (view, expected) in open {
            prop_assert_eq!(written(view), expected);
        }
        prop_assert_eq!(contents(&mut states, handle), reference);
    }
}

/// F099: the writer runs while the task writes, which gives and takes regions in every order.
#[test]
fn a_snapshot_written_beside_updates_is_a_cut_in_time() -> Result<()> {
    let mut states = KeyedStates::<String>::new("op", all(), MAX);
    let handle = states.value::<Vec<u8>>("v")?;
    let keys: Vec<String> = (0..8000).map(|key| key.to_string()).collect();
    for round in 0..20_u8 {
        for key in &keys {
            states[handle].put(Keyed::new(key), vec![round])?;
        }
        let view = states.snapshot(CheckpointId::new(u64::from(round)));
        let found = thread::scope(|scope| {
            let writer = scope.spawn(|| written(view));
            for key in keys.iter().rev() {
                let value = states[handle]
                    .or_insert_with(Keyed::new(key), Vec::new)
                    .unwrap();
                value.push(99);
            }
            writer.join().expect("the writer does not panic")
        });
        assert_eq!(found.len(), keys.len());
        assert!(found.values().all(|value| *value == [round]));
        assert!(
            contents(&mut states, handle)
                .values()
                .all(|value| *value == [round, 99])
        );
    }
    Ok(())
}
