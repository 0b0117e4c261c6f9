//! State in RocksDB: the exam, files that are shared, and what may go wrong with a disk.
#![cfg(feature = "rocksdb")]

mod common;

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{MAX, Stored, Value, all, entries, open};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_state::{
    Backend, BoxError, Error, ErrorKind, Keyed, KeyedStates, NewFile, ReadFiles, Restored, Result,
    Snapshot, SnapshotTask, Store, Timestamp, Ttl,
    rocksdb::{Compression, RocksDb, RocksOptions},
    testkit,
};
use tempfile::TempDir;

fn options(memory: u64) -> RocksOptions {
    let mut options = RocksOptions::default();
    options.memory = memory;
    options.file_size = 64 << 10; // so that there are several
    options
}

/// A backend in a folder of its own, with memory for next to no rows.
fn backend() -> (Backend, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let rocksdb = RocksDb::new(folder.path(), options(100_000)).unwrap();
    (Backend::rows(rocksdb), folder)
}

fn put(
    states: &mut KeyedStates<u64>,
    value: Value,
    keys: impl IntoIterator<Item = u64>,
    text: &str,
) {
    for key in keys {
        // Long enough for some files, and not all alike.
        let text = format!("{text} {key:0100}");
        states[value].put(Keyed::new(&key), text).unwrap();
    }
}

fn contents(states: &mut KeyedStates<u64>, value: Value) -> BTreeMap<u64, String> {
    entries(&mut states[value]).into_iter().collect()
}

const fn checkpoint(n: u64) -> CheckpointId {
    CheckpointId::new(n)
}

/// F101, F105, F108 with one database and with several side by side.
#[test]
fn it_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut databases_max = 0;
    testkit::byte_backend_conforms(|memory| {
        let mut options = options(memory);
        databases_max = databases_max % 4 + 1;
        options.databases_max = databases_max;
        options.compression = Compression::None;
        RocksDb::new(folder.path(), options).unwrap()
    });
}

/// What was stored and what was named again.
#[derive(Default)]
struct Kept {
    files: BTreeMap<String, Vec<u8>>,
    stored: Vec<String>,
    reused: Vec<String>,
}

impl Kept {
    fn run(&mut self, task: SnapshotTask) -> Result<Snapshot> {
        (self.stored, self.reused) = (Vec::new(), Vec::new());
        task.run(self)
    }

    fn restored(&self, snapshot: &Snapshot) -> Restored {
        let files = snapshot.files.iter();
        let files: BTreeMap<_, _> = files
            .map(|name| (name.clone(), self.files[name].clone()))
            .collect();
        Restored::new(snapshot.manifest.clone(), files)
    }

    fn sorted_files(names: &[String]) -> usize {
        names.iter().filter(|name| name.ends_with(".sst")).count()
    }
}

impl Store for Kept {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        let bytes = file.content.into_bytes()?;
        if let Some(before) = self.files.insert(file.name.clone(), bytes.clone()) {
            assert!(before == bytes, "`{}` names two files", file.name);
        }
        self.stored.push(file.name);
        Ok(())
    }

    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        self.reused.push(name.to_owned());
        Ok(true)
    }
}

/// F107, B28: files of a confirmed snapshot are named again, those of an unconfirmed or aborted one are
/// stored again, and a restored subtask goes on from what it was restored from.
#[test]
fn only_files_of_confirmed_snapshots_are_named_again() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(100_000);
    options.level_zero_files = 200; // so that no compaction rewrites some in between, as it may
    let backend = Backend::rows(RocksDb::new(folder.path(), options).unwrap());
    let (mut states, value) = open(&backend, []);
    let mut kept = Kept::default();
    put(&mut states, value, 0..5000, "first");
    let first = kept.run(states.snapshot(checkpoint(1)))?;
    assert!(kept.reused.is_empty());
    assert_eq!(first.bytes_new, first.bytes_full);

    let second = kept.run(states.snapshot(checkpoint(2)))?;
    assert!(kept.reused.is_empty(), "1 is not confirmed");
    assert_eq!(second.bytes_new, second.bytes_full);
    states.aborted(checkpoint(2));
    states.confirmed(checkpoint(1));

    put(&mut states, value, 0..50, "third");
    let third = kept.run(states.snapshot(checkpoint(3)))?;
    assert!(Kept::sorted_files(&kept.reused) > 0);
    assert!(third.bytes_new < third.bytes_full / 2, "{third:?}");
    states.confirmed(checkpoint(3));

    let (mut states, value) = open(&backend, [kept.restored(&third)]);
    assert!(
        states
            .get(value, Keyed::new(&7))?
            .unwrap()
            .starts_with("third")
    );
    assert!(
        states
            .get(value, Keyed::new(&4000))?
            .unwrap()
            .starts_with("first")
    );
    let fourth = kept.run(states.snapshot(checkpoint(4)))?;
    assert_eq!(Kept::sorted_files(&kept.stored), 0, "all are those of 3");
    assert!(fourth.bytes_new < fourth.bytes_full / 10);
    Ok(())
}

/// B31, B32: back to an older state, and on with other data: RocksDB numbers its files as it did before, and
/// they are other files.
#[test]
fn a_file_number_that_comes_again_names_another_file() -> Result<()> {
    let (backend, _folder) = backend();
    let mut kept = Kept::default();
    for text in ["one", "two", "three"] {
        let (mut states, value) = open(&backend, []);
        put(&mut states, value, 0..2000, text);
        // `Kept` refuses a name that had other bytes.
        let snapshot = kept.run(states.snapshot(checkpoint(1)))?;
        states.confirmed(checkpoint(1));
        let (mut states, value) = open(&backend, [kept.restored(&snapshot)]);
        put(&mut states, value, 0..2000, &format!("{text} again"));
        kept.run(states.snapshot(checkpoint(2)))?;
    }
    Ok(())
}

/// B34: what was written before a snapshot is in it, however many flushes and compactions there are.
#[test]
fn a_snapshot_has_the_last_write_before_it() -> Result<()> {
    let (backend, _folder) = backend();
    let (mut states, value) = open(&backend, []);
    for round in 1..=60 {
        states[value].put(Keyed::new(&1), round.to_string())?;
        put(&mut states, value, round * 100..round * 100 + 200, "other");
        let old = Stored::by(states.snapshot(checkpoint(round))).restored();
        let (mut copy, value) = open(&backend, [old]);
        assert_eq!(copy.get(value, Keyed::new(&1))?, Some(&round.to_string()));
    }
    Ok(())
}

/// F114: a compaction drops the rows that have expired.
#[test]
fn a_compaction_drops_what_has_expired() -> Result<()> {
    let (backend, _folder) = backend();
    let mut states = KeyedStates::<u64>::open(&backend, "op", all(), MAX, [])?;
    states.set_time(Timestamp::from_millis(0));
    let ttl = Ttl::new(Duration::from_millis(10)).showing_expired();
    let value = states.expiring(ttl)?.value::<String>("v")?;
    let put = |states: &mut KeyedStates<u64>, keys: Range<u64>| {
        for key in keys {
            let text = format!("{key:0100}");
            states[value].put(Keyed::new(&key), text).unwrap();
        }
    };
    put(&mut states, 0..2000);
    Stored::by(states.snapshot(checkpoint(1)));
    states.set_time(Timestamp::from_millis(10));
    for round in 0..200 {
        // Over the same rows, so that there is something to compact.
        put(&mut states, 1000..3000);
        Stored::by(states.snapshot(checkpoint(2 + round)));
        let mut there = Vec::new();
        states[value].for_each(|key, _| there.push(*key))?;
        there.sort_unstable();
        assert!(there.ends_with(&(1000..3000).collect::<Vec<_>>()));
        if there.len() == 2000 {
            return Ok(());
        }
    }
    panic!("no compaction has dropped them");
}

/// F106, F108: two old subtasks into three new ones, by their files.
#[test]
fn a_rescale_puts_old_databases_side_by_side() -> Result<()> {
    let (backend, _folder) = backend();
    let mut old = Vec::new();
    for (start, end) in [(0, 6), (6, 12)] {
        let groups = KeyGroupRange::new(start, end);
        let mut states = KeyedStates::<u64>::open(&backend, "op", groups, MAX, [])?;
        let value = states.value::<String>("v")?;
        for key in 0..5000 {
            let _of_the_other = states[value].put(Keyed::new(&key), key.to_string());
        }
        old.push(Stored::by(states.snapshot(checkpoint(1))).restored());
    }
    let mut found = Vec::new();
    for (start, end) in [(0, 4), (4, 8), (8, 12)] {
        let groups = KeyGroupRange::new(start, end);
        let mut states = KeyedStates::<u64>::open(&backend, "op", groups, MAX, old.clone())?;
        let value = states.value::<String>("v")?;
        found.extend(entries(&mut states[value]));
    }
    found.sort();
    let expected: Vec<_> = (0..5000).map(|key| (key, key.to_string())).collect();
    assert_eq!(found, expected);
    Ok(())
}

/// SPEC 3.6: a subtask that takes over a few key groups does not read the files that have none of them.
#[test]
fn a_rescale_reads_the_files_of_its_key_groups_only() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(64 << 20);
    options.compression = Compression::None;
    let backend = Backend::rows(RocksDb::new(folder.path(), options).unwrap());
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..10_000, "old");
    Stored::of(&mut states); // in sorted files that do not overlap
    put(&mut states, value, 0..100, "new"); // in one on top, which everybody reads
    let all = contents(&mut states, value);
    let stored = Stored::of(&mut states);
    let bytes: usize = stored.files.values().map(Vec::len).sum();
    let mut found = BTreeMap::new();
    for (start, end) in [(0, 2), (2, 10), (10, 12)] {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = {
            let (files, read) = (stored.files.clone(), Arc::clone(&read));
            move |name: &str, range: Range<u64>| {
                let bytes = files.read(name, range)?;
                read.fetch_add(bytes.len(), Ordering::Relaxed);
                Ok(bytes)
            }
        };
        let groups = KeyGroupRange::new(start, end);
        let old = Restored::new(&stored.manifest, counted);
        let mut states = KeyedStates::<u64>::open(&backend, "op", groups, MAX, [old])?;
        let value = states.value::<String>("v")?;
        let share = bytes * usize::from(end - start) / 12;
        let read = read.load(Ordering::Relaxed);
        // A file at either end that has other rows too, of some 20, the one on top, and the list of files.
        assert!(
            read < share + bytes / 6,
            "{read} bytes of {bytes}, and {share} are of {groups:?}"
        );
        found.extend(contents(&mut states, value));
    }
    assert_eq!(found, all);
    Ok(())
}

/// A damaged file is found, named as corrupt, and leaves nothing open or lying about (F109); the
/// snapshot itself is still good.
#[test]
fn a_corrupt_file_is_refused_and_leaves_nothing_behind() -> Result<()> {
    let (backend, folder) = backend();
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..5000, "text");
    let mut kept = Kept::default();
    let snapshot = kept.run(states.snapshot(checkpoint(1)))?;
    drop(states);
    let sorted = snapshot
        .files
        .iter()
        .find(|name| name.ends_with(".sst"))
        .unwrap();
    let manifest = snapshot
        .files
        .iter()
        .find(|name| name.contains("manifest"))
        .unwrap();
    for (name, damage) in [
        (sorted, Damage::Flip),
        (sorted, Damage::Cut),
        (manifest, Damage::Flip),
        (manifest, Damage::Cut),
        (sorted, Damage::Lose),
    ] {
        let mut files: BTreeMap<_, _> = snapshot
            .files
            .iter()
            .map(|n| (n.clone(), kept.files[n].clone()))
            .collect();
        let file = files.get_mut(name).unwrap();
        match damage {
            Damage::Flip => file
                .iter_mut()
                .skip(20)
                .step_by(50)
                .for_each(|byte| *byte ^= 0x55),
            Damage::Cut => file.truncate(file.len() / 2),
            Damage::Lose => drop(files.remove(name)),
        }
        let old = Restored::new(snapshot.manifest.clone(), files);
        let error = read_all(&backend, old).unwrap_err();
        let expected = match damage {
            Damage::Flip => ErrorKind::Corrupt,
            Damage::Cut | Damage::Lose => ErrorKind::Io, // the files cannot be read as far as they should
        };
        assert_eq!(
            error.kind(),
            expected,
            "{damage:?} of {name}: {}",
            chain(&error)
        );
        assert!(chain(&error).contains("op"), "{}", chain(&error));
    }
    assert_eq!(stores_in(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(read_all(&backend, kept.restored(&snapshot))?, 5000);
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    Lose,
}

fn read_all(backend: &Backend, old: Restored) -> Result<usize> {
    let mut states = KeyedStates::<u64>::open(backend, "op", all(), MAX, [old])?;
    let value = states.value::<String>("v")?;
    let mut count = 0;
    states[value].for_each(|_, _| count += 1)?;
    Ok(count)
}

fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        line += &format!(": {cause}");
        source = cause.source();
    }
    line
}

/// What there is of stores in the folders of processes.
fn stores_in(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let inside = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let inside = inside.map(|entry| entry.unwrap().path());
    inside
        .filter(|path| path.file_name().unwrap() != "lock")
        .collect()
}

/// F109: a store that is dropped closes its database and is gone, while a snapshot of it is still being written.
#[test]
fn a_store_is_gone_when_nobody_needs_it_any_more() -> Result<()> {
    let (backend, folder) = backend();
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..1000, "text");
    let task = states.snapshot(checkpoint(1));
    assert_eq!(stores_in(folder.path()).len(), 1);
    drop(states);
    let stored = Stored::by(task);
    assert_eq!(stores_in(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(read_all(&backend, stored.restored())?, 1000);
    Ok(())
}

/// A process that was killed leaves its folder; the next one removes it, and not that of one that is alive.
#[test]
fn folders_of_killed_processes_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path().join("cutwater-0123456789abcdef");
    fs::create_dir_all(killed.join("op-0/db-0")).unwrap();
    File::create(killed.join("lock")).unwrap(); // that nobody holds
    let alive = RocksDb::new(folder.path(), options(1 << 20)).unwrap();
    assert!(!killed.exists());
    let alive = Backend::rows(alive);
    let (mut states, value) = open(&alive, []);
    put(&mut states, value, 0..5000, "text");
    let _another = RocksDb::new(folder.path(), options(1 << 20)).unwrap();
    assert_eq!(contents(&mut states, value).len(), 5000);
}

/// Disk full: a clear error, nothing lost, and the last checkpoint intact. On a disk that is small indeed if
/// there is one (`CUTWATER_SMALL_DISK`), and else on one that is gone.
#[test]
fn a_full_disk_fails_the_snapshot_and_nothing_else() -> Result<()> {
    let small = env::var_os("CUTWATER_SMALL_DISK").map(PathBuf::from);
    let own = tempfile::tempdir().unwrap();
    let folder = small.clone().unwrap_or_else(|| own.path().to_owned());
    let backend = Backend::rows(RocksDb::new(&folder, options(64 << 20)).unwrap());
    let (mut states, value) = open(&backend, []);
    put(&mut states, value, 0..500, "before");
    let before = Stored::by(states.snapshot(checkpoint(1)));
    for key in 0..40_000 {
        let text = format!(
            "after {key} {:x}",
            u128::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        );
        states[value].put(Keyed::new(&key), text)?;
    }
    if small.is_none() {
        fs::remove_dir_all(stores_in(&folder).pop().unwrap()).unwrap();
    }
    let error = states
        .snapshot(checkpoint(2))
        .run(&mut BTreeMap::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{}", chain(&error));
    assert!(chain(&error).contains("IO error"), "{}", chain(&error));
    let after = states.get(value, Keyed::new(&39_999))?;
    assert!(after.is_some_and(|after| after.starts_with("after")));
    drop(states);
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Backend::rows(RocksDb::new(elsewhere.path(), options(1 << 20)).unwrap());
    assert_eq!(read_all(&elsewhere, before.restored())?, 500);
    Ok(())
}

/// Options that RocksDB does not know are refused when a store is opened.
#[test]
fn other_options_are_handed_on_and_unknown_ones_refused() {
    for (name, is_known) in [
        ("level0_file_num_compaction_trigger", true),
        ("no_such_option", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(1 << 20);
        options.other = vec![(name.to_owned(), "7".to_owned())];
        let backend = Backend::rows(RocksDb::new(folder.path(), options).unwrap());
        let opened = KeyedStates::<u64>::open(&backend, "op", all(), MAX, []);
        assert_eq!(opened.is_ok(), is_known, "{name}");
        drop(opened);
        assert_eq!(stores_in(folder.path()), Vec::<PathBuf>::new());
    }
}
