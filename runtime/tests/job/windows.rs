//! Crashes exactly between two steps of the protocol, with the old process still there: a job that
//! is stopped by its observer is a zombie, and a second job takes over its directory.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cutwater_runtime::{Collect, Error, ErrorKind, JobHandle, Moment, Observer, Restart, Settings};

use crate::{
    common::{
        Barrage, Update, assert_ledger, counting, counting_from, numbers, settings, store,
        wait_until,
    },
    stepped::Stepped,
};

const RECORDS: u64 = 10_000;

/// A job whose coordinator stands still from the `nth` moment that `is_it` on. Its source gives a
/// twentieth of its records for each completed checkpoint, so there will be an `nth`.
fn halted(
    directory: &Path,
    output: &Collect<Update>,
    nth: u64,
    is_it: fn(&Moment) -> bool,
) -> (JobHandle, Barrage) {
    let hold = Barrage::default();
    let held = hold.clone();
    let seen = AtomicU64::new(0);
    let step = 3 * RECORDS / 20;
    let allowed = Arc::new(AtomicU64::new(step));
    let allowing = Arc::clone(&allowed);
    let observer = Observer::new(move |moment| {
        if is_it(moment) && seen.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            held.pass();
        }
        if let Moment::Completed(_) = moment {
            allowing.fetch_add(step, Ordering::Relaxed);
        }
    });
    let mut settings = no_restart(2);
    settings.observer = observer;
    let job = counting_from(Stepped::new(numbers(RECORDS), allowed), output);
    let handle = job.start(store(directory), settings).unwrap();
    hold.await_waiting();
    (handle, hold)
}

fn no_restart(parallelism: u16) -> Settings {
    let mut settings = settings(parallelism);
    settings.restart = Restart::Never;
    settings
}

/// Whatever the zombie was doing, the successor's output is exact, and the zombie learns of it.
fn zombie_is_fenced(nth: u64, is_it: fn(&Moment) -> bool) {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let (zombie, hold) = halted(directory.path(), &output, nth, is_it);
    let job = counting(RECORDS, &output, |number| number);
    let successor = job.start(store(directory.path()), no_restart(3)).unwrap();
    let generation = || successor.status().generation;
    wait_until("the successor takes over", || {
        generation() > zombie.status().generation
    });
    let newer = generation().unwrap();
    hold.open();
    let error: Error = zombie.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{}", error.chain());
    assert!(
        error.chain().contains(&format!("generation {newer}")),
        "{}",
        error.chain()
    );
    assert!(successor.wait().unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

/// Window 2 of SPEC 5.10.
#[test]
fn between_prepared_and_completed() {
    for nth in [1, 3] {
        zombie_is_fenced(nth, |moment| matches!(moment, Moment::Prepared(_)));
    }
}

/// Window 3 of SPEC 5.10.
#[test]
fn between_completed_and_committed() {
    for nth in [1, 3] {
        zombie_is_fenced(nth, |moment| matches!(moment, Moment::Completed(_)));
    }
}

/// Window 5 of SPEC 5.10.
#[test]
fn between_committed_and_noted() {
    for nth in [1, 3] {
        zombie_is_fenced(nth, |moment| matches!(moment, Moment::Committed(_)));
    }
}
