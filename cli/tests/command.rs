//! The command on a directory made with the library.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Kind};
use cutwater_keygroups::{Assignment, Grouping, MaxParallelism};
use cutwater_storage::{
    CheckpointStore, KeyedHandle, LocalBlobs, Metadata, Operator, Options, Subtask, Term,
};
use tempfile::TempDir;

/// Two checkpoints, of which the first is committed, with one small and one large file each.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    futures::executor::block_on(async {
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        let mut store = CheckpointStore::open(blobs, Options::default())
            .await
            .unwrap();
        let term = store.take_over().await.unwrap();
        let ids = [term.first, term.first.next()];
        for id in ids {
            let metadata = metadata(&store, term, id).await;
            store.complete(&metadata).await.unwrap();
        }
        store.committed(ids[0]).await.unwrap();
    });
    directory
}

async fn metadata(store: &CheckpointStore, term: Term, id: CheckpointId) -> Metadata {
    let max_parallelism = MaxParallelism::new(128).unwrap();
    let assignment = Assignment::contiguous(2, max_parallelism).unwrap();
    let mut operator = Operator::keyed("running totals", &assignment, Grouping::Xxh64);
    for index in 0..2 {
        let mut files = Vec::new();
        for (name, length) in [("small", 10), ("large", 100_000)] {
            let bytes = vec![b'x'; length];
            let state_files = store.files().unwrap();
            let file = state_files.store(id, "totals", index, name, bytes).await;
            files.push(file.unwrap());
        }
        let mut subtask = Subtask::default();
        let groups = assignment.range(index).into_iter().collect();
        subtask
            .keyed
            .push(KeyedHandle::new(groups, "manifest", files));
        subtask.statistics.alignment = Duration::from_micros(1500 * u64::from(index));
        operator.subtasks.push(subtask);
    }
    let mut metadata = Metadata::new("bank", id, term.generation, Kind::Checkpoint);
    metadata.triggered_at_unix_ms = 1_795_981_557_123;
    metadata.duration = Duration::from_millis(12);
    metadata.operators.insert("totals".to_owned(), operator);
    metadata
}

fn cutwater(arguments: &[&str], directory: &Path) -> Output {
    let (command, rest) = arguments.split_first().unwrap();
    Command::new(env!("CARGO_BIN_EXE_cutwater"))
        .arg(command)
        .arg(directory)
        .args(rest)
        .output()
        .unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str], directory: &Path) -> String {
    let output = cutwater(arguments, directory);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(arguments: &[&str], directory: &Path) -> String {
    let output = cutwater(arguments, directory);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[track_caller]
fn contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn list_shows_every_checkpoint_and_what_is_pending() {
    let directory = directory();
    let text = succeeds(&["list"], directory.path());
    contains_all(
        &text,
        &[
            "committed",
            "pending",
            "2026-11-29 19:45:57.123Z",
            "12.0 ms",
            "195",
        ],
    );
    let json = succeeds(&["list", "--json"], directory.path());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["checkpoint"], 1);
    assert_eq!(json[0]["committed"], true);
    assert_eq!(json[1]["committed"], false);
    assert_eq!(json[1]["duration_us"], 12_000);
}

#[test]
fn inspect_shows_sizes_and_which_part_was_slow() {
    let directory = directory();
    let text = succeeds(&["inspect", "--files"], directory.path());
    contains_all(
        &text,
        &[
            "checkpoint 2 of job \"bank\"",
            "running totals",
            "0–63",
            "64–127",
            "97.6",
            "(within the metadata)",
            "chk-2/totals.1.large.",
            "Slowest: aligning barriers, 1.5 ms, in subtask 1 of totals.",
        ],
    );
    contains_all(
        &succeeds(&["inspect", "1"], directory.path()),
        &["checkpoint 1 of job"],
    );
    let json = succeeds(&["inspect", "1", "--json"], directory.path());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["operators"][0]["subtasks"][1]["alignment_us"], 1500);
    assert_eq!(json["operators"][0]["subtasks"][1]["keyed_bytes"], 100_018);
}

/// B49: a missing checkpoint or directory is an error that says what there is.
#[test]
fn what_is_not_there_is_named() {
    let directory = directory();
    contains_all(
        &fails(&["inspect", "7"], directory.path()),
        &["checkpoint 7", "not found", "1, 2"],
    );
    contains_all(
        &fails(&["list"], &directory.path().join("nowhere")),
        &["nowhere", "no such directory"],
    );
    let empty = tempfile::tempdir().unwrap();
    contains_all(
        &succeeds(&["list"], empty.path()),
        &["No completed checkpoint"],
    );
    contains_all(&succeeds(&["verify"], empty.path()), &["0 checkpoints"]);
    assert_eq!(
        files_below(empty.path()),
        Vec::<PathBuf>::new(),
        "nothing was written"
    );
}

/// B63, and the "first, a middle or its last byte flipped in any referenced object".
#[test]
fn verify_names_any_object_of_which_a_byte_is_flipped() {
    let directory = directory();
    let before = files_below(directory.path());
    contains_all(
        &succeeds(&["verify"], directory.path()),
        &["2 checkpoints", "everything is intact"],
    );
    assert_eq!(
        files_below(directory.path()),
        before,
        "nothing was written or deleted"
    );
    assert_eq!(
        before.len(),
        2 * 3 + 4,
        "two large files and metadata each, four log entries"
    );
    for path in &before {
        let intact = fs::read(path).unwrap();
        let name = path
            .strip_prefix(directory.path())
            .unwrap()
            .to_str()
            .unwrap();
        for at in [0, intact.len() / 2, intact.len() - 1] {
            let mut flipped = intact.clone();
            flipped[at] ^= 0x10;
            fs::write(path, flipped).unwrap();
            contains_all(&fails(&["verify"], directory.path()), &[name, "at byte"]);
        }
        fs::write(path, [&intact[..], b"x"].concat()).unwrap();
        contains_all(&fails(&["verify"], directory.path()), &[name, "at byte"]);
        fs::remove_file(path).unwrap();
        // The oldest entry is not needed any more, and without the newest a log is a shorter log.
        if !name.ends_with("0001") && !name.ends_with("0004") {
            contains_all(&fails(&["verify"], directory.path()), &[name, "missing"]);
        }
        fs::write(path, intact).unwrap();
    }
    succeeds(&["verify"], directory.path());
}

/// SPEC 4.5: an index that is missing with data present is an error, not an empty directory.
#[test]
fn checkpoints_without_a_log_are_refused() {
    let directory = directory();
    fs::remove_dir_all(directory.path().join("log")).unwrap();
    for command in ["list", "inspect", "verify"] {
        contains_all(
            &fails(&[command], directory.path()),
            &["log", "missing", "backup"],
        );
    }
}

#[test]
fn a_damaged_checkpoint_does_not_hide_the_others_in_a_list() {
    let directory = directory();
    fs::write(directory.path().join("chk-2/_metadata-g1"), "rubbish").unwrap();
    let text = succeeds(&["list"], directory.path());
    contains_all(&text, &["committed", "_metadata-g1"]);
}
