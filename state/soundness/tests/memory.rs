//! Random operations, with keys and values that own memory. Meant for AddressSanitizer; without it they
//! are tests like others.
#![cfg(not(loom))]

use std::{
    collections::BTreeMap,
    panic,
    sync::{Mutex, mpsc},
    thread,
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{Keyed, KeyedStates, Restored, SnapshotTask, testkit};

fn stored(task: SnapshotTask) -> Restored {
    let mut files = BTreeMap::new();
    let snapshot = task.run(&mut files);
    Restored::new(snapshot.expect("writing to memory").manifest, files)
}

/// Several snapshots open at once, some cancelled, written by the thread that writes the states.
#[test]
fn random_operations_equal_a_reference_map() {
    testkit::conforms(stored);
}

/// Writers in threads of their own, while keys come, change and go, and blocks split.
#[test]
fn snapshots_written_beside_updates_are_cuts_in_time() {
    let max = MaxParallelism::new(2).unwrap();
    let groups = KeyGroupRange::new(0, 2);
    let mut states = KeyedStates::<String>::new("op", groups, max);
    let handle = states.value::<Vec<u8>>("v").unwrap();
    let mut reference = BTreeMap::<String, Vec<u8>>::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    thread::scope(|scope| {
        for checkpoint in 0..60 {
            let task = states.snapshot(CheckpointId::new(checkpoint));
            let expected = reference.clone();
            scope.spawn(move || {
                if checkpoint % 5 == 4 {
                    return drop(task); // cancelled
                }
                let mut states =
                    KeyedStates::<String>::restore("op", groups, max, [stored(task)]).unwrap();
                let handle = states.value::<Vec<u8>>("v").unwrap();
                let mut found = BTreeMap::new();
                let each = states[handle].for_each(|k, v| drop(found.insert(k.clone(), v.clone())));
                each.unwrap();
                assert!(found == expected, "checkpoint {checkpoint}");
            });
            for round in 0..50 {
                let mut next = || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let is_clear = random >> 60 == 0;
                    ((random % (50 * (checkpoint + 1))).to_string(), is_clear)
                };
                let batch: Vec<_> = (0..40).map(|_| next()).collect();
                if round % 2 == 0 {
                    let hashes: Vec<_> = batch.iter().map(|(key, _)| key.key_hash()).collect();
                    states.prefetch(&hashes);
                }
                for (key, is_clear) in batch {
                    if is_clear {
                        states[handle].clear(Keyed::new(&key)).unwrap();
                        reference.remove(&key);
                    } else {
                        let list = states[handle].or_insert_with(Keyed::new(&key), Vec::new);
                        list.unwrap().push(1);
                        reference.entry(key).or_default().push(1);
                    }
                }
            }
        }
    });
}

/// Incremental snapshots, each built on the newest one that was written by then: their writers read what has
/// changed, and what they move, while the task changes both.
#[test]
fn incremental_snapshots_written_beside_updates_are_cuts_in_time() {
    let max = MaxParallelism::new(2).unwrap();
    let groups = KeyGroupRange::new(0, 2);
    let mut states = KeyedStates::<u64>::new("op", groups, max);
    let handle = states.value::<String>("v").unwrap();
    let mut reference = BTreeMap::<u64, String>::new();
    let files = Mutex::new(BTreeMap::new());
    let (written, confirmed) = mpsc::channel();
    let mut shared = 0;
    thread::scope(|scope| {
        for checkpoint in 0..60 {
            let id = CheckpointId::new(checkpoint);
            let task = states.snapshot(id);
            let expected = reference.clone();
            let (written, files) = (written.clone(), &files);
            scope.spawn(move || {
                let mut mine = files.lock().unwrap().clone();
                let snapshot = task.run(&mut mine).unwrap();
                files.lock().unwrap().append(&mut mine.clone());
                written
                    .send((id, snapshot.bytes_new < snapshot.bytes_full))
                    .unwrap();
                let old = Restored::new(snapshot.manifest, mine);
                let mut states = KeyedStates::<u64>::restore("op", groups, max, [old]).unwrap();
                let handle = states.value::<String>("v").unwrap();
                let mut found = BTreeMap::new();
                let each = states[handle].for_each(|k, v| drop(found.insert(*k, v.clone())));
                each.unwrap();
                assert!(found == expected, "checkpoint {checkpoint}");
            });
            for key in 0..500 * (checkpoint % 3) {
                let key = (key * key + checkpoint) % 1500;
                states[handle]
                    .put(Keyed::new(&key), checkpoint.to_string())
                    .unwrap();
                reference.insert(key, checkpoint.to_string());
            }
            for (id, is_shared) in confirmed.try_iter() {
                states.confirmed(id);
                shared += u32::from(is_shared);
            }
        }
    });
    drop(written);
    shared += confirmed.iter().filter(|(_, is_shared)| *is_shared).count() as u32;
    assert!(shared > 0, "some name files of others");
}

/// A value whose clone fails now and then, in the task's copy for a snapshot.
#[test]
fn a_clone_that_panics_leaves_the_states_usable() {
    let max = MaxParallelism::new(1).unwrap();
    let mut states = KeyedStates::<u64>::new("op", KeyGroupRange::new(0, 1), max);
    let handle = states.value::<fragile::Fragile>("v").unwrap();
    for key in 0..1000 {
        states[handle]
            .put(Keyed::new(&key), fragile::Fragile::new())
            .unwrap();
    }
    let task = states.snapshot(CheckpointId::new(1));
    let mut failed = 0;
    for key in 0..1000 {
        fragile::BREAK.set(key % 3 == 0);
        let change = panic::AssertUnwindSafe(|| {
            states[handle]
                .get_mut(Keyed::new(&key))
                .unwrap()
                .unwrap()
                .touch();
        });
        failed += u32::from(panic::catch_unwind(change).is_err());
    }
    fragile::BREAK.set(false);
    assert!(failed > 0, "some first writes were to clone");
    let old = stored(task);
    let mut again =
        KeyedStates::<u64>::restore("op", KeyGroupRange::new(0, 1), max, [old]).unwrap();
    let handle_again = again.value::<fragile::Fragile>("v").unwrap();
    let are_new = again[handle_again].for_each(|_, value| assert!(value.is_new()));
    are_new.unwrap();
    let mut count = 0;
    states[handle].for_each(|_, _| count += 1).unwrap();
    assert_eq!(count, 1000);
}

mod fragile {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static BREAK: Cell<bool> = const { Cell::new(false) };
    }

    #[derive(serde::Deserialize, serde::Serialize)]
    pub(crate) struct Fragile(Box<u8>);

    impl Fragile {
        pub(crate) fn new() -> Self {
            Self(Box::new(0))
        }

        pub(crate) fn touch(&mut self) {
            *self.0 += 1;
        }

        pub(crate) fn is_new(&self) -> bool {
            *self.0 == 0
        }
    }

    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(!BREAK.get(), "on purpose");
            Self(self.0.clone())
        }
    }
}
