//! States whose rows are in a byte backend: the row cache, flushes, snapshots, and what may go wrong.

mod common;
#[path = "rows/flaky.rs"]
mod flaky;

use std::collections::BTreeMap;

use common::{MAX, Stored, Value, all, entries, open};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_state::{
    Backend, Descriptor, ErrorKind, Keyed, KeyedStates, Result, SnapshotTask, testkit::SortedRows,
};
use flaky::{Fault, Flaky};
use proptest::prelude::*;

/// Memory for some hundred rows.
const LITTLE: u64 = 20_000;

fn put(
    states: &mut KeyedStates<u64>,
    value: Value,
    keys: impl IntoIterator<Item = u64>,
    text: &str,
) {
    for key in keys {
        states[value]
            .put(Keyed::new(&key), text.to_owned())
            .unwrap();
    }
}

fn of(texts: &[(u64, u64, &str)]) -> BTreeMap<u64, String> {
    let each = texts.iter();
    each.flat_map(|&(from, to, text)| (from..to).map(move |key| (key, text.to_owned())))
        .collect()
}

fn contents(states: &mut KeyedStates<u64>, value: Value) -> BTreeMap<u64, String> {
    let entries = entries(&mut states[value]);
    let count = entries.len();
    let found: BTreeMap<_, _> = entries.into_iter().collect();
    assert_eq!(found.len(), count, "a key is there twice");
    found
}

fn restored(backend: &Backend, task: SnapshotTask) -> BTreeMap<u64, String> {
    let (mut states, value) = open(backend, [Stored::by(task).restored()]);
    contents(&mut states, value)
}

const fn checkpoint(n: u64) -> CheckpointId {
    CheckpointId::new(n)
}

/// Whoever comes for a later snapshot first writes the earlier ones too, as what they were.
#[test]
fn snapshots_written_in_any_order_are_cuts_in_time() {
    let backend = Backend::rows(SortedRows::new(1 << 20));
    let (mut states, value) = open(&backend, []);
    let mut tasks = Vec::new();
    for (n, text) in [(1, "one"), (2, "two"), (3, "three")] {
        put(&mut states, value, 0..100 * n, text);
        tasks.push(states.snapshot(checkpoint(n)));
    }
    let three = restored(&backend, tasks.pop().unwrap());
    assert_eq!(three, of(&[(0, 300, "three")]));
    let one = restored(&backend, tasks.remove(0));
    assert_eq!(one, of(&[(0, 100, "one")]));
    let two = restored(&backend, tasks.remove(0));
    assert_eq!(two, of(&[(0, 200, "two")]));
}

/// A snapshot that is given up, before or after another has written it: its rows go with the next one.
#[test]
fn the_rows_of_a_cancelled_snapshot_are_in_the_next_one() {
    let backend = Backend::rows(SortedRows::new(1 << 20));
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..100, "cancelled");
    drop(states.snapshot(checkpoint(1)));
    put(&mut states, value, 100..200, "passed over");
    let passed_over = states.snapshot(checkpoint(2));
    put(&mut states, value, 200..300, "kept");
    let kept = states.snapshot(checkpoint(3));
    let expected = of(&[
        (0, 100, "cancelled"),
        (100, 200, "passed over"),
        (200, 300, "kept"),
    ]);
    assert_eq!(restored(&backend, kept), expected);
    drop(passed_over);
    assert_eq!(contents(&mut states, value), expected);
}

/// Disk full and the like: the flush or the checkpoint fails with the reason, the snapshot before stays what it
/// was, and when there is room again nothing is missing.
#[test]
fn a_failed_flush_loses_nothing() {
    for fault in [Fault::Put, Fault::Finish, Fault::Checkpoint] {
        let (flaky, faults) = Flaky::new(1 << 20);
        let backend = Backend::rows(flaky);
        let (mut states, value) = open(&backend, []);
        put(&mut states, value, 0..500, "before");
        let before = Stored::by(states.snapshot(checkpoint(1)));
        put(&mut states, value, 250..750, "after");
        faults.next(fault);
        let error = states
            .snapshot(checkpoint(2))
            .run(&mut BTreeMap::new())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{fault:?}");
        assert!(error.to_string().contains("operator `op`"), "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("no space left"), "{source}");
        let after = of(&[(0, 250, "before"), (250, 750, "after")]);
        assert_eq!(contents(&mut states, value), after, "{fault:?}");
        assert_eq!(
            restored(&backend, states.snapshot(checkpoint(3))),
            after,
            "{fault:?}"
        );
        let (mut old, value) = open(&backend, [before.restored()]);
        assert_eq!(contents(&mut old, value), of(&[(0, 500, "before")]));
    }
}

/// With memory for few rows, an early flush that fails fails the access; the rows are still there.
#[test]
fn a_failed_early_flush_loses_nothing() {
    let (flaky, faults) = Flaky::new(LITTLE);
    let backend = Backend::rows(flaky);
    let (mut states, value) = open(&backend, []);
    let mut expected = BTreeMap::new();
    let mut failed = 0;
    for key in 0..5000_u64 {
        if key % 500 == 0 {
            faults.next(Fault::Finish);
        }
        match states[value].put(Keyed::new(&key), key.to_string()) {
            Ok(()) => drop(expected.insert(key, key.to_string())),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io);
                failed += 1;
            }
        }
    }
    assert!(failed > 3, "{failed} failed");
    faults.clear();
    assert_eq!(contents(&mut states, value), expected);
}

/// What cannot be read is an error of the access, and what is not what was written is corrupt.
#[test]
fn a_failed_read_is_an_error_and_no_missing_row() {
    let (flaky, faults) = Flaky::new(LITTLE);
    let backend = Backend::rows(flaky);
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..2000, "text");
    drop(Stored::by(states.snapshot(checkpoint(1))));
    put(&mut states, value, 2000..4000, "more");
    let (mut io, mut corrupt) = (0, 0);
    for key in 0..2000 {
        faults.next(if key % 2 == 0 {
            Fault::Get
        } else {
            Fault::Garble
        });
        match states[value].get(Keyed::new(&key)) {
            Ok(found) => assert_eq!(found.map(String::as_str), Some("text")),
            Err(error) if error.kind() == ErrorKind::Io => io += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                corrupt += 1;
            }
        }
    }
    assert!(io > 100 && corrupt > 100, "{io} and {corrupt}");
    faults.clear();
    assert_eq!(states.get(value, Keyed::new(&7)).unwrap().unwrap(), "text");
}

/// A batch of keys costs one look-up for all of them that are not in memory.
#[test]
fn announced_keys_are_read_at_once_and_then_are_in_memory() -> Result<()> {
    let (flaky, counts) = Flaky::new(1 << 20);
    let backend = Backend::rows(flaky);
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..1000, "text");
    let old = Stored::by(states.snapshot(checkpoint(1))).restored();
    let (mut states, value) = open(&backend, [old]);
    let before = counts.gets();
    let keys: Vec<u64> = (500..1500).chain(500..700).collect();
    states.announce(keys.iter().map(Keyed::new))?;
    assert_eq!(counts.gets() - before, (1, 1000), "one call, each key once");
    for key in 500..1500 {
        let found = states.get(value, Keyed::new(&key))?.map(String::as_str);
        assert_eq!(found, (key < 1000).then_some("text"));
    }
    assert_eq!(
        counts.gets() - before,
        (1, 1000),
        "also those that are not there"
    );
    // What is put or cleared needs no look at what was there.
    put(&mut states, value, 0..100, "new");
    states[value].clear(Keyed::new(&100))?;
    assert_eq!(counts.gets() - before, (1, 1000));
    Ok(())
}

/// Canonical snapshots go from any backend to any other, at another parallelism.
#[test]
fn a_canonical_snapshot_restores_on_every_backend() {
    let rows = Backend::rows(SortedRows::new(LITTLE));
    let backends = [Backend::memory(), rows];
    for from in &backends {
        let (mut states, value) = open(from, []);
        put(&mut states, value, 0..3000, "text");
        for key in 100..200 {
            states[value].clear(Keyed::new(&key)).unwrap();
        }
        let expected = of(&[(0, 100, "text"), (200, 3000, "text")]);
        let stored = Stored::by(states.snapshot_canonical(checkpoint(1)));
        for to in &backends {
            let mut found = BTreeMap::new();
            for groups in [KeyGroupRange::new(0, 5), KeyGroupRange::new(5, 12)] {
                let old = [stored.restored()];
                let mut states = KeyedStates::<u64>::open(to, "op", groups, MAX, old).unwrap();
                assert_eq!(states.undeclared(), ["v"]);
                let value = states.value("v").unwrap();
                found.extend(contents(&mut states, value));
            }
            assert_eq!(found, expected, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn a_backend_s_own_snapshot_is_refused_by_another_with_the_remedy() {
    let rows = Backend::rows(SortedRows::new(LITTLE));
    let (mut states, value) = open(&rows, []);
    put(&mut states, value, 0..10, "text");
    let old = Stored::by(states.snapshot(checkpoint(1))).restored();
    let error = KeyedStates::<u64>::restore("op", all(), MAX, [old]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let expected = "incompatible snapshot: operator `op`: the snapshot was taken with the backend `sorted-rows`, \
                    and now it is `memory`; restore with the former, and take a canonical snapshot \
                    there to change the backend";
    assert_eq!(error.to_string(), expected);
}

/// A state that was dropped leaves rows behind, which a later state of its name must not see.
#[test]
fn the_rows_of_a_dropped_state_do_not_come_back() -> Result<()> {
    let backend = Backend::rows(SortedRows::new(1 << 20));
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..100, "dropped");
    let mut old = Stored::by(states.snapshot(checkpoint(1)));
    for n in 2..4 {
        let mut states = KeyedStates::<u64>::open(&backend, "op", all(), MAX, [old.restored()])?;
        let other = states.value::<u32>("other")?;
        states[other].put(Keyed::new(&1), n)?;
        old = Stored::by(states.snapshot(checkpoint(n.into())));
    }
    let (mut states, value) = open(&backend, [old.restored()]);
    assert_eq!(contents(&mut states, value), BTreeMap::new());
    put(&mut states, value, 0..10, "new");
    assert_eq!(
        restored(&backend, states.snapshot(checkpoint(9))),
        of(&[(0, 10, "new")])
    );
    Ok(())
}

/// Renamed and of a new type: rows are read as the old one, and are the new one's from then on.
#[test]
fn rows_of_an_older_type_are_migrated() -> Result<()> {
    let backend = Backend::rows(SortedRows::new(LITTLE));
    let mut states = KeyedStates::<u64>::open(&backend, "op", all(), MAX, [])?;
    let number = states.value::<u32>("number")?;
    for key in 0..2000 {
        states[number].put(Keyed::new(&u64::from(key)), key)?;
    }
    let mut old = Stored::by(states.snapshot(checkpoint(1)));
    for n in 2..4 {
        let text = Descriptor::new("v").formerly("number");
        let text = text.migrate_from(|number: u32| format!("no {number}"));
        let mut states = KeyedStates::<u64>::open(&backend, "op", all(), MAX, [old.restored()])?;
        let value = states.value::<String>(text)?;
        let expected: BTreeMap<_, _> = (0..2000).map(|key| (key, format!("no {key}"))).collect();
        assert_eq!(contents(&mut states, value), expected);
        old = Stored::by(states.snapshot(checkpoint(n)));
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, u8),
    Push(u64),
    Clear(u64),
    Get(u64),
    Announce(u64),
    Snapshot,
    Write(prop::sample::Index),
    Cancel(prop::sample::Index),
    Confirm(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..600_u64;
    prop_oneof![
        30 => (key(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        20 => key().prop_map(Step::Push),
        15 => key().prop_map(Step::Clear),
        15 => key().prop_map(Step::Get),
        3 => key().prop_map(Step::Announce),
        2 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::Write),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (1..40_u64).prop_map(Step::Confirm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// F099, F105 with rows: any number of snapshots open, written in any order or cancelled, with memory
    /// for a few rows or for all.
    #[test]
    fn random_operations_equal_a_reference_map(
        memory in prop_oneof![Just(500_u64), Just(LITTLE), Just(1 << 20)],
        steps in prop::collection::vec(step(), 0..1200),
    ) {
        let backend = Backend::rows(SortedRows::new(memory));
        let (mut states, value) = open(&backend, []);
        let mut reference = BTreeMap::<u64, String>::new();
        let mut open = Vec::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Put(key, n) => {
                    states[value].put(Keyed::new(&key), n.to_string()).unwrap();
                    reference.insert(key, n.to_string());
                }
                Step::Push(key) => {
                    states[value].or_insert_with(Keyed::new(&key), String::new).unwrap().push('+');
                    reference.entry(key).or_default().push('+');
                }
                Step::Clear(key) => {
                    states[value].update(Keyed::new(&key), |slot| *slot = None).unwrap();
                    reference.remove(&key);
                }
                Step::Get(key) => {
                    let found = states[value].get(Keyed::new(&key)).unwrap();
                    prop_assert_eq!(found, reference.get(&key));
                }
                Step::Announce(from) => {
                    let keys: Vec<u64> = (from..from + 50).collect();
                    states.announce(keys.iter().map(Keyed::new)).unwrap();
                }
                Step::Snapshot => {
                    number += 1;
                    open.push((states.snapshot(checkpoint(number)), reference.clone()));
                }
                Step::Write(which) if !open.is_empty() => {
                    let (task, expected) = open.swap_remove(which.index(open.len()));
                    prop_assert_eq!(restored(&backend, task), expected);
                }
                Step::Cancel(which) if !open.is_empty() => {
                    drop(open.swap_remove(which.index(open.len())));
                }
                Step::Confirm(n) => states.confirmed(checkpoint(n)),
                Step::Write(_) | Step::Cancel(_) => {}
            }
        }
        prop_assert_eq!(contents(&mut states, value), reference);
        for (task, expected) in open {
            prop_assert_eq!(restored(&backend, task), expected);
        }
    }
}
