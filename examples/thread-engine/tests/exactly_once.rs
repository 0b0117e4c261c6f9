//! Every number is counted and written exactly once, wherever the engine stops and however many
//! workers go on.

use std::collections::BTreeMap;

use cutwater_example_thread_engine::run;
use cutwater_sink_2pc::testkit::{MemoryTarget, Target as _};

/// All output is prepared, all state is stored, and the checkpoint is not complete.
const PREPARED: Option<&str> = Some("prepared");
/// The checkpoint is complete, and nothing of it is committed.
const COMPLETED: Option<&str> = Some("completed");

/// Two sources of different length that share some numbers.
fn inputs() -> [Vec<u64>; 2] {
    [(1_000, 7), (700, 40)].map(|(length, modulus)| (0..length).map(|i| i * i % modulus).collect())
}

/// Number and 1, number and 2, … up to its count: a record lost or doubled, in the state or in the
/// output, leaves a gap or a double.
fn expected() -> Vec<u64> {
    let mut counts = BTreeMap::<u64, u64>::new();
    for number in inputs().concat() {
        *counts.entry(number).or_default() += 1;
    }
    let rows = |(number, count)| (1..=count).map(move |n| number * 1_000_000 + n);
    counts.into_iter().flat_map(rows).collect()
}

/// Runs the job with each number of workers in turn, to a crash or to the end, and checks the output.
fn check(runs: &[(u16, Option<&str>)]) {
    let checkpoints = tempfile::tempdir().unwrap();
    for target in [MemoryTarget::new(), MemoryTarget::rolling(300)] {
        let checkpoints = tempfile::tempdir_in(checkpoints.path()).unwrap();
        for &(parallelism, crash) in runs {
            let reached = |moment: &str| match crash {
                Some(crash) if crash == moment => Err("killed".into()),
                _ => Ok(()),
            };
            let path = checkpoints.path();
            let ended = run(&inputs(), &target.sink(), path, parallelism, reached);
            let error = ended.err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), crash.map(|_| "killed"), "{runs:?}");
        }
        let mut rows = target.rows();
        rows.sort_unstable();
        assert!(rows == expected(), "{runs:?}: {} rows", rows.len());
    }
}

#[test]
fn an_undisturbed_run_counts_everything_once() {
    check(&[(2, None)]);
}

#[test]
fn output_of_a_completed_checkpoint_is_committed_by_a_successor_of_another_parallelism() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, COMPLETED), (successor, None)]);
    }
}

#[test]
fn output_of_an_incomplete_checkpoint_is_swept_and_written_again() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, PREPARED), (successor, None)]);
    }
}

#[test]
fn crashes_may_follow_each_other_while_the_job_is_rescaled() {
    check(&[(2, COMPLETED), (3, PREPARED), (1, None)]);
    check(&[
        (2, PREPARED),
        (1, COMPLETED),
        (3, COMPLETED),
        (4, PREPARED),
        (2, None),
    ]);
}
