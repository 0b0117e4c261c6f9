//! What a job promises, and that it says so.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cutwater_runtime::{Collect, ErrorKind, Guarantee, Job, State};

use crate::common::{
    Barrage, assert_ledger, counting, numbers, settings, start, store, wait_until,
};

#[test]
fn the_weaker_guarantee_is_reported_with_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(2);
    settings.guarantee = Guarantee::AtLeastOnce;
    let output = Collect::new();
    let job = counting(1_000, &output, |number| number);
    let handle = start(job, directory.path(), settings);
    let guarantees = handle.status().guarantees;
    assert!(guarantees[0].contains("at-least-once"), "{guarantees:?}");
    assert!(
        guarantees[1].contains("sink `updates`: exactly-once"),
        "{guarantees:?}"
    );
    handle.wait().unwrap();
    assert_ledger(output.take(), 1_000); // No failure: nothing counted twice.
}

#[test]
fn status_follows_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let hold = Barrage::default();
    let held = hold.clone();
    let job = counting(5_000, &output, move |number| {
        if number == 2_500 {
            held.pass();
        }
        number
    });
    let handle = start(job, directory.path(), settings(2));
    wait_until("all tasks run", || handle.status().state == State::Running);
    hold.await_waiting();
    hold.open();
    wait_until("it is over", || handle.is_over());
    let status = handle.status();
    assert_eq!(status.state, State::Finished);
    assert!(status.completed > 0);
    assert_eq!(status.restarts, 0);
    assert_eq!(handle.wait().unwrap().checkpoint, status.latest.unwrap());
}

/// Bounded memory: what is in flight between a source and a consumer that stands still is limited by
/// the channels, not by the input.
#[test]
fn a_slow_consumer_holds_back_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let hold = Barrage::default();
    let read = Arc::new(AtomicU64::new(0));
    let (held, counted) = (hold.clone(), Arc::clone(&read));
    let output = Collect::new();
    let job = Job::new("slow");
    job.source("numbers", numbers(50_000))
        .map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            number
        })
        .key_by(|number| number % 7)
        .process("count", move |open| {
            held.pass();
            crate::common::Count::open(open)
        })
        .sink("out", output.clone());
    let mut settings = settings(1);
    settings.checkpoint_interval = None;
    let handle = start(job, directory.path(), settings.clone());
    hold.await_waiting();
    // The source fills the channel, one batch in its hands, and stops.
    let most = ((settings.channel_capacity + 2) * settings.batch_size) as u64;
    wait_until("the source has filled the channel", || {
        read.load(Ordering::Relaxed) >= (settings.channel_capacity * settings.batch_size) as u64
    });
    assert!(read.load(Ordering::Relaxed) <= most);
    hold.open();
    handle.wait().unwrap();
    assert_eq!(output.len(), 150_000);
}

#[test]
fn a_job_without_a_source_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = Job::new("empty")
        .start(store(directory.path()), settings(1))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
    assert!(error.to_string().contains("no source"), "{error}");
}

#[test]
fn settings_that_could_restore_nothing_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut none = settings(1);
    none.retained_checkpoints = 0;
    let output = Collect::new();
    let job = counting(1, &output, |number| number);
    let error = job.start(store(directory.path()), none).unwrap_err();
    assert!(error.to_string().contains("keep at least 1"), "{error}");
}

/// A dropped handle cancels its job and waits for it.
#[test]
fn dropping_the_handle_leaves_nothing_running() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let job = counting(u64::from(u16::MAX), &output, move |number| {
        let _alive = &held;
        number
    });
    let handle = start(job, directory.path(), settings(2));
    wait_until("all tasks run", || {
        !matches!(handle.status().state, State::Starting)
    });
    drop(handle);
    assert_eq!(
        Arc::strong_count(&token),
        1,
        "no task has its function any more"
    );
}
