//! What a single snapshot stores, and what it names again.

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{
    BoxError, ErrorKind, Handle, Keyed, KeyedStates, NewFile, ReadFiles, Restored, Result,
    Snapshot, Store, ValueState,
};

const MAX: MaxParallelism = MaxParallelism::new(16).unwrap();

type Value = Handle<ValueState<u64, Vec<u8>>>;

fn states() -> Result<(KeyedStates<u64>, Value)> {
    let mut states = KeyedStates::new("op", KeyGroupRange::new(0, 16), MAX);
    let value = states.value("v")?;
    Ok((states, value))
}

fn fill(states: &mut KeyedStates<u64>, value: Value, keys: impl Iterator<Item = u64>) {
    for key in keys {
        states[value].put(Keyed::new(&key), vec![1; 100]).unwrap();
    }
}

/// Takes a snapshot and confirms it.
fn take(
    states: &mut KeyedStates<u64>,
    id: u64,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<Snapshot> {
    let id = CheckpointId::new(id);
    let snapshot = states.snapshot(id).run(files)?;
    states.confirmed(id);
    Ok(snapshot)
}

const KEYS: u64 = 40_000;

/// F107, SPEC 3.5: first everything, later what changed. Here the keys of one of 16 key groups.
#[test]
fn a_snapshot_stores_what_has_changed_since_the_last_confirmed_one() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..KEYS);
    let first = take(&mut states, 1, &mut files)?;
    assert_eq!(first.bytes_new, first.bytes_full);
    let second = take(&mut states, 2, &mut files)?;
    assert_eq!((second.bytes_new, &second.files), (0, &first.files));

    let is_in = |key: &u64| u64::GROUPING.group(key.key_hash(), MAX).get() == 5;
    fill(&mut states, value, (0..KEYS).filter(is_in));
    let third = take(&mut states, 3, &mut files)?;
    assert!(20 * third.bytes_new < 3 * third.bytes_full, "{third:?}");
    assert!(third.files.starts_with(&first.files));
    Ok(())
}

/// The stated bound for changes here and there: the blocks of the changed keys, each of 4 KiB at most.
#[test]
fn a_changed_key_costs_a_block_at_most() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..KEYS);
    take(&mut states, 1, &mut files)?;
    let changed = KEYS / 1000;
    fill(&mut states, value, (0..KEYS).step_by(1000));
    let second = take(&mut states, 2, &mut files)?;
    assert!(second.bytes_new <= changed * 4096, "{second:?}");
    Ok(())
}

/// B28: neither what is not confirmed yet, nor what was aborted.
#[test]
fn nothing_is_shared_with_unconfirmed_snapshots() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..1000);
    let ids = [1, 2, 3].map(CheckpointId::new);
    let first = states.snapshot(ids[0]).run(&mut files)?;
    let second = states.snapshot(ids[1]).run(&mut files)?;
    assert_eq!(second.bytes_new, first.bytes_new);
    states.aborted(ids[0]);
    states.aborted(ids[1]);
    let third = states.snapshot(ids[2]).run(&mut files)?;
    assert_eq!(third.bytes_new, first.bytes_new);
    assert!(third.files.iter().all(|name| name.starts_with("keyed-3-")));
    Ok(())
}

/// A block that was changed, and whose snapshot was given up, is changed still.
#[test]
fn what_an_aborted_snapshot_had_stored_is_stored_again() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..1000);
    take(&mut states, 1, &mut files)?;
    states[value].put(Keyed::new(&7), b"seven".to_vec())?;
    states.snapshot(CheckpointId::new(2)).run(&mut files)?;
    states.aborted(CheckpointId::new(2));
    drop(states.snapshot(CheckpointId::new(3))); // and this one is cancelled
    let fourth = take(&mut states, 4, &mut files)?;
    files.retain(|name, _| fourth.files.contains(name));
    let old = Restored::new(fourth.manifest, files);
    let mut states = KeyedStates::<u64>::restore("op", KeyGroupRange::new(0, 16), MAX, [old])?;
    let value = states.value::<Vec<u8>>("v")?;
    assert_eq!(states.get(value, Keyed::new(&7))?.unwrap(), b"seven");
    Ok(())
}

/// An image without entries outdates the older one of its block, in whichever file that is.
#[test]
fn keys_that_were_cleared_do_not_come_back() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..300);
    take(&mut states, 1, &mut files)?;
    let is_in = |key: &u64| u64::GROUPING.group(key.key_hash(), MAX).get() == 5;
    for key in (0..300).filter(is_in) {
        states[value].clear(Keyed::new(&key))?;
    }
    let second = take(&mut states, 2, &mut files)?;
    assert_eq!(second.files, ["keyed-1-0-0", "keyed-2-0-0"]);
    states[value].put(Keyed::new(&1000), vec![2])?; // and neither after another one
    let third = take(&mut states, 3, &mut files)?;
    for snapshot in [second, third] {
        let old = Restored::new(snapshot.manifest, files.clone());
        let groups = KeyGroupRange::new(5, 6);
        let mut states = KeyedStates::<u64>::restore("op", groups, MAX, [old])?;
        let value = states.value::<Vec<u8>>("v")?;
        for key in (0..300).filter(is_in) {
            assert_eq!(states.get(value, Keyed::new(&key))?, None);
        }
    }
    Ok(())
}

/// Forgets files that it was given.
struct Forgetful;

impl Store for Forgetful {
    fn store(&mut self, _: NewFile) -> Result<(), BoxError> {
        Ok(())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }
}

/// If confirmations are lost for long, the files of the base may be gone: no error for ever.
#[test]
fn a_snapshot_whose_base_is_gone_is_declined_and_the_next_is_whole() -> Result<()> {
    let (mut states, value) = states()?;
    fill(&mut states, value, 0..1000);
    let ids = [1, 2, 3].map(CheckpointId::new);
    let first = states.snapshot(ids[0]).run(&mut Forgetful)?;
    states.confirmed(ids[0]);
    let error = states.snapshot(ids[1]).run(&mut Forgetful).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Outdated);
    assert!(error.to_string().contains("`keyed-1-0-0`"), "{error}");
    let third = states.snapshot(ids[2]).run(&mut Forgetful)?;
    assert_eq!(third.bytes_new, first.bytes_new);
    Ok(())
}

/// A state that is declared between two snapshots is new as a whole.
#[test]
fn a_state_declared_later_is_in_the_next_snapshot() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..10);
    take(&mut states, 1, &mut files)?;
    let late = states.value::<u64>("late")?;
    states[late].put(Keyed::new(&1), 11)?;
    let second = take(&mut states, 2, &mut files)?;
    let old = Restored::new(second.manifest, files);
    let mut states = KeyedStates::<u64>::restore("op", KeyGroupRange::new(0, 16), MAX, [old])?;
    let late = states.value::<u64>("late")?;
    assert_eq!(states.undeclared(), ["v"]);
    assert_eq!(states.get(late, Keyed::new(&1))?, Some(&11));
    Ok(())
}

/// SPEC 3.6: of each file the index, and of the images those that count and are owned.
#[test]
fn a_restore_reads_what_counts_and_no_more() -> Result<()> {
    let (mut states, value) = states()?;
    let mut files = BTreeMap::new();
    fill(&mut states, value, 0..KEYS);
    take(&mut states, 1, &mut files)?;
    fill(&mut states, value, (0..KEYS).step_by(500));
    let second = take(&mut states, 2, &mut files)?;
    let all: u64 = second.bytes_full;
    let read = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = {
        let read = std::sync::Arc::clone(&read);
        move |name: &str, range: std::ops::Range<u64>| {
            let bytes = range.end - range.start;
            read.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
            files.read(name, range)
        }
    };
    let old = Restored::new(second.manifest, counted);
    let mut states = KeyedStates::<u64>::restore("op", KeyGroupRange::new(3, 5), MAX, [old])?;
    let value = states.value::<Vec<u8>>("v")?;
    let mut count = 0;
    states[value].for_each(|_, _| count += 1)?;
    let part = f64::from(count) / KEYS as f64;
    let read = read.load(std::sync::atomic::Ordering::Relaxed) as f64;
    assert!(
        part > 0.1 && read < 1.2 * part * all as f64,
        "{read} of {all}"
    );
    Ok(())
}
