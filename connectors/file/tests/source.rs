//! Files read, resumed, broken, skipped and replaced.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use cutwater_barrier::CheckpointId;
use cutwater_file::{Compression, FileSource, FileSplit, OnBadRecord};
use cutwater_source::{
    ErrorKind, Result, Source, decode_splits,
    testkit::{self, Checkpoint, Run},
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Flight {
    tail: String,
    miles: u32,
}

fn flight(tail: &str, miles: u32) -> Flight {
    Flight {
        tail: tail.to_owned(),
        miles,
    }
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn csv_text(rows: u32) -> String {
    let rows = (0..rows).map(|i| format!("{i},\"N{i} \"\"x\"\"\nB\"\r\n"));
    format!("miles,tail\n{}", rows.collect::<String>())
}

fn json_text(rows: u32) -> String {
    (0..rows)
        .map(|i| format!("{{\"tail\":\"N{i}\",\"miles\":{i}}}\n"))
        .collect()
}

fn read_all<S: Source>(source: S) -> Result<Vec<S::Record>> {
    Run::fresh(source, 1)?.to_end(7)
}

fn splits(checkpoint: &Checkpoint) -> Vec<FileSplit> {
    let readers = checkpoint.readers.iter();
    readers
        .flat_map(|bytes| decode_splits(bytes).unwrap())
        .collect()
}

fn n(id: u64) -> CheckpointId {
    CheckpointId::new(id)
}

#[test]
fn csv_conforms_plain_and_compressed() {
    let dir = TempDir::new().unwrap();
    let text = csv_text(23);
    let (head, tail) = text.as_bytes().split_at(97); // in the middle of a row
    let paths = [
        write(&dir, "a.csv", text.as_bytes()),
        write(
            &dir,
            "b.csv.gz",
            &[gzip(head), gzip(b""), gzip(tail)].concat(),
        ),
        write(&dir, "c.csv.zst", &[zstd(head), zstd(tail)].concat()),
        write(&dir, "header-only.csv", b"miles,tail\n"),
        write(&dir, "empty.csv", b""),
    ];
    testkit::conforms(|| FileSource::<Flight>::csv(paths.clone()));
}

#[test]
fn json_lines_conform_plain_and_compressed() {
    let dir = TempDir::new().unwrap();
    let text = format!("\n{}\n", json_text(20).trim_end());
    let paths = [
        write(&dir, "a.jsonl", text.as_bytes()),
        write(&dir, "b.jsonl.gz", &gzip(text.as_bytes())),
        write(&dir, "c.jsonl.zst", &zstd(text.as_bytes())),
        write(&dir, "no-last-line-end.jsonl", text.trim_end().as_bytes()),
        write(&dir, "empty.jsonl", b""),
    ];
    testkit::conforms(|| FileSource::<Flight>::json_lines(paths.clone()));
}

#[test]
fn a_row_is_matched_to_the_record_by_the_header_in_any_order() {
    let dir = TempDir::new().unwrap();
    let path = write(
        &dir,
        "a.csv",
        b"\xef\xbb\xbf\nmiles;extra;tail\n5;x;N1\n\n6;;\"N;2\"",
    );
    let source = FileSource::<Flight>::csv([&path]).delimiter(b';');
    assert_eq!(
        read_all(source).unwrap(),
        [flight("N1", 5), flight("N;2", 6)]
    );

    let source = FileSource::<BTreeMap<String, String>>::csv([&path]).delimiter(b';');
    let rows = read_all(source).unwrap();
    assert_eq!(rows[1]["tail"], "N;2");
    assert_eq!(rows[1]["extra"], "");
}

#[test]
fn compression_can_be_said_where_the_extension_does_not() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "a.log", &gzip(json_text(2).as_bytes()));
    let source = FileSource::<Flight>::json_lines([path]).compression(Compression::Gzip);
    assert_eq!(read_all(source).unwrap().len(), 2);
}

#[test]
fn a_row_with_very_many_and_very_long_fields_is_read() {
    let dir = TempDir::new().unwrap();
    let header: Vec<String> = (0..500).map(|i| format!("c{i}")).collect();
    let row: Vec<String> = (0..500).map(|i| "x".repeat(i)).collect();
    let text = format!("{}\n{}\n", header.join(","), row.join(","));
    let path = write(&dir, "wide.csv", text.as_bytes());
    let rows = read_all(FileSource::<BTreeMap<String, String>>::csv([path])).unwrap();
    assert_eq!(rows[0]["c499"].len(), 499);
}

/// Issue 3, "Bad input": file, line number, reason.
#[test]
fn a_bad_record_fails_with_file_line_and_reason_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    for (name, text, line, reason) in [
        (
            "number.csv",
            "miles,tail\n1,\"N\n1\"\nx,N2\n3,N3\n",
            4,
            "column \"miles\"",
        ),
        (
            "fields.csv",
            "miles,tail\n1,N1\n2\n3,N3\n",
            3,
            "1 fields, but the header has 2",
        ),
        (
            "quote.csv",
            "miles,tail\n1,N1\n2,\"N2\n3,N3\n",
            3,
            "not closed",
        ),
        ("column.csv", "miles,name\n1,N1\n", 2, "missing field"),
    ] {
        let path = write(&dir, name, text.as_bytes());
        let mut run = Run::fresh(FileSource::<Flight>::csv([&path]), 1).unwrap();
        let error = run.to_end(10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput);
        let said = error.to_string();
        assert!(said.contains(path.to_str().unwrap()), "{said}");
        assert!(said.contains(&format!("line {line}:")), "{said}");
        assert!(said.contains(reason), "{said}");
        // Its position is before the bad record: a restart meets it again.
        let split = &splits(&run.checkpoint(n(1)).unwrap())[0];
        assert_eq!(split.lines, line - 1);
        assert!(!split.finished);
    }

    let path = write(
        &dir,
        "a.jsonl",
        b"{\"tail\":\"N\",\"miles\":1}\n{\"tail\":\"N\",\"miles\":-1}\n",
    );
    let error = read_all(FileSource::<Flight>::json_lines([&path])).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("line 2: invalid value"), "{said}");
    assert!(said.contains("(column "), "{said}");
}

#[test]
fn skipping_loses_the_bad_lines_only_and_counts_each_once_over_a_restart() {
    let dir = TempDir::new().unwrap();
    let text = b"miles,tail\nx,N0\n1,N1\n2\n2,N2\n3,\"N3\n4,N4\n5,\xff\n";
    let path = write(&dir, "a.csv", text);
    let open = || FileSource::<Flight>::csv([&path]).on_bad_record(OnBadRecord::Skip);
    let expected = [flight("N1", 1), flight("N2", 2), flight("N4", 4)];

    for before in 0..=4 {
        let mut run = Run::fresh(open(), 1).unwrap();
        let mut records = Vec::new();
        for _ in 0..before {
            records.extend(run.step(0, 1).unwrap());
        }
        let checkpoint = run.checkpoint(n(1)).unwrap();
        run.to_end(1).unwrap(); // lost with the attempt
        let mut run = Run::restore(open(), 2, &checkpoint).unwrap();
        records.extend(run.to_end(2).unwrap());
        assert_eq!(records, expected);

        let finished = run.coordinator().assigner().finished().to_vec();
        let readers = splits(&run.checkpoint(n(2)).unwrap());
        let skipped: Vec<u64> = readers.iter().chain(&finished).map(|s| s.skipped).collect();
        assert_eq!(skipped, [4], "checkpoint after {before} steps");
    }
}

#[test]
fn a_record_longer_than_the_bound_is_bad() {
    let dir = TempDir::new().unwrap();
    let long = "x".repeat(300_000);
    let path = write(
        &dir,
        "a.csv",
        format!("miles,tail\n1,{long}\n2,N2\n").as_bytes(),
    );
    let open = || FileSource::<Flight>::csv([&path]).record_bytes_max(1000);
    let error = read_all(open()).unwrap_err();
    assert!(error.to_string().contains("line 2: longer than"), "{error}");
    let skipping = open().on_bad_record(OnBadRecord::Skip);
    assert_eq!(read_all(skipping).unwrap(), [flight("N2", 2)]);
}

/// A checkpoint in the middle of the file, then `change`, then a restart.
fn restored_after(name: &str, bytes: &[u8], change: impl Fn(&Path)) -> cutwater_source::Error {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, name, bytes);
    let open = || FileSource::<Flight>::json_lines([&path]);
    let mut run = Run::fresh(open(), 1).unwrap();
    for _ in 0..2 {
        run.step(0, 10).unwrap();
    }
    let checkpoint = run.checkpoint(n(1)).unwrap();
    assert_eq!(splits(&checkpoint)[0].records, 10);
    change(&path);
    // Where the split is given out depends on the assignment: at the latest when it is read.
    let error = Run::restore(open(), 1, &checkpoint)
        .and_then(|mut run| run.to_end(10))
        .unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    error
}

/// Issue 3, "Bad input": missing, shorter than the recorded position, or not the file it was.
#[test]
fn a_file_that_changed_before_a_restore_is_refused() {
    let text = json_text(40);
    for (name, bytes) in [
        ("a.jsonl", text.as_bytes().to_vec()),
        ("a.jsonl.gz", gzip(text.as_bytes())),
        ("a.jsonl.zst", zstd(text.as_bytes())),
    ] {
        let check = |said: &str, change: &dyn Fn(&Path)| {
            let error = restored_after(name, &bytes, change);
            assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
            assert!(error.to_string().contains(said), "{said}: {error}");
        };
        check("is missing", &|path| fs::remove_file(path).unwrap());
        check("is shorter, 20 bytes", &|path| {
            fs::write(path, &bytes[..20]).unwrap();
        });
        check("is longer", &|path| {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(b"{}\n").unwrap();
        });
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            check("has other content", &|path| {
                let mut other = bytes.clone();
                other[at] ^= 1;
                fs::write(path, other).unwrap();
            });
        }
        check("is no regular file", &|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        });
    }
}

/// Reads a file of 40 records that is changed after 10 of them.
fn changed_while_read(change: impl Fn(&Path)) -> cutwater_source::Error {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "a.jsonl", json_text(100_000).as_bytes());
    let mut run = Run::fresh(FileSource::<Flight>::json_lines([&path]), 1).unwrap();
    run.step(0, 10).unwrap();
    run.step(0, 10).unwrap();
    change(&path);
    run.to_end(1000).unwrap_err()
}

#[test]
fn a_file_that_changed_while_it_was_read_is_refused_at_its_end() {
    let check = |said: &str, change: &dyn Fn(&Path)| {
        let error = changed_while_read(change);
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    };
    check("is missing", &|path| fs::remove_file(path).unwrap());
    check("has other content", &|path| {
        let text = json_text(100_000).replace("\"N7\"", "\"N8\"");
        fs::remove_file(path).unwrap();
        fs::write(path, text).unwrap();
    });
    // Truncated in the middle of a line: reported as that, not as a bad record.
    check("is shorter", &|path| {
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(2_000_003)
            .unwrap();
    });
    check("is longer", &|path| {
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(json_text(1).as_bytes()).unwrap();
    });
}

#[test]
fn a_file_that_was_never_whole_is_bad_input() {
    let dir = TempDir::new().unwrap();
    for (name, bytes) in [
        ("a.jsonl.gz", gzip(json_text(100).as_bytes())),
        ("a.jsonl.zst", zstd(json_text(100).as_bytes())),
    ] {
        let path = write(&dir, name, &bytes[..bytes.len() - 5]);
        let error = read_all(FileSource::<Flight>::json_lines([&path])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_missing_file_a_directory_and_a_file_given_twice_are_refused_at_the_start() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "a.csv", b"miles,tail\n");
    for (paths, kind) in [
        (vec![dir.path().join("missing.csv")], ErrorKind::Io),
        (vec![dir.path().to_owned()], ErrorKind::Invalid),
        (vec![path.clone(), path], ErrorKind::Invalid),
    ] {
        let error = read_all(FileSource::<Flight>::csv(paths)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// CASES B57: what the input is was decided at discovery, not when somebody begins to read it.
#[test]
fn an_unassigned_file_is_held_to_what_it_was_at_discovery() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "a.csv", b"miles,tail\n1,N1\n");
    let open = || FileSource::<Flight>::csv([&path]);
    let checkpoint = Run::fresh(open(), 1).unwrap().checkpoint(n(1)).unwrap();
    assert!(splits(&checkpoint).is_empty(), "nobody has asked for it");
    fs::write(&path, "miles,tail\n1,N1\n2,N2\n").unwrap();
    let error = Run::restore(open(), 1, &checkpoint)
        .unwrap()
        .to_end(9)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
}

#[test]
fn a_restarted_program_may_name_more_files() {
    let dir = TempDir::new().unwrap();
    let a = write(&dir, "a.csv", b"miles,tail\n1,N1\n");
    let b = write(&dir, "b.csv", b"miles,tail\n2,N2\n");
    let mut run = Run::fresh(FileSource::<Flight>::csv([&a]), 1).unwrap();
    assert_eq!(run.to_end(9).unwrap(), [flight("N1", 1)]);
    let checkpoint = run.checkpoint(n(1)).unwrap();
    let more = FileSource::<Flight>::csv([&a, &b]);
    let mut run = Run::restore(more, 2, &checkpoint).unwrap();
    assert_eq!(run.to_end(9).unwrap(), [flight("N2", 2)]);
}

/// Collects what is reported while `run` runs.
fn reported(run: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Collect(Arc<Mutex<Vec<String>>>);
    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!("{}={value:?} ", field.name());
        }
    }

    impl Subscriber for Collect {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(format!("{} ", event.metadata().level()));
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    let collect = Collect::default();
    tracing::subscriber::with_default(collect.clone(), run);
    collect.0.lock().unwrap().clone()
}

#[test]
fn a_skipped_record_is_reported_with_file_line_and_reason() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "a.csv", b"miles,tail\n1,N1\nx,N2\n");
    let source = FileSource::<Flight>::csv([&path]).on_bad_record(OnBadRecord::Skip);
    let events = reported(|| assert_eq!(read_all(source).unwrap().len(), 1));
    let [event] = &events[..] else {
        panic!("one event: {events:?}")
    };
    for part in [
        "WARN",
        "a.csv",
        "line=3",
        "reason=column \"miles\": invalid digit",
    ] {
        assert!(event.contains(part), "{event}");
    }
}

/// Golden: version 1 of a file split's bytes, which keep decoding.
#[test]
fn version_1_bytes_decode() {
    let bytes = b"\x01\x01\x05a.csv\x80\x01\x07\x10\x02\x03\x04\x01";
    let splits: Vec<FileSplit> = decode_splits(bytes).unwrap();
    let split = &splits[0];
    assert_eq!(split.path, "a.csv");
    assert_eq!((split.fingerprint.length, split.fingerprint.hash), (128, 7));
    assert_eq!(
        (split.offset, split.lines, split.records, split.skipped),
        (16, 2, 3, 4)
    );
    assert!(split.finished);
    assert_eq!(cutwater_source::encode_splits(&splits), bytes);
}
