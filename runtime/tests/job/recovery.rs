//! Attempts that fail and come back: every record counts once, in state and in what is committed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::common::{assert_ledger, counting, settings, start};
use cutwater_runtime::{Collect, ErrorKind, Restart};

/// Calls `fail` once, at the `at`th call.
fn once(at: u64, fail: impl Fn(u64) + Send + Sync) -> impl Fn(u64) -> u64 + Send + Sync {
    let left = Arc::new(AtomicU64::new(at));
    move |number| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            fail(number);
        }
        number
    }
}

#[test]
fn a_panic_in_user_code_is_a_failed_attempt_and_each_record_counts_once() {
    for at in [1, 5_000, 29_000, 60_000] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        let job = counting(
            20_000,
            &output,
            once(at, |number| panic!("{number} breaks it")),
        );
        let outcome = start(job, directory.path(), settings(2)).wait().unwrap();
        assert_eq!(outcome.restarts, 1, "failed at {at}");
        assert!(outcome.is_finished);
        assert_ledger(output.take(), 20_000);
    }
}

#[test]
fn a_job_that_keeps_failing_gives_up_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let job = counting(100, &output, |number| panic!("{number} always breaks it"));
    let error = start(job, directory.path(), settings(2))
        .wait()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    let chain = error.chain();
    assert!(chain.contains("gave up after 4 failed attempts"), "{chain}");
    assert!(chain.contains("always breaks it"), "{chain}");
    assert!(output.is_empty());
}

#[test]
fn without_a_restart_strategy_the_first_failure_ends_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let job = counting(100, &output, |number| panic!("{number} breaks it"));
    let mut settings = settings(1);
    settings.restart = Restart::Never;
    let handle = start(job, directory.path(), settings);
    let error = handle.wait().unwrap_err();
    assert!(error.to_string().contains("breaks it"), "{error}");
}

#[test]
fn an_error_of_a_user_function_names_the_operator_and_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let job = cutwater_runtime::Job::new("failing");
    job.source("numbers", crate::common::numbers(10))
        .try_map(|number| {
            if number == 7 {
                Err("seven is refused")
            } else {
                Ok(number)
            }
        })
        .sink("out", Collect::new());
    let mut settings = settings(1);
    settings.restart = Restart::Never;
    let error = start(job, directory.path(), settings).wait().unwrap_err();
    assert!(
        error.chain().contains("seven is refused"),
        "{}",
        error.chain()
    );
}
