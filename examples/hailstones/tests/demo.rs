//! The demo on fewer numbers: it ends well when all is well, and only then.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn hailstones(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cutwater-example-hailstones"));
    command.args(arguments);
    match arguments {
        ["compare", ..] => command.arg(directory),
        _ => command.arg("--dir").arg(directory),
    };
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    both.concat()
}

/// Runs a demo, which must find everything right.
fn succeeds(arguments: &[&str], directory: &Path) {
    let demo = hailstones(arguments, directory);
    let said = said(&demo);
    assert!(demo.status.success(), "{said}");
    for part in [
        "run 1 was killed",
        "run 4 was killed",
        "2 → 3",
        "3 → 1",
        "1 → 4",
        "✓ every step of every start is there exactly once",
        "✓ every visit of every number is counted exactly once",
        "✓ the steps are those of one calculation",
        "✓ records that were in flight came back with their checkpoint",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// With barriers that wait, what goes round a loop is still part of every checkpoint.
#[test]
fn what_circles_when_the_job_is_killed_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("demo");
    succeeds(&["demo", "--seed", "1", "--rate", "4000"], &directory);
}

#[test]
fn what_circles_is_counted_once_if_barriers_overtake_it() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("demo");
    let demo = ["demo", "--unaligned", "--seed", "2"];
    succeeds(
        &[&demo[..], &["--starts", "200", "--rate", "2000"]].concat(),
        &directory,
    );

    let compare = ["compare", "--starts", "200"];
    assert!(hailstones(&compare, &directory).status.success());
    a_committed_file_that_is_doubled_or_lost_is_found(&compare, &directory);
    let one_more = hailstones(&["compare", "--starts", "201"], &directory);
    assert_eq!(one_more.status.code(), Some(1));
    assert!(said(&one_more).contains("201: nothing is there"));
}

fn a_committed_file_that_is_doubled_or_lost_is_found(compare: &[&str], directory: &Path) {
    let mut files = fs::read_dir(directory.join("output")).unwrap();
    let is_file = |path: &PathBuf| path.is_file();
    let file = files.find_map(|entry| Some(entry.unwrap().path()).filter(is_file));
    let file = file.unwrap();

    let twin = file.with_extension("twin.jsonl");
    fs::copy(&file, &twin).unwrap();
    let doubled = hailstones(compare, directory);
    assert_eq!(doubled.status.code(), Some(1));
    assert!(said(&doubled).contains("is there 2 times"));
    fs::remove_file(twin).unwrap();

    let kept = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let lost = hailstones(compare, directory);
    assert_eq!(lost.status.code(), Some(1));
    assert!(said(&lost).contains("is missing"), "{}", said(&lost));
    fs::write(&file, kept).unwrap();
}
