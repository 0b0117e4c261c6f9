//! Every word is counted and written exactly once, wherever the engine stops and however many
//! threads go on.

use std::{collections::BTreeMap, path::Path};

use cutwater_example_thread_engine::{Crash, Job, Outcome, lines::Lines, run};
use cutwater_sink_2pc::testkit::{self, Target};
use tempfile::TempDir;

/// Two sources of different length that share some words.
fn input() -> [Vec<String>; 2] {
    [(1_000, 7), (700, 40)].map(|(length, names)| {
        (0..length)
            .map(|i| format!("word-{}", i * i % names))
            .collect()
    })
}

fn expected_counts() -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in input().into_iter().flatten() {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// `word 1`, `word 2`, … up to its count: a record lost or doubled, in the state or in the output,
/// leaves a gap or a double.
fn expected_lines() -> Vec<String> {
    let lines = |(word, count): (String, u64)| (1..=count).map(move |n| format!("{word} {n}"));
    let mut lines: Vec<_> = expected_counts().into_iter().flat_map(lines).collect();
    lines.sort();
    lines
}

/// Runs the job once for each number of threads, with a crash or to the end, and checks it then.
fn check(runs: &[(u16, Option<Crash>)]) {
    let directory = tempfile::tempdir().unwrap();
    let sink = Lines::new(directory.path().join("output"));
    let input = input();
    for &(parallelism, crash) in runs {
        let job = Job {
            input: &input,
            sink: &sink,
            checkpoints: directory.path().join("checkpoints"),
            parallelism,
            every: 200,
            crash,
        };
        let outcome = run(&job).unwrap();
        match crash {
            Some(_) => assert_eq!(outcome, Outcome::Crashed, "{runs:?}"),
            None => assert_eq!(outcome, Outcome::Finished(expected_counts()), "{runs:?}"),
        }
    }
    assert_eq!(sink.read().unwrap(), expected_lines(), "{runs:?}");
}

#[test]
fn an_undisturbed_run_counts_everything_once() {
    check(&[(2, None)]);
}

#[test]
fn output_of_a_completed_checkpoint_is_committed_by_a_successor_of_another_parallelism() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, Some(Crash::BeforeCommit)), (successor, None)]);
    }
}

#[test]
fn output_of_an_incomplete_checkpoint_is_swept_and_written_again() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, Some(Crash::BeforeComplete)), (successor, None)]);
    }
}

#[test]
fn crashes_may_follow_each_other_while_the_job_is_rescaled() {
    let (complete, commit) = (Some(Crash::BeforeComplete), Some(Crash::BeforeCommit));
    check(&[(2, commit), (3, complete), (1, None)]);
    check(&[
        (2, complete),
        (1, commit),
        (3, commit),
        (4, complete),
        (2, None),
    ]);
}

#[test]
fn the_sink_passes_the_exam() {
    testkit::conforms(|| Directory(tempfile::tempdir().unwrap()));
}

struct Directory(TempDir);

impl Target for Directory {
    type Sink = Lines;

    fn sink(&self) -> Lines {
        Lines::new(self.0.path())
    }

    fn record(&self, id: u64) -> String {
        id.to_string()
    }

    async fn visible(&self) -> Vec<u64> {
        let lines = Lines::new(self.0.path()).read().unwrap();
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    async fn unfinished(&self) -> Vec<String> {
        files_below(&self.0.path().join(".pending"))
    }
}

fn files_below(directory: &Path) -> Vec<String> {
    let Ok(entries) = directory.read_dir() else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path.display().to_string()]
            }
        })
        .collect()
}
