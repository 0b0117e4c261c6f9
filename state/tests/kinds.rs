//! What each kind of state does with a key and with a namespace.

mod common;

use common::{MAX, Stored, all};
use cutwater_keygroups::{KeyGroupRange, key};
use cutwater_state::{Aggregate, ErrorKind, Handle, Keyed, KeyedStates, ListState, Result};

fn states() -> KeyedStates<String> {
    KeyedStates::new("op", all(), MAX)
}

fn restored(states: &mut KeyedStates<String>, groups: KeyGroupRange) -> KeyedStates<String> {
    let old = Stored::of(states).restored();
    KeyedStates::restore("op", groups, MAX, [old]).unwrap()
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Window {
    start: i64,
    end: i64,
}

key!(Window { start, end });

const fn window(start: i64, end: i64) -> Window {
    Window { start, end }
}

/// How many, and their sum.
struct Mean;

impl Aggregate for Mean {
    type In = i64;
    type Accumulator = (u64, i64);
    type Out = String;

    fn start(&self) -> (u64, i64) {
        (0, 0)
    }

    fn add(&self, (count, sum): &mut (u64, i64), value: i64) {
        *count += 1;
        *sum += value;
    }

    fn merge(&self, into: &mut (u64, i64), from: (u64, i64)) {
        into.0 += from.0;
        into.1 += from.1;
    }

    fn result(&self, (count, sum): &(u64, i64)) -> String {
        format!("{sum}/{count}")
    }
}

/// F095: nothing is there until something was put, and nothing after it was cleared.
#[test]
fn reducing_and_aggregating_start_empty_and_end_empty() -> Result<()> {
    let mut states = states();
    let longest = states.reducing("longest", |longest: &mut u32, miles| {
        *longest = miles.max(*longest);
    })?;
    let mean = states.aggregating("mean", Mean)?;
    let key = "N14228".to_owned();
    let keyed = Keyed::new(&key);
    assert_eq!(states[longest].get(keyed)?, None);
    assert_eq!(states[mean].get(keyed)?, None);
    for miles in [719, 2475, 187] {
        states[longest].add(keyed, miles)?;
        states[mean].add(keyed, miles.into())?;
    }
    let mut states = restored(&mut states, all());
    let longest = states.reducing("longest", |longest: &mut u32, miles| {
        *longest = miles.max(*longest);
    })?;
    let mean = states.aggregating("mean", Mean)?;
    assert_eq!(states[longest].get(keyed)?, Some(&2475));
    assert_eq!(states[mean].get(keyed)?.as_deref(), Some("3381/3"));
    let mut found = Vec::new();
    states[longest].for_each(|key, longest| found.push((key.clone(), longest.to_string())))?;
    states[mean].for_each(|key, mean| found.push((key.clone(), mean)))?;
    let expected = ["2475", "3381/3"].map(|out| (key.clone(), out.to_owned()));
    assert_eq!(found, expected);
    states[longest].clear(keyed)?;
    states[mean].clear(keyed)?;
    assert_eq!(states[longest].get(keyed)?, None);
    assert_eq!(states[mean].get(keyed)?, None);
    Ok(())
}

/// F095: what stands in one namespace of a key is not seen in another one, or under another key.
#[test]
fn namespaces_have_nothing_to_do_with_each_other() -> Result<()> {
    let mut states = states();
    let value = states.namespaced::<Window>().value::<u32>("value")?;
    let list = states.namespaced::<Window>().list::<u32>("list")?;
    let map = states.namespaced::<Window>().map::<String, u32>("map")?;
    let keys: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    for (n, key) in (0..).zip(&keys) {
        for start in 0..10 {
            let keyed = Keyed::new(key).at(window(start, start + 60));
            let n = n + u32::try_from(start).unwrap();
            states[value].put(keyed, n)?;
            states[list].append(keyed, n)?;
            states[map].put(keyed, key.clone(), n)?;
        }
        states[value].clear(Keyed::new(key).at(window(3, 63)))?;
    }
    for groups in [KeyGroupRange::new(0, 5), KeyGroupRange::new(5, 12)] {
        let mut states = restored(&mut states, groups);
        let value = states.namespaced::<Window>().value::<u32>("value")?;
        let list = states.namespaced::<Window>().list::<u32>("list")?;
        let map = states.namespaced::<Window>().map::<String, u32>("map")?;
        let mut count = 0;
        states[value].for_each_namespaced(|_, _, _| count += 1)?;
        assert!(count > 500);
        for (n, key) in (0..).zip(&keys) {
            let keyed = Keyed::new(key);
            let Ok(namespaces) = states[value].namespaces(keyed) else {
                continue; // of the other half
            };
            let mut starts: Vec<_> = namespaces.iter().map(|window| window.start).collect();
            starts.sort_unstable();
            assert_eq!(starts, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
            let at = keyed.at(window(7, 67));
            assert_eq!(states[value].get(at)?, Some(&(n + 7)));
            assert!(states[list].get(at)?.eq([&(n + 7)]));
            assert_eq!(states[map].get(at, key.as_str())?, Some(&(n + 7)));
        }
    }
    Ok(())
}

fn elements(states: &mut KeyedStates<String>, list: Merged, at: Window) -> Vec<u8> {
    let key = "N14228".to_owned();
    let list = states[list].get(Keyed::new(&key).at(at)).unwrap();
    list.copied().collect()
}

type Merged = Handle<ListState<String, u8, Window>>;

/// F096: a merge adds up what stood in its sources, and leaves them empty.
#[test]
fn merging_namespaces_empties_the_sources() -> Result<()> {
    let (early, late, other) = (window(0, 20), window(10, 30), window(50, 60));
    let merged = window(0, 30);
    let mut states = states();
    let list: Merged = states.namespaced().list("list")?;
    let sum = states
        .namespaced::<Window>()
        .reducing("sum", |sum: &mut i64, n| *sum += n)?;
    let mean = states.namespaced::<Window>().aggregating("mean", Mean)?;
    let key = "N14228".to_owned();
    let keyed = Keyed::new(&key);
    for (n, window) in [(1, early), (2, late), (3, late), (4, other)] {
        states[list].append(keyed.at(window), n)?;
        states[sum].add(keyed.at(window), n.into())?;
        states[mean].add(keyed.at(window), n.into())?;
    }
    for from in [[early, late], [early, merged]] {
        // The second time there is nothing to merge, and one source is the target itself.
        states[list].merge(keyed, merged, from)?;
        states[sum].merge(keyed, merged, from)?;
        states[mean].merge(keyed, merged, from)?;
        assert_eq!(elements(&mut states, list, merged), [1, 2, 3]);
        assert_eq!(states[sum].get(keyed.at(merged))?, Some(&6));
        assert_eq!(states[mean].get(keyed.at(merged))?.as_deref(), Some("6/3"));
    }
    for window in [early, late] {
        assert!(elements(&mut states, list, window).is_empty());
        assert_eq!(states[sum].get(keyed.at(window))?, None);
        assert_eq!(states[mean].get(keyed.at(window))?, None);
    }
    states[list].merge(keyed, merged, [other])?;
    assert_eq!(
        elements(&mut states, list, merged),
        [1, 2, 3, 4],
        "the target's come first"
    );
    assert_eq!(states[sum].namespaces(keyed)?.len(), 2);
    Ok(())
}

/// B25, in a namespace too.
#[test]
fn a_foreign_key_is_refused_in_every_namespace() -> Result<()> {
    let mut states = KeyedStates::<String>::new("op", KeyGroupRange::new(0, 0), MAX);
    let sum = states
        .namespaced::<u8>()
        .reducing("sum", |sum: &mut i64, n| *sum += n)?;
    let key = "N14228".to_owned();
    let keyed = Keyed::new(&key);
    let error = states[sum].add(keyed.at(1), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongGroup);
    let error = states[sum].merge(keyed, 1, [2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongGroup);
    assert!(states[sum].namespaces(keyed).is_err());
    Ok(())
}
