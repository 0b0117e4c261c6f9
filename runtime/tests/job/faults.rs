//! A store that fails or is full in the middle of a checkpoint: the checkpoint fails, the output
//! stays exact, and what completed before stays restorable.

use cutwater_runtime::{Collect, ErrorKind, Observer, Restart, Settings};
use cutwater_storage::{
    CheckpointStore, LocalBlobs, Options, SharedBlobs,
    testkit::{Call, Failure, Faults, FaultyBlobs, On},
};
use futures::executor::block_on;

use crate::common::{assert_ledger, counting, settings};

const RECORDS: u64 = 10_000;

/// Runs the counting job on a store whose faults `arrange` sets up, and checks its output.
fn output_is_exact(settings: Settings, arrange: impl Fn(&Faults)) -> u32 {
    let directory = tempfile::tempdir().unwrap();
    let blobs = FaultyBlobs::new(LocalBlobs::open(directory.path()).unwrap());
    arrange(blobs.faults());
    let output = Collect::new();
    let job = counting(RECORDS, &output, |number| number);
    let handle = job
        .start(SharedBlobs::new(blobs), settings, Observer::default())
        .unwrap();
    let outcome = handle.wait().unwrap();
    assert!(outcome.is_finished);
    assert_ledger(output.take(), RECORDS);
    outcome.restarts
}

#[test]
fn a_decision_that_fails_is_a_failed_checkpoint_and_the_job_goes_on_if_it_may() {
    let mut tolerant = settings(2);
    tolerant.tolerable_failures = 10;
    for failure in [Failure::Before, Failure::After, Failure::Full] {
        for path in ["log/", "_metadata"] {
            let restarts = output_is_exact(tolerant.clone(), |faults| {
                faults.fail(On::call(Call::Create).path(path).after(2), failure);
            });
            assert_eq!(restarts, 0, "{failure:?} at {path}");
        }
    }
}

#[test]
fn a_failed_checkpoint_that_is_not_tolerated_restarts_the_job() {
    for failure in [Failure::Before, Failure::After, Failure::Full] {
        output_is_exact(settings(2), |faults| {
            faults.fail(On::call(Call::Create).path("_metadata").after(2), failure);
        });
    }
}

#[test]
fn whatever_call_fails_once_the_output_is_exact() {
    for skip in 0..40 {
        output_is_exact(settings(2), |faults| {
            faults.fail(On::any().after(skip), Failure::Before);
        });
    }
}

#[test]
fn a_store_that_stays_full_ends_the_job_with_the_reason_and_keeps_the_last_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = FaultyBlobs::new(LocalBlobs::open(directory.path()).unwrap());
    let full = On::call(Call::Create).path("_metadata").after(1).always();
    blobs.faults().fail(full, Failure::Full);
    let output = Collect::new();
    let job = counting(RECORDS, &output, |number| number);
    let mut settings = settings(2);
    settings.restart = Restart::Never;
    let handle = job
        .start(
            SharedBlobs::new(blobs),
            settings.clone(),
            Observer::default(),
        )
        .unwrap();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);

    let blobs = LocalBlobs::open(directory.path()).unwrap();
    let store = block_on(CheckpointStore::open(blobs.clone(), Options::default())).unwrap();
    let checkpoints: Vec<_> = store.list().map(|completed| completed.checkpoint).collect();
    assert_eq!(checkpoints.len(), 1, "the one before the store was full");
    block_on(store.load(checkpoints[0])).unwrap();

    // With room again the job continues from there.
    let job = counting(RECORDS, &output, |number| number);
    let handle = job
        .start(SharedBlobs::new(blobs), settings, Observer::default())
        .unwrap();
    assert!(handle.wait().unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

/// B63: restoring a damaged checkpoint is refused, naming the object.
#[test]
fn a_damaged_checkpoint_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let mut settings = settings(2);
    settings.retained_checkpoints = 1;
    let run = |output: &Collect<_>| {
        let job = counting(1_000, output, |number| number);
        let store = crate::common::store(directory.path());
        job.start(store, settings.clone(), Observer::default())
            .unwrap()
            .wait()
    };
    run(&output).unwrap();
    let metadata = find(directory.path(), "_metadata");
    let path = metadata.first().expect("the last checkpoint is retained");
    let intact = std::fs::read(path).unwrap();
    for at in [0, intact.len() / 2, intact.len() - 1] {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        std::fs::write(path, &damaged).unwrap();
        let error = run(&output).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Restore,
            "byte {at}: {}",
            error.chain()
        );
        assert!(
            error.chain().contains("_metadata"),
            "byte {at}: {}",
            error.chain()
        );
    }
    std::fs::write(path, &intact).unwrap();
    run(&output).unwrap();
    assert_ledger(output.take(), 1_000);
}

fn find(directory: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find(&path, name));
        } else if path.to_string_lossy().contains(name) {
            found.push(path);
        }
    }
    found
}
