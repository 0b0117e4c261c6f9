//! Restoring: what comes back, what is refused, and what is read for it.

mod common;

use std::{
    collections::BTreeMap,
    error::Error as _,
    ops::Range,
    sync::{Arc, Mutex},
};

use common::{MAX, Stored, all, entries};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{
    DecodeError, Flink, Grouping, Key, KeyGroupRange, KeyHash, MaxParallelism,
};
use cutwater_state::{
    BoxError, Error, ErrorKind, Keyed, KeyedStates, NewFile, Restored, Result, Store,
};
use serde::{Deserialize, Serialize};

fn restore(stored: &Stored, groups: KeyGroupRange) -> Result<KeyedStates<u64>> {
    KeyedStates::restore("op", groups, MAX, [stored.restored()])
}

/// Ten thousand totals, in all groups.
fn totals() -> Result<Stored> {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let total = states.value::<i64>("total")?;
    for key in 0..10_000 {
        states[total].put(Keyed::new(&key), -1)?;
    }
    Ok(Stored::of(&mut states))
}

/// F100.
#[test]
fn state_not_touched_after_a_restore_is_in_the_next_snapshot() -> Result<()> {
    let mut once = restore(&totals()?, all())?;
    once.value::<i64>("total")?;
    let mut twice = restore(&Stored::of(&mut once), all())?;
    let total = twice.value::<i64>("total")?;
    assert_eq!(entries(&mut twice[total]).len(), 10_000);
    Ok(())
}

/// B23: a subtask whose groups do not intersect a snapshot's gets none of its states, and states
/// of different names are not mixed up.
#[test]
fn names_are_never_mixed_and_foreign_snapshots_are_passed_over() -> Result<()> {
    let only = |name: &str, start, end| -> Result<Stored> {
        let mut states = KeyedStates::<u64>::new("op", KeyGroupRange::new(start, end), MAX);
        let state = states.value::<String>(name)?;
        for key in 0..1000 {
            // Those of the other half are refused, which is what this test wants of them.
            let _foreign = states[state].put(Keyed::new(&key), name.to_owned());
        }
        Ok(Stored::of(&mut states))
    };
    let (x, y) = (only("x", 0, 6)?, only("y", 6, 12)?);
    let mut found = 0;
    for (start, end) in [(0, 4), (4, 8), (8, 12)] {
        let groups = KeyGroupRange::new(start, end);
        let old = [x.restored(), y.restored()];
        let mut states = KeyedStates::<u64>::restore("op", groups, MAX, old)?;
        let names = match start {
            0 => vec!["x"],
            4 => vec!["x", "y"],
            _ => vec!["y"],
        };
        assert_eq!(states.undeclared(), names);
        for name in ["x", "y"] {
            let state = states.value::<String>(name)?;
            let entries = entries(&mut states[state]);
            assert!(entries.iter().all(|(_, value)| value == name));
            found += entries.len();
        }
        assert!(states.undeclared().is_empty());
    }
    assert_eq!(found, 1000);
    Ok(())
}

/// SPEC 3.6.
#[test]
fn only_the_ranges_of_owned_groups_are_read() -> Result<()> {
    let stored = totals()?;
    let reads = Arc::new(Mutex::new(Vec::<Range<u64>>::new()));
    let (files, log) = (stored.files.clone(), Arc::clone(&reads));
    let files = move |name: &str, range: Range<u64>| {
        log.lock().unwrap().push(range.clone());
        cutwater_state::ReadFiles::read(&files, name, range)
    };
    let old = Restored::new(stored.manifest.clone(), files);
    let mut states = KeyedStates::<u64>::restore("op", KeyGroupRange::new(3, 5), MAX, [old])?;
    let total = states.value::<i64>("total")?;
    let loaded = entries(&mut states[total]).len();

    let reads = reads.lock().unwrap();
    assert_eq!(reads.len(), 2, "the index, and neighbouring groups at once");
    let read = reads[1].end - reads[1].start;
    assert_eq!(
        read,
        9 * loaded as u64,
        "an entry has 8 bytes of key and 1 of value"
    );
    Ok(())
}

#[test]
fn later_files_are_named_and_bounded() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let state = states.value::<Vec<u8>>("blob")?;
    for key in 0..12_000 {
        states[state].put(Keyed::new(&key), vec![7; 1000])?;
    }
    let mut files = BTreeMap::new();
    let snapshot = states.snapshot(CheckpointId::new(9)).run(&mut files)?;
    assert_eq!(
        snapshot.files,
        ["keyed-9-0-0", "keyed-9-0-1", "keyed-9-0-2"]
    );
    assert!(files.keys().eq(&snapshot.files));
    let lengths: Vec<_> = files.values().map(|bytes| bytes.len() as u64).collect();
    assert_eq!(snapshot.bytes_full, lengths.iter().sum::<u64>());
    assert!(lengths.iter().all(|length| *length < (4 << 20) + 100_000));
    Ok(())
}

struct Full;

impl Store for Full {
    fn store(&mut self, _: NewFile) -> Result<(), BoxError> {
        Err("disk full".into())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }
}

/// F106: the root cause surfaces.
#[test]
fn a_store_that_fails_fails_the_snapshot_and_not_the_states() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let total = states.value::<i64>("total")?;
    states[total].put(Keyed::new(&1), 1)?;
    let task = states.snapshot(CheckpointId::new(1));
    let error = task.run(&mut Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.source().unwrap().to_string(), "disk full");
    states[total].put(Keyed::new(&1), 2)?;
    let mut again = restore(&Stored::of(&mut states), all())?;
    let total = again.value::<i64>("total")?;
    assert_eq!(again.get(total, Keyed::new(&1))?, Some(&2));
    Ok(())
}

fn refused<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    for word in words {
        assert!(
            error.to_string().contains(word),
            "`{word}` is not in: {error}"
        );
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Totals {
    flights: u64,
    miles: i64,
}

/// F102, SPEC 3.2: both schemas stand in the message, with the operator and the state.
#[test]
fn another_schema_or_kind_is_refused_with_both_in_the_message() -> Result<()> {
    let stored = totals()?;
    let mut states = restore(&stored, all())?;
    let op = ["operator `op`, state `total`", "value state of `i64`"];
    let new = "value state of `struct Totals { flights: u64, miles: i64 }`";
    refused(states.value::<Totals>("total"), &[op[0], op[1], new]);
    refused(
        states.list::<i64>("total"),
        &[op[0], op[1], "list state of `i64`"],
    );
    refused(
        states.map::<i64, i64>("total"),
        &[op[1], "map state of `(i64, i64)`"],
    );
    states.value::<i64>("total")?; // refusing left nothing behind
    Ok(())
}

/// F102: keys, whose bytes do not say what they are.
#[test]
fn another_key_type_is_refused_with_both_in_the_message() -> Result<()> {
    let stored = totals()?;
    let old = || [stored.restored()];
    let text = KeyedStates::<String>::restore("op", all(), MAX, old());
    refused(text, &["keys encoded as u64, and now it is string"]);
    let wide = KeyedStates::<u128>::restore("op", all(), MAX, old());
    refused(wide, &["keys encoded as u64, and now it is u128"]);
    let flink = KeyedStates::<Flink<i64>>::restore("op", all(), MAX, old());
    refused(flink, &["xxh64", "flink"]);
    Ok(())
}

#[test]
fn another_operator_or_max_parallelism_is_refused() -> Result<()> {
    let stored = totals()?;
    let old = || [stored.restored()];
    refused(
        KeyedStates::<u64>::restore("po", all(), MAX, old()),
        &["`po`", " op,"],
    );
    let more = MaxParallelism::new(128).unwrap();
    let states = KeyedStates::<u64>::restore("op", all(), more, old());
    refused(states, &["max parallelism 12", "it is 128"]);
    let twice = KeyedStates::<u64>::restore("op", all(), MAX, [old(), old()].concat());
    refused(twice, &["two snapshots hold the same key groups"]);
    Ok(())
}

/// Keys whose hashes agree in all bits: blocks are chained instead of splitting for ever.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Alike(u64);

/// Keys in whose hashes three of four bits are zero.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Skewed(u64);

macro_rules! poor_key {
    ($type:ident, $hash:expr) => {
        impl Key for $type {
            const GROUPING: Grouping = Grouping::Xxh64;

            fn key_hash(&self) -> KeyHash {
                $hash(self.0)
            }

            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }

            fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, DecodeError> {
                u64::decode(bytes).map(Self)
            }

            fn schema() -> String {
                u64::schema()
            }
        }
    };
}

poor_key!(Alike, |_| 7.key_hash());
poor_key!(Skewed, |key: u64| {
    let KeyHash(hash) = key.key_hash();
    KeyHash(hash & hash.rotate_left(29))
});

#[test]
fn keys_with_equal_hashes_are_kept_apart() -> Result<()> {
    let mut states = KeyedStates::<Alike>::new("op", all(), MAX);
    let total = states.value::<u64>("total")?;
    let keys: Vec<_> = (0..3000).map(Alike).collect();
    for key in &keys {
        states[total].put(Keyed::new(key), key.0)?;
    }
    for key in keys.iter().step_by(2) {
        states[total].clear(Keyed::new(key))?;
    }
    let stored = Stored::of(&mut states);
    let mut again = KeyedStates::<Alike>::restore("op", all(), MAX, [stored.restored()])?;
    again.value::<u64>("total")?; // the same handle
    for key in &keys {
        let expected = (key.0 % 2 == 1).then_some(&key.0);
        assert_eq!(states.get(total, Keyed::new(key))?, expected);
        assert_eq!(again.get(total, Keyed::new(key))?, expected);
    }
    Ok(())
}

/// A closure that panics leaves its key as it is by then, and the others reachable.
#[test]
fn a_panic_in_update_leaves_the_states_usable() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let total = states.value::<u64>("total")?;
    for key in 0..1000 {
        states[total].put(Keyed::new(&key), key)?;
    }
    for key in 0..1000 {
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            states[total].update(Keyed::new(&key), |slot| {
                *slot = (key % 2 == 0).then_some(key + 1);
                std::panic::resume_unwind(Box::new("on purpose"));
            })
        }));
        assert!(panics.is_err());
    }
    let mut sum = 0;
    for key in 0..1000 {
        let expected = (key % 2 == 0).then_some(key + 1);
        assert_eq!(states.get(total, Keyed::new(&key))?, expected.as_ref());
        sum += expected.map_or(0, |_| 1);
    }
    assert_eq!(entries(&mut states[total]).len(), sum);
    Ok(())
}

/// One group that splits its blocks many times, and some far more often than others.
#[test]
fn an_uneven_group_finds_each_key_also_after_prefetching() -> Result<()> {
    let (one, groups) = (MaxParallelism::new(1).unwrap(), KeyGroupRange::new(0, 1));
    let mut states = KeyedStates::<Skewed>::new("op", groups, one);
    let total = states.value::<u64>("total")?;
    let keys: Vec<_> = (0..60_000).map(Skewed).collect();
    let hashes: Vec<KeyHash> = keys.iter().map(Key::key_hash).collect();
    for (key, hash) in keys.iter().zip(&hashes) {
        states[total].put(Keyed::with_hash(key, *hash), key.0)?;
    }
    states.prefetch(&hashes); // changes nothing
    for (key, hash) in keys.iter().zip(&hashes) {
        assert_eq!(
            states.get(total, Keyed::with_hash(key, *hash))?,
            Some(&key.0)
        );
    }
    assert_eq!(entries(&mut states[total]).len(), keys.len());
    Ok(())
}

/// A hash that is not the key's harms that key alone, and panics nowhere.
#[test]
fn hashes_that_are_not_the_keys_leave_the_others_alone() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let total = states.value::<u64>("total")?;
    let wrong = 7.key_hash();
    for key in 0..3000_u64 {
        states[total].put(Keyed::new(&key), key)?;
        let foreign = key + 10_000;
        states[total].put(Keyed::with_hash(&foreign, wrong), 0)?;
        states[total].clear(Keyed::with_hash(&foreign, wrong))?;
        states[total].put(Keyed::with_hash(&foreign, wrong), 0)?;
    }
    for foreign in 10_000..13_000_u64 {
        states[total].clear(Keyed::with_hash(&foreign, wrong))?;
    }
    for key in 0..3000_u64 {
        assert_eq!(states.get(total, Keyed::new(&key))?, Some(&key));
    }
    Ok(())
}
