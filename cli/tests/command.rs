//! The command on a directory made with the library.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use cutwater_barrier::{
    CheckpointId, Coordinator, Generation, Kind, Mode, Time,
    coordinate::{Attempt, Config, Effect, Event, Plan},
    stats::TaskStats,
};
use cutwater_keygroups::{Assignment, Grouping, MaxParallelism};
use cutwater_storage::{
    CheckpointStore, InFlight, KeyedHandle, LocalBlobs, Metadata, Operator, Options, Subtask,
    TaskReport, Term,
};
use tempfile::TempDir;

/// The store in a new directory, taken over.
async fn led(directory: &Path) -> (CheckpointStore, Term) {
    let blobs = LocalBlobs::open(directory).unwrap();
    let mut store = CheckpointStore::open(blobs, Options::default())
        .await
        .unwrap();
    let term = store.take_over().await.unwrap();
    (store, term)
}

/// Two checkpoints, of which the first is committed, with one small and one large file each.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    futures::executor::block_on(async {
        let (mut store, term) = led(directory.path()).await;
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
            "Slowest: aligning barriers, 1.5 ms, in totals (1).",
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

/// A checkpoint whose barriers overtook records, and what it cost each of its three tasks.
fn overtaking() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    futures::executor::block_on(async {
        let (mut store, term) = led(directory.path()).await;
        let mut metadata = metadata(&store, term, term.first).await;
        metadata.mode = Mode::AlignedFor(Duration::from_secs(30));
        let files = store.files().unwrap();
        let mut in_flight = files.channel_state(term.first, "totals", 1);
        in_flight.channel(InFlight::new("lines→totals", "(String, u64)", 0, 1, 4000));
        in_flight.write(vec![b'x'; 20_000]).await.unwrap();
        in_flight.channel(InFlight::new("rules→totals", "Rule", 3, 1, 2));
        in_flight.write("two rules").await.unwrap();
        metadata.channels.extend(in_flight.finish().await.unwrap());
        metadata.tasks = three_tasks();
        store.complete(&metadata).await.unwrap();
    });
    directory
}

/// As a coordinator decides them: its acknowledgements carry what each task measured.
fn three_tasks() -> Vec<TaskReport> {
    let mut plan = Plan::new();
    let source = plan.task([]);
    let totals = [plan.task([source]), plan.task([source])];
    let attempt = Attempt::new(Generation::new(1), CheckpointId::new(1));
    let mut coordinator = Coordinator::new(Config::every(Duration::from_millis(1)), plan, attempt);
    let mut handle = |millis, event| {
        let now = Time::from_millis(millis);
        coordinator.handle(now, event).unwrap();
        std::iter::from_fn(|| coordinator.poll()).collect::<Vec<_>>()
    };
    for task in [source, totals[0], totals[1]] {
        handle(0, Event::Running { task });
    }
    handle(1, Event::Woke);
    let mut decision = None;
    for (task, at, [delay, alignment, sync, write], in_flight) in [
        (source, 4, [0, 0, 1, 2], 0),
        (totals[0], 9, [3, 1, 1, 3], 0),
        (totals[1], 41, [4, 30, 2, 4], 20_009),
    ] {
        let mut stats = TaskStats::default();
        stats.start_delay = Duration::from_millis(delay);
        stats.alignment = Duration::from_millis(alignment);
        stats.sync = Duration::from_millis(sync);
        stats.async_ = Duration::from_millis(write);
        stats.bytes_in_flight = in_flight;
        stats.bytes_during_alignment = 10 * alignment;
        stats.bytes_written = 100_000;
        stats.bytes_full = 1_000_000;
        let (generation, checkpoint, part) = (Generation::new(1), CheckpointId::new(1), ());
        let acked = Event::Acked {
            generation,
            checkpoint,
            task,
            part,
            stats,
        };
        decision = handle(at, acked)
            .into_iter()
            .find_map(|effect| match effect {
                Effect::Decide(decision) => Some(decision),
                _ => None,
            });
    }
    let names = ["lines (0)", "totals (0)", "totals (1)"];
    let decision = decision.expect("all have acknowledged");
    Metadata::decided("bank", &decision, |task| names[task.0].to_owned()).tasks
}

/// SPEC 2.10: which part was slow, and in which task.
#[test]
fn inspect_shows_what_a_checkpoint_cost_each_task() {
    let directory = overtaking();
    let text = succeeds(&["inspect"], directory.path());
    let line = |start: &str| {
        let lines = text.lines().filter(|line| line.contains(start));
        let words = lines.map(|line| line.replace(['│', '┆'], " "));
        let words = words.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        words.collect::<Vec<_>>().join("\n")
    };
    contains_all(
        &text,
        &[
            "took 12.0 ms, aligned up to 30.00 s;",
            "░ start delay  ▒ alignment  ▓ sync  █ async",
            "Slowest: aligning barriers, 30.0 ms, in totals (1).",
        ],
    );
    contains_all(
        &line("start delay"),
        &["start delay 0 3.0 ms 4.0 ms totals (1)"],
    );
    contains_all(
        &line("alignment"),
        &["alignment 0 1.0 ms 30.0 ms totals (1)"],
    );
    contains_all(&line("sync"), &["sync 1.0 ms 1.0 ms 2.0 ms totals (1)"]);
    contains_all(&line("async"), &["async 2.0 ms 3.0 ms 4.0 ms totals (1)"]);
    let acknowledged = "acknowledged after 3.0 ms 8.0 ms 40.0 ms totals (1)";
    contains_all(&line("acknowledged after"), &[acknowledged]);
    contains_all(
        &line("in flight"),
        &["in flight 0 B 0 B 19.54 KiB totals (1)"],
    );
    contains_all(
        &line("delta"),
        &["delta 97.66 KiB 97.66 KiB 97.66 KiB lines (0)"],
    );
    contains_all(&line("lines (0)"), &["1.0 ms 2.0 ms 0 B"]);
    let bar = format!("{}{}▓▓{}", "░".repeat(3), "▒".repeat(24), "█".repeat(3));
    contains_all(&line("totals (1)"), &[&bar]);
    contains_all(&line("lines→totals"), &["0 1 4000 19.53 KiB (String, u64)"]);
    contains_all(&line("rules→totals"), &["3 1 2 9 B Rule"]);
    let text = succeeds(&["inspect", "--files"], directory.path());
    contains_all(&text, &["(in flight)", "chk-1/totals.1.in-flight."]);
    contains_all(
        &succeeds(&["list"], directory.path()),
        &["aligned up to 30.00 s"],
    );

    let json = succeeds(&["inspect", "--json"], directory.path());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["mode"], "aligned up to 30.00 s");
    let slowest = &json["tasks"][2];
    assert_eq!(slowest["name"], "totals (1)");
    assert_eq!(slowest["acknowledged_after_us"], 40_000);
    assert_eq!(slowest["alignment_us"], 30_000);
    assert_eq!(slowest["bytes_during_alignment"], 300);
    assert_eq!(slowest["channel_state_bytes"], 20_009);
    assert_eq!(slowest["full_bytes"], 1_000_000);
    assert_eq!(json["in_flight"][0]["edge"], "lines→totals");
    assert_eq!(json["in_flight"][1]["records"], 2);
}

/// B63 (c).
#[test]
fn verify_names_channel_state_of_which_a_byte_is_flipped() {
    let directory = overtaking();
    let is_in_flight = |path: &PathBuf| path.to_string_lossy().contains("in-flight");
    let path = files_below(directory.path())
        .into_iter()
        .find(is_in_flight)
        .unwrap();
    succeeds(&["verify"], directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[20_003] ^= 1;
    fs::write(&path, bytes).unwrap();
    let text = fails(&["verify"], directory.path());
    contains_all(
        &text,
        &["chk-1/totals.1.in-flight.", "at byte 0", "1 damaged"],
    );
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
