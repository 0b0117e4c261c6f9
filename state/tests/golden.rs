//! Bytes written by earlier releases decode for ever.
//!
//! `CUTWATER_BLESS=1` writes the files of the current version anew, which is right only before a
//! release, or together with a new version number.

mod common;

use std::{collections::BTreeMap, env, fs, path::PathBuf, time::Duration};

use common::{MAX, Stored, all, entries};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_state::{
    Backend, Keyed, KeyedStates, OperatorStates, Restored, Result, Timestamp, Ttl,
    testkit::SortedRows,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct Totals {
    flights: u64,
    miles: i64,
    last: Option<String>,
}

fn totals(key: u64) -> Totals {
    Totals {
        flights: key,
        miles: -100,
        last: (key > 1).then(|| "JFK".to_owned()),
    }
}

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(name)
}

/// What an earlier release wrote.
fn old(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

/// What this release writes, which is what it wrote before.
fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let path = path(name);
    if env::var_os("CUTWATER_BLESS").is_some() {
        fs::write(&path, written).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    assert!(
        bytes == written,
        "{name}: the format changed; give it a new version number"
    );
    bytes
}

fn restore(manifest: &[u8], file: &[u8], groups: KeyGroupRange) -> Result<KeyedStates<u64>> {
    let files = BTreeMap::from([("keyed-7-0".to_owned(), file.to_vec())]);
    let old = Restored::new(manifest, files);
    KeyedStates::<u64>::restore("fold", groups, MAX, [old])
}

/// What both versions have.
fn check_values_lists_and_maps(states: &mut KeyedStates<u64>) -> Result<usize> {
    let value = states.value::<Totals>("totals")?;
    let list = states.list::<u16>("recent")?;
    let map = states.map::<String, bool>("seen")?;
    for (key, restored) in entries(&mut states[value]) {
        let keyed = Keyed::new(&key);
        assert_eq!(restored, totals(key));
        assert!(states[list].get(keyed)?.eq(&[0, 1, 2]));
        assert_eq!(states[map].get(keyed, "a")?, Some(&true));
    }
    Ok(entries(&mut states[value]).len())
}

#[test]
fn keyed_state_of_version_1_decodes() -> Result<()> {
    let mut found = 0;
    for groups in [KeyGroupRange::new(0, 5), KeyGroupRange::new(5, 12)] {
        let mut states = restore(&old("v1/manifest"), &old("v1/keyed-7-0"), groups)?;
        found += check_values_lists_and_maps(&mut states)?;
        assert_eq!(states.undeclared(), ["empty"]);
    }
    assert_eq!(found, 5);

    // It did not record what keys are encoded like; those of another type are still noticed.
    let files = BTreeMap::from([("keyed-7-0".to_owned(), old("v1/keyed-7-0"))]);
    let text = Restored::new(old("v1/manifest"), files);
    let mut text = KeyedStates::<String>::restore("fold", all(), MAX, [text])?;
    let error = text.value::<Totals>("totals").unwrap_err();
    assert!(error.to_string().contains("of type `u64`"), "{error}");
    Ok(())
}

fn add(sum: &mut i64, n: i64) {
    *sum += n;
}

#[test]
fn keyed_state_of_version_2_decodes() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("fold", all(), MAX);
    let value = states.value::<Totals>("totals")?;
    let list = states.list::<u16>("recent")?;
    let map = states.map::<String, bool>("seen")?;
    states.value::<i64>("empty")?;
    let sum = states.reducing("sum", add)?;
    let by_hour = states
        .namespaced::<(u32, String)>()
        .value::<i64>("by-hour")?;
    for key in 0..5 {
        let keyed = Keyed::new(&key);
        states[value].put(keyed, totals(key))?;
        states[list].update(keyed, 0..3)?;
        states[map].put(keyed, "a".to_owned(), true)?;
        states[sum].add(keyed, -3)?;
        states[by_hour].put(keyed.at((9, "EWR".to_owned())), 40)?;
    }
    let written = Stored::by(states.snapshot_canonical(CheckpointId::new(7)));
    let manifest = golden("v2/manifest", &written.manifest);
    assert_eq!(written.files.len(), 1);
    let file = golden("v2/keyed-7-0", &written.files["keyed-7-0"]);

    let mut found = 0;
    for groups in [KeyGroupRange::new(0, 5), KeyGroupRange::new(5, 12)] {
        let mut states = restore(&manifest, &file, groups)?;
        found += check_values_lists_and_maps(&mut states)?;
        assert_eq!(states.undeclared(), ["by-hour", "empty", "sum"]);
        let sum = states.reducing("sum", add)?;
        let by_hour = states
            .namespaced::<(u32, String)>()
            .value::<i64>("by-hour")?;
        let mut sums = Vec::new();
        states[sum].for_each(|key, sum| sums.push((*key, *sum)))?;
        for (key, sum) in sums {
            assert_eq!(sum, -3);
            let at = Keyed::new(&key).at((9, "EWR".to_owned()));
            assert_eq!(states[by_hour].get(at)?, Some(&40));
        }
    }
    assert_eq!(found, 5);
    Ok(())
}

/// Elements with stamps, and timers.
#[test]
fn expiring_state_and_timers_of_version_2_decode() -> Result<()> {
    let at = Timestamp::from_millis;
    let week = Ttl::new(Duration::from_secs(7 * 24 * 3600));
    let mut states = KeyedStates::<u64>::new("fold", all(), MAX);
    states.set_time(at(1_700_000_000_000));
    let value = states.expiring(week)?.value::<Totals>("totals")?;
    let list = states.expiring(week)?.list::<u16>("recent")?;
    let map = states.expiring(week)?.map::<String, bool>("seen")?;
    let timers = states.namespaced::<u8>().timers("timers")?;
    for key in 0..5 {
        let keyed = Keyed::new(&key);
        states[value].put(keyed, totals(key))?;
        states[list].update(keyed, 0..3)?;
        states[map].put(keyed, "a".to_owned(), true)?;
        states[timers].set(keyed.at(1), at(-7))?;
    }
    let written = Stored::by(states.snapshot_canonical(CheckpointId::new(7)));
    let manifest = golden("v2/expiring-manifest", &written.manifest);
    let file = golden("v2/expiring-keyed-7-0", &written.files["keyed-7-0"]);

    let mut states = restore(&manifest, &file, all())?;
    states.set_time(at(1_700_000_000_000 + 7 * 24 * 3_600_000 - 1));
    let value = states.expiring(week)?.value::<Totals>("totals")?;
    let list = states.expiring(week)?.list::<u16>("recent")?;
    let map = states.expiring(week)?.map::<String, bool>("seen")?;
    let timers = states.namespaced::<u8>().timers("timers")?;
    for key in 0..5 {
        let keyed = Keyed::new(&key);
        assert_eq!(states[value].get(keyed)?, Some(&totals(key)));
        assert!(states[list].get(keyed)?.eq(&[0, 1, 2]));
        assert_eq!(states[map].get(keyed, "a")?, Some(&true));
        assert!(states[timers].is_set(keyed.at(1), at(-7))?);
    }
    states.set_time(at(1_700_000_000_000 + 7 * 24 * 3_600_000));
    assert_eq!(states[value].get(Keyed::new(&3))?, None);
    Ok(())
}

/// Images in two files, some of which the newer one outdates.
#[test]
fn an_incremental_snapshot_of_version_2_decodes() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("fold", all(), MAX);
    let value = states.value::<Totals>("totals")?;
    let list = states.list::<u16>("recent")?;
    for key in 0..20 {
        states[value].put(Keyed::new(&key), totals(99))?;
        states[list].update(Keyed::new(&key), 0..3)?;
    }
    let mut files = BTreeMap::new();
    let (base, next) = (CheckpointId::new(7), CheckpointId::new(8));
    states.snapshot(base).run(&mut files)?;
    states.confirmed(base);
    for key in 0..3 {
        states[list].clear(Keyed::new(&key))?;
        states[value].put(Keyed::new(&key), totals(key))?;
    }
    let written = states.snapshot(next).run(&mut files)?;
    assert_eq!(written.files, ["keyed-7-0-0", "keyed-8-0-0"]);
    let manifest = golden("v2/incremental/manifest", &written.manifest);
    let files = written.files.iter().map(|name| {
        let bytes = golden(&format!("v2/incremental/{name}"), &files[name]);
        (name.clone(), bytes)
    });
    let old = Restored::new(manifest, files.collect::<BTreeMap<_, _>>());
    let mut states = KeyedStates::<u64>::restore("fold", all(), MAX, [old])?;
    let value = states.value::<Totals>("totals")?;
    let list = states.list::<u16>("recent")?;
    for key in 0..20 {
        let expected = totals(if key < 3 { key } else { 99 });
        assert_eq!(states.get(value, Keyed::new(&key))?, Some(&expected));
    }
    let mut lists = 0;
    states[list].for_each(|_, _| lists += 1)?;
    assert_eq!(lists, 17);
    Ok(())
}

#[test]
fn operator_state_of_version_1_decodes() -> Result<()> {
    let mut states = OperatorStates::new("source");
    let list = states.list::<(String, u64)>("positions")?;
    let union = states.union::<u8>("all")?;
    let rules = states.broadcast::<u32, String>("rules")?;
    states[list].push(("ewr.csv".to_owned(), 300));
    states[union].extend([1_u8, 2]);
    states[rules].insert(1, "drop".to_owned());
    let written = states.snapshot()?;
    let bytes = golden("v1/operator", &written);

    let mut states = OperatorStates::restore("source", 0, 1, [bytes])?;
    let list = states.list::<(String, u64)>("positions")?;
    let union = states.union::<u8>("all")?;
    let rules = states.broadcast::<u32, String>("rules")?;
    assert_eq!(states[list], [("ewr.csv".to_owned(), 300)]);
    assert_eq!(states[union], [1, 2]);
    assert_eq!(states[rules][&1], "drop");
    Ok(())
}

/// A newer version is refused as such; it is not corrupt.
#[test]
fn a_newer_version_is_incompatible() -> Result<()> {
    let mut states = KeyedStates::<u64>::new("fold", all(), MAX);
    let mut stored = Stored::of(&mut states);
    let end = stored.manifest.len() - 4;
    stored.manifest[7] = 3;
    let crc = crc32c::crc32c(&stored.manifest[..end]);
    stored.manifest[end..].copy_from_slice(&crc.to_le_bytes());
    let error = KeyedStates::<u64>::restore("fold", all(), MAX, [stored.restored()]).unwrap_err();
    assert_eq!(error.kind(), cutwater_state::ErrorKind::Incompatible);
    assert!(
        error
            .to_string()
            .contains("format version 3, and this release reads 2"),
        "{error}"
    );
    Ok(())
}

/// The manifest of a snapshot of rows, and the rows, as the test kit's backend has them.
#[test]
fn rows_of_version_1_decode() -> Result<()> {
    let backend = Backend::rows(SortedRows::new(1 << 20));
    let mut states = KeyedStates::<u64>::open(&backend, "fold", all(), MAX, [])?;
    let value = states.value::<Totals>("totals")?;
    let list = states.list::<u16>("recent")?;
    let map = states.map::<String, bool>("seen")?;
    for key in 0..5 {
        let keyed = Keyed::new(&key);
        states[value].put(keyed, totals(key))?;
        states[list].update(keyed, 0..3)?;
        states[map].put(keyed, "a".to_owned(), true)?;
    }
    let written = Stored::by(states.snapshot(CheckpointId::new(7)));
    let manifest = golden("rows-v1/manifest", &written.manifest);
    let file = golden("rows-v1/rows-0", &written.files["rows-0"]);

    let mut found = 0;
    for groups in [KeyGroupRange::new(0, 5), KeyGroupRange::new(5, 12)] {
        let files = BTreeMap::from([("rows-0".to_owned(), file.clone())]);
        let old = Restored::new(&manifest, files);
        let mut states = KeyedStates::<u64>::open(&backend, "fold", groups, MAX, [old])?;
        found += check_values_lists_and_maps(&mut states)?;
    }
    assert_eq!(found, 5);
    Ok(())
}
