//! Stop with a checkpoint, continue with another parallelism: nothing is lost, nothing counts twice.

use std::time::Duration;

use crate::common::{Barrage, assert_ledger, counting, settings, start, wait_until};
use cutwater_runtime::{Collect, Settings, State};

const RECORDS: u64 = 10_000;

#[test]
fn a_stopped_job_continues_with_any_parallelism() {
    stop_and_continue(|_, parallelism| settings(parallelism));
}

/// Stops a job in the middle of its input several times, and goes on with the `settings` for the run's
/// number and its parallelism.
pub(crate) fn stop_and_continue(settings: impl Fn(usize, u16) -> Settings) {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    for (run, parallelism) in [2, 3, 1, 4].into_iter().enumerate() {
        let hold = Barrage::default();
        let held = hold.clone();
        // Each run is held back at a later number, so that it stops in the middle of the input.
        let until = (run as u64 + 1) * 2_000;
        let job = counting(RECORDS, &output, move |number| {
            if number == until {
                held.pass();
            }
            number
        });
        let handle = start(job, directory.path(), settings(run, parallelism));
        hold.await_waiting();
        handle.stop();
        wait_until("the last checkpoint is triggered", || {
            handle.status().state == State::Stopping
        });
        hold.open();
        let outcome = handle.wait().unwrap();
        assert!(!outcome.is_finished, "run {run} was stopped in the middle");
    }
    let job = counting(RECORDS, &output, |number| number);
    let outcome = start(job, directory.path(), settings(4, 2)).wait();
    assert!(outcome.unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

#[test]
fn a_finished_job_started_again_writes_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    for parallelism in [2, 3] {
        let job = counting(1_000, &output, |number| number);
        let outcome = start(job, directory.path(), settings(parallelism))
            .wait()
            .unwrap();
        assert!(outcome.is_finished);
    }
    assert_ledger(output.take(), 1_000);
}

#[test]
fn without_periodic_checkpoints_the_last_one_still_commits_everything() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let mut settings = settings(2);
    settings.checkpoint_interval = None;
    let job = counting(1_000, &output, |number| number);
    assert!(
        start(job, directory.path(), settings)
            .wait()
            .unwrap()
            .is_finished
    );
    assert_ledger(output.take(), 1_000);
}

#[test]
fn a_checkpoint_can_be_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let hold = Barrage::default();
    let held = hold.clone();
    let mut settings = settings(2);
    settings.checkpoint_interval = None;
    settings.flush_interval = Duration::ZERO;
    let job = counting(RECORDS, &output, move |number| {
        if number == 5_000 {
            held.pass();
        }
        number
    });
    let handle = start(job, directory.path(), settings);
    wait_until("all tasks run", || handle.status().state == State::Running);
    hold.await_waiting();
    assert!(output.is_empty());
    // The barrier waits behind the record that is being held.
    hold.open();
    let checkpoint = handle.checkpoint();
    let outcome = handle.wait().unwrap();
    // The input may have ended meanwhile; then the last checkpoint took its place.
    if let Ok(checkpoint) = checkpoint {
        assert!(checkpoint <= outcome.checkpoint);
    }
    assert_ledger(output.take(), RECORDS);
}

#[test]
fn a_cancelled_job_ends_at_once_and_can_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let hold = Barrage::default();
    let held = hold.clone();
    let job = counting(RECORDS, &output, move |number| {
        if number == 5_000 {
            held.pass();
        }
        number
    });
    let handle = start(job, directory.path(), settings(2));
    hold.await_waiting();
    handle.cancel();
    hold.open();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.kind(), cutwater_runtime::ErrorKind::Cancelled);
    let job = counting(RECORDS, &output, |number| number);
    assert!(
        start(job, directory.path(), settings(3))
            .wait()
            .unwrap()
            .is_finished
    );
    assert_ledger(output.take(), RECORDS);
}
