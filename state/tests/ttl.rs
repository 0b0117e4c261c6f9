//! Elements that expire: hidden at once, removed later, and never a moment early.

mod common;

use std::{panic, time::Duration};

use common::{MAX, Stored, all};
use cutwater_barrier::CheckpointId;
use cutwater_state::{
    Aggregate, Backend, Descriptor, ErrorKind, Expiring, Handle, Keyed, KeyedStates, ListState,
    MapState, Restored, Result, Timestamp, Ttl, ValueState, testkit::SortedRows,
};

const TEN: Ttl = Ttl::new(Duration::from_millis(10));

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// States at some time.
fn open(backend: &Backend, old: impl IntoIterator<Item = Restored>, now: i64) -> KeyedStates<u64> {
    let mut states = KeyedStates::open(backend, "op", all(), MAX, old).unwrap();
    states.set_time(at(now));
    states
}

fn states() -> KeyedStates<u64> {
    open(&Backend::memory(), [], 0)
}

fn restore(stored: &Stored, now: i64) -> KeyedStates<u64> {
    open(&Backend::memory(), [stored.restored()], now)
}

type Value = Handle<ValueState<u64, u32, (), Expiring>>;
type List = Handle<ListState<u64, u32, (), Expiring>>;
type Map = Handle<MapState<u64, u32, u32, (), Expiring>>;

fn get(states: &mut KeyedStates<u64>, value: Value) -> Option<u32> {
    states[value].get(Keyed::new(&7)).unwrap().copied()
}

fn list(states: &mut KeyedStates<u64>, list: List) -> Vec<u32> {
    states[list].get(Keyed::new(&7)).unwrap().copied().collect()
}

fn map(states: &mut KeyedStates<u64>, map: Map) -> Vec<(u32, u32)> {
    let entries = states[map].entries(Keyed::new(&7)).unwrap();
    entries.map(|(at, value)| (*at, *value)).collect()
}

/// F110: writes of every kind give it the full time again, reads do not. In memory what has expired is removed at once,
/// as there are few values; in rows it is still there, and hidden.
#[test]
fn a_value_is_hidden_as_long_after_its_last_write_as_it_lives() -> Result<()> {
    for backend in [Backend::memory(), Backend::rows(SortedRows::new(1 << 20))] {
        a_value_is_hidden(&backend)?;
    }
    Ok(())
}

fn a_value_is_hidden(backend: &Backend) -> Result<()> {
    let mut states = open(backend, [], 0);
    let value: Value = states.expiring(TEN)?.value("value")?;
    let keyed = Keyed::new(&7);
    assert_eq!(get(&mut states, value), None, "nothing is there yet");
    states[value].put(keyed, 1)?;
    for (now, expected) in [(9, Some(1)), (10, None), (9, Some(1))] {
        states.set_time(at(now));
        assert_eq!(get(&mut states, value), expected, "at {now}");
    }
    *states[value].get_mut(keyed)?.unwrap() += 1; // at 9
    states.set_time(at(18));
    assert_eq!(get(&mut states, value), Some(2));
    *states[value].or_insert_with(keyed, || 0)? += 1;
    states.set_time(at(27));
    states[value].update(keyed, |slot| assert_eq!(*slot, Some(3)))?;
    states.set_time(at(36));
    assert_eq!(get(&mut states, value), Some(3));
    states.set_time(at(37));
    assert_eq!(states[value].get_mut(keyed)?, None);
    states[value].update(keyed, |slot| assert_eq!(*slot, None))?;
    states[value].put(keyed, 4)?;
    states.set_time(at(47));
    assert_eq!(*states[value].or_insert_with(keyed, || 5)?, 5);
    states[value].clear(keyed)?;
    assert_eq!(get(&mut states, value), None);
    Ok(())
}

/// F110: reads count where they are declared to, also those of whole lists and maps.
#[test]
fn reads_give_it_the_full_time_again_if_they_count() -> Result<()> {
    let mut states = states();
    let ttl = TEN.refreshed_by_reads();
    let value: Value = states.expiring(ttl)?.value("value")?;
    let lists: List = states.expiring(ttl)?.list("list")?;
    let maps: Map = states.expiring(ttl)?.map("map")?;
    let keyed = Keyed::new(&7);
    states[value].put(keyed, 1)?;
    for n in 0..100 {
        states[lists].append(keyed, n)?;
        states[maps].put(keyed, n, n)?;
    }
    for now in (0..50).step_by(9) {
        states.set_time(at(now));
        assert_eq!(get(&mut states, value), Some(1));
        assert_eq!(list(&mut states, lists).len(), 100);
        assert_eq!(map(&mut states, maps).len(), 100);
    }
    states.set_time(at(50)); // last read at 45
    assert_eq!(states[maps].get(keyed, &3)?, Some(&3));
    states.set_time(at(55));
    assert_eq!(get(&mut states, value), None);
    assert!(list(&mut states, lists).is_empty());
    assert_eq!(map(&mut states, maps), [(3, 3)], "read alone at 50");
    Ok(())
}

/// F110, F114: what is shown until it is removed is removed bit by bit, and nothing else is.
#[test]
fn what_has_expired_is_swept_away_bit_by_bit() -> Result<()> {
    let mut states = states();
    let value: Value = states.expiring(TEN.showing_expired())?.value("value")?;
    for key in 0..20_000 {
        states.set_time(at(if key % 4 == 0 { 5 } else { 0 }));
        states[value].put(Keyed::new(&key), 1)?;
    }
    let count = |states: &mut KeyedStates<u64>| {
        let (mut old, mut young) = (0, 0);
        let counted = states[value].for_each(|key, _| match key % 4 {
            0 => young += 1,
            _ => old += 1,
        });
        counted.map(|()| (old, young))
    };
    assert_eq!(count(&mut states)?, (15_000, 5_000));
    let mut left = 15_000;
    let mut calls = 0;
    while left > 0 {
        states.set_time(at(10));
        let (old, young) = count(&mut states)?;
        assert!(left - old <= 256, "{} in one call", left - old);
        assert_eq!(young, 5_000);
        left = old;
        calls += 1;
        assert!(calls < 2_000, "{left} are left");
    }
    assert!(calls > 50);
    Ok(())
}

/// F114: a whole snapshot has what has not expired, and shares nothing with later sweeps.
fn a_snapshot_leaves_out_what_has_expired(backend: &Backend) -> Result<()> {
    let mut states = open(backend, [], 0);
    let ttl = TEN.showing_expired();
    let value: Value = states.expiring(ttl)?.value("value")?;
    let lists: List = states.expiring(ttl)?.list("list")?;
    let maps: Map = states.expiring(ttl)?.map("map")?;
    for (now, key) in [(0, 1), (5, 2), (5, 7)] {
        states.set_time(at(now));
        states[value].put(Keyed::new(&key), 1)?;
    }
    for (now, n) in [(0, 1), (5, 2), (0, 3)] {
        states.set_time(at(now));
        states[lists].append(Keyed::new(&7), n)?;
        states[maps].put(Keyed::new(&7), n, n)?;
    }
    states.set_time(at(0));
    states[lists].append(Keyed::new(&1), 1)?;
    states.set_time(at(12));
    let stored = Stored::by(states.snapshot_canonical(CheckpointId::new(1)));

    let mut states = restore(&stored, 0);
    let value: Value = states.expiring(ttl)?.value("value")?;
    let lists: List = states.expiring(ttl)?.list("list")?;
    let maps: Map = states.expiring(ttl)?.map("map")?;
    let mut keys = Vec::new();
    states[value].for_each(|key, _| keys.push(*key))?;
    keys.sort_unstable();
    assert_eq!(keys, [2, 7]);
    assert_eq!(list(&mut states, lists), [2]);
    assert_eq!(map(&mut states, maps), [(2, 2)]);
    assert_eq!(states[lists].get(Keyed::new(&1))?.count(), 0);
    Ok(())
}

#[test]
fn a_snapshot_of_memory_leaves_out_what_has_expired() -> Result<()> {
    a_snapshot_leaves_out_what_has_expired(&Backend::memory())
}

#[test]
fn a_canonical_snapshot_of_rows_leaves_out_what_has_expired() -> Result<()> {
    a_snapshot_leaves_out_what_has_expired(&Backend::rows(SortedRows::new(1 << 20)))
}

/// F114: rows that nobody writes to are dropped by a backend that comes across them, and no others: not those of a
/// state that keeps its elements, and not those which were stored as another type.
#[test]
fn a_backend_drops_the_rows_that_have_expired() -> Result<()> {
    let backend = Backend::rows(SortedRows::new(2_000)); // a few rows
    let mut states = open(&backend, [], 0);
    let kept = states.value::<u32>("kept")?;
    let grows = states.value::<u32>("grows")?;
    let value: Value = states.expiring(TEN.showing_expired())?.value("value")?;
    for key in 0..200 {
        if key == 150 {
            states.set_time(at(5));
        }
        states[value].put(Keyed::new(&key), 0)?;
        states[kept].put(Keyed::new(&key), 0)?;
        states[grows].put(Keyed::new(&key), 0)?;
    }
    let stored = Stored::of(&mut states);

    let mut states = open(&backend, [stored.restored()], 12);
    let kept = states.value::<u32>("kept")?;
    let grows = Descriptor::new("grows").migrate_from(|n: u32| u64::from(n));
    let grows = states
        .expiring(TEN.showing_expired())?
        .value::<u64>(grows)?;
    let value: Value = states.expiring(TEN.showing_expired())?.value("value")?;
    states.set_time(at(12));
    for key in 1000..1100 {
        states[kept].put(Keyed::new(&key), 0)?;
    }
    drop(Stored::of(&mut states));
    for key in 0..200 {
        let keyed = Keyed::new(&key);
        let is_there = states[value].get(keyed)?.is_some();
        assert_eq!(is_there, key >= 150, "key {key}");
        assert_eq!(states[kept].get(keyed)?, Some(&0));
        assert_eq!(states[grows].get(keyed)?, Some(&0), "counts from now");
    }
    Ok(())
}

/// F115: each element and each entry has its own time; a list or map of which nothing is left is none.
#[test]
fn elements_of_lists_and_maps_expire_one_by_one() -> Result<()> {
    let mut states = states();
    let lists: List = states.expiring(TEN)?.list("list")?;
    let maps: Map = states.expiring(TEN)?.map("map")?;
    let keyed = Keyed::new(&7);
    for n in 0..6 {
        states.set_time(at(n.into()));
        states[lists].append(keyed, n)?;
        states[maps].put(keyed, n, n)?;
    }
    states[maps].put(keyed, 0, 9)?; // at 5
    states.set_time(at(12));
    assert_eq!(list(&mut states, lists), [3, 4, 5]);
    assert_eq!(map(&mut states, maps), [(0, 9), (3, 3), (4, 4), (5, 5)]);
    assert!(!states[maps].contains(keyed, &1)?);
    assert_eq!(states[maps].get_mut(keyed, &2)?, None);
    assert_eq!(states[maps].remove(keyed, &2)?, None);
    assert_eq!(
        states[maps].put(keyed, 1, 1)?,
        None,
        "the former one is gone"
    );
    *states[maps].get_mut(keyed, &4)?.unwrap() += 1;
    states.set_time(at(15));
    assert!(list(&mut states, lists).is_empty());
    assert_eq!(map(&mut states, maps), [(1, 1), (4, 5)]);
    let mut lists_left = 0;
    states[lists].for_each(|_, _| lists_left += 1)?;
    assert_eq!(lists_left, 0);
    states[lists].update(keyed, [8, 9])?;
    states.set_time(at(24));
    assert_eq!(list(&mut states, lists), [8, 9]);
    assert!(map(&mut states, maps).is_empty());
    Ok(())
}

/// How many were added.
#[derive(Clone, Copy)]
struct Count;

impl Aggregate for Count {
    type In = ();
    type Accumulator = u32;
    type Out = u32;

    fn start(&self) -> u32 {
        0
    }

    fn add(&self, count: &mut u32, (): ()) {
        *count += 1;
    }

    fn merge(&self, into: &mut u32, from: u32) {
        *into += from;
    }

    fn result(&self, count: &u32) -> u32 {
        *count
    }
}

/// F112, and that sums begin anew when they have expired.
#[test]
fn merging_namespaces_leaves_out_what_has_expired() -> Result<()> {
    let mut states = states();
    let list = states
        .namespaced::<u8>()
        .expiring(TEN)?
        .list::<u32>("list")?;
    let sum = states
        .namespaced::<u8>()
        .expiring(TEN)?
        .reducing("sum", |sum: &mut u32, n| *sum += n)?;
    let count = states
        .namespaced::<u8>()
        .expiring(TEN)?
        .aggregating("count", Count)?;
    let keyed = Keyed::new(&7);
    for (now, namespace, n) in [(0, 1, 100), (0, 3, 1), (6, 2, 10), (6, 3, 1)] {
        states.set_time(at(now));
        states[list].append(keyed.at(namespace), n)?;
        states[sum].add(keyed.at(namespace), n)?;
        states[count].add(keyed.at(namespace), ())?;
    }
    states.set_time(at(11));
    assert_eq!(states[sum].namespaces(keyed)?.len(), 2, "1 has expired");
    states[list].merge(keyed, 0, [1, 2, 3])?;
    states[sum].merge(keyed, 0, [1, 2, 3])?;
    states[count].merge(keyed, 0, [1, 2, 3])?;
    assert!(states[list].get(keyed.at(0))?.eq(&[10, 1]));
    assert_eq!(states[sum].get(keyed.at(0))?, Some(&12));
    assert_eq!(states[count].get(keyed.at(0))?, Some(3));
    states.set_time(at(21));
    states[sum].add(keyed.at(0), 1)?;
    states[count].add(keyed.at(0), ())?;
    assert_eq!(states[sum].get(keyed.at(0))?, Some(&1));
    assert_eq!(states[count].get(keyed.at(0))?, Some(1));
    Ok(())
}

/// F113: time goes on while nothing runs. F116: another length applies to what is there.
#[test]
fn stamps_outlast_a_restart_and_another_length() -> Result<()> {
    let mut first = states();
    let value: Value = first.expiring(TEN)?.value("value")?;
    first.set_time(at(3));
    first[value].put(Keyed::new(&7), 1)?;
    let stored = Stored::of(&mut first);
    let hour = Ttl::new(Duration::from_secs(3600));
    let second = Ttl::new(Duration::from_millis(5));
    for (now, ttl, expected) in [
        (12, TEN, Some(1)),
        (13, TEN, None),
        (3_600_000, hour, Some(1)),
        (8, second, None),
    ] {
        let mut states = restore(&stored, now);
        let value: Value = states.expiring(ttl)?.value("value")?;
        assert_eq!(get(&mut states, value), expected, "at {now}");
    }
    Ok(())
}

/// B35, F116: elements that begin to expire count from the restore, those that no longer do are
/// kept; in values, lists and maps, with a change of type at the same time.
fn expiry_is_switched_on_and_off(backend: &Backend) -> Result<()> {
    let restore = |stored: &Stored, now| open(backend, [stored.restored()], now);
    let mut plain = KeyedStates::<u64>::open(backend, "op", all(), MAX, [])?;
    let value = plain.value::<u32>("value")?;
    let lists = plain.list::<u32>("list")?;
    let maps = plain.map::<u32, u32>("map")?;
    let sum = plain.reducing::<u32>("sum", |sum, n| *sum += n)?;
    let keyed = Keyed::new(&7);
    plain[value].put(keyed, 1)?;
    plain[lists].update(keyed, [1, 2])?;
    plain[maps].put(keyed, 1, 2)?;
    plain[sum].add(keyed, 5)?;

    let mut expiring = restore(&Stored::of(&mut plain), 100);
    let value: Value = expiring.expiring(TEN)?.value("value")?;
    let lists: List = expiring.expiring(TEN)?.list("list")?;
    let maps: Map = expiring.expiring(TEN)?.map("map")?;
    let sum = expiring
        .expiring(TEN)?
        .reducing::<u32>("sum", |sum, n| *sum += n)?;
    expiring.set_time(at(109));
    assert_eq!(get(&mut expiring, value), Some(1));
    assert_eq!(list(&mut expiring, lists), [1, 2]);
    assert_eq!(map(&mut expiring, maps), [(1, 2)]);
    assert_eq!(expiring[sum].get(keyed)?, Some(&5));
    let stored = Stored::of(&mut expiring);
    expiring.set_time(at(110));
    assert_eq!(get(&mut expiring, value), None);

    let mut plain = restore(&stored, 1_000_000);
    let text = |n: u32| n.to_string();
    let value = plain.value(Descriptor::new("value").migrate_from(text))?;
    let lists = plain.list::<u32>("list")?;
    let maps = Descriptor::new("map").migrate_from(move |(at, n): (u32, u32)| (at, text(n)));
    let maps = plain.map(maps)?;
    assert_eq!(plain[value].get(keyed)?.map(String::as_str), Some("1"));
    assert!(plain[lists].get(keyed)?.eq(&[1, 2]));
    assert_eq!(plain[maps].get(keyed, &1)?.map(String::as_str), Some("2"));
    assert_eq!(plain.undeclared(), ["sum"]);
    Ok(())
}

#[test]
fn expiry_is_switched_and_keeps_the_elements_in_memory() -> Result<()> {
    expiry_is_switched_on_and_off(&Backend::memory())
}

#[test]
fn expiry_is_switched_and_keeps_the_elements_in_rows() -> Result<()> {
    expiry_is_switched_on_and_off(&Backend::rows(SortedRows::new(1 << 20)))
}

/// B35, F111: a time that would end after time itself never ends.
#[test]
fn a_long_life_is_no_short_one() -> Result<()> {
    let near_the_end = Timestamp::MAX.millis() - 1;
    let longest = Duration::from_millis(near_the_end.cast_unsigned());
    for ttl in [Duration::MAX, longest] {
        let mut states = states();
        states.set_time(at(5));
        let value: Value = states.expiring(Ttl::new(ttl))?.value("value")?;
        states[value].put(Keyed::new(&7), 1)?;
        for now in [6, near_the_end, Timestamp::MAX.millis()] {
            states.set_time(at(now));
            assert_eq!(get(&mut states, value), Some(1));
        }
    }
    Ok(())
}

#[test]
fn nothing_expires_before_it_is_said_which_time_it_is() {
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let error = states.expiring(TEN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("`KeyedStates::set_time`"),
        "{error}"
    );
}

#[test]
fn a_panic_in_update_leaves_what_is_in_the_slot() -> Result<()> {
    let mut states = states();
    let value: Value = states.expiring(TEN)?.value("value")?;
    states[value].put(Keyed::new(&7), 1)?;
    let update = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        states[value].update(Keyed::new(&7), |slot| {
            *slot = Some(2);
            panic!("as the test wants it");
        })
    }));
    assert!(update.is_err());
    assert_eq!(get(&mut states, value), Some(2));
    Ok(())
}
