//! Damaged snapshots: an error each time, never a panic, never other data.

mod common;

use std::{collections::BTreeMap, ops::Range};

use common::{MAX, Stored, all};
use cutwater_barrier::CheckpointId;
use cutwater_state::{Error, ErrorKind, Keyed, KeyedStates, OperatorStates, Restored, Result};

/// Few entries, in sections; and in images, of which one file is older than the other.
fn small() -> Result<[Stored; 2]> {
    let mut states = KeyedStates::<String>::new("op", all(), MAX);
    let value = states.value::<Option<String>>("v")?;
    let list = states.list::<u32>("l")?;
    let map = states.map::<u8, String>("m")?;
    for key in ["a", "b", "c", ""].map(str::to_owned) {
        let keyed = Keyed::new(&key);
        states[value].put(keyed, Some(key.repeat(3)))?;
        states[list].update(keyed, 0..3)?;
        states[map].put(keyed, 7, key.clone())?;
    }
    let [one, two, three] = [1, 2, 3].map(CheckpointId::new);
    let sections = Stored::by(states.snapshot_canonical(one));
    let mut files = BTreeMap::new();
    states.snapshot(two).run(&mut files).unwrap();
    states.confirmed(two);
    // In a group of its own, so that all of the older file counts: what does not is not read.
    states[list].append(Keyed::new(&"d".to_owned()), 3)?;
    let manifest = states.snapshot(three).run(&mut files).unwrap().manifest;
    assert_eq!(files.len(), 2);
    Ok([sections, Stored { manifest, files }])
}

fn read(stored: &Stored) -> Result<()> {
    let mut states = KeyedStates::<String>::restore("op", all(), MAX, [stored.restored()])?;
    states.value::<Option<String>>("v")?;
    states.list::<u32>("l")?;
    states.map::<u8, String>("m")?;
    Ok(())
}

/// Each byte changed in each of its bits and in all, and each shorter length.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flips = (0..8).map(|bit| 1 << bit).chain([0xff]);
    let flipped = flips.flat_map(move |flip: u8| {
        (0..bytes.len()).map(move |at| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= flip;
            bytes
        })
    });
    flipped.chain((0..bytes.len()).map(|length| bytes[..length].to_vec()))
}

fn check(result: Result<()>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_damaged_manifest_is_corrupt() -> Result<()> {
    for stored in small()? {
        read(&stored)?;
        for manifest in damaged(&stored.manifest) {
            check(read(&Stored {
                manifest,
                ..stored.clone()
            }));
        }
    }
    Ok(())
}

/// The first 8 bytes only name the format, for tools; a restore reads past them.
#[test]
fn a_damaged_file_is_corrupt() -> Result<()> {
    for stored in small()? {
        for (name, bytes) in &stored.files {
            for damaged in damaged(bytes).filter(|damaged| damaged.get(..8) == Some(&bytes[..8])) {
                let errors = errors_of(&stored, name, damaged);
                assert!(!errors.is_empty());
                for error in errors {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    assert!(
                        error.to_string().contains(name),
                        "`{name}` is not in: {error}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// What comes of restoring all states when `bytes` is what there is of the file `name`.
fn errors_of(stored: &Stored, name: &str, bytes: Vec<u8>) -> Vec<Error> {
    let mut files = stored.files.clone();
    files.insert(name.to_owned(), bytes);
    // A file that is too short answers as much as there is.
    let files = move |name: &str, range: Range<u64>| {
        let bytes = &files[name];
        let end = bytes.len().min(range.end as usize);
        Ok(bytes[end.min(range.start as usize)..end].to_vec())
    };
    let old = Restored::new(stored.manifest.clone(), files);
    let mut states = match KeyedStates::<String>::restore("op", all(), MAX, [old]) {
        Ok(states) => states,
        Err(error) => return vec![error],
    };
    let declared = [
        states.value::<Option<String>>("v").map(drop),
        states.list::<u32>("l").map(drop),
        states.map::<u8, String>("m").map(drop),
    ];
    declared.into_iter().filter_map(Result::err).collect()
}

#[test]
fn a_missing_file_is_an_io_error_that_names_it() -> Result<()> {
    for (mut stored, name) in small()?.into_iter().zip(["keyed-1-0", "keyed-2-0-0"]) {
        stored.files.clear();
        let error = read(&stored).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(name), "{error}");
    }
    Ok(())
}

#[test]
fn damaged_operator_state_is_corrupt() -> Result<()> {
    let mut states = OperatorStates::new("op");
    let list = states.list::<String>("l")?;
    states[list].extend(["a", "bb"].map(str::to_owned));
    let bytes = states.snapshot()?;
    for bytes in damaged(&bytes).filter(|bytes| !bytes.is_empty()) {
        check(OperatorStates::restore("op", 0, 1, [bytes]).map(drop));
    }
    Ok(())
}
