//! A store that fails or is full in the middle of a checkpoint: the checkpoint fails, the output
//! stays exact, and what completed before stays restorable.

use std::path::Path;

use cutwater_barrier::Mode;
use cutwater_runtime::{Collect, ErrorKind, Job, Restart, Restore, Settings};
use cutwater_source::VecSource;
use cutwater_storage::{
    CheckpointStore, LocalBlobs, Options,
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
    let handle = job.start(blobs, settings).unwrap();
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
    let mut unaligned = settings(2);
    unaligned.barriers = Mode::Unaligned;
    unaligned.channel_capacity = 1;
    for settings in [settings(2), unaligned] {
        for skip in 0..40 {
            output_is_exact(settings.clone(), |faults| {
                faults.fail(On::any().after(skip), Failure::Before);
            });
        }
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
    let handle = job.start(blobs, settings.clone()).unwrap();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);

    let blobs = LocalBlobs::open(directory.path()).unwrap();
    let store = block_on(CheckpointStore::open(blobs.clone(), Options::default())).unwrap();
    let checkpoints: Vec<_> = store.list().map(|completed| completed.checkpoint).collect();
    assert_eq!(checkpoints.len(), 1, "the one before the store was full");
    block_on(store.load(checkpoints[0])).unwrap();

    // With room again the job continues from there.
    let job = counting(RECORDS, &output, |number| number);
    let handle = job.start(blobs, settings).unwrap();
    assert!(handle.wait().unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

/// Whether its first decision took effect, the process cannot know; the next attempt asks the log. From the
/// checkpoint that the job was started from, it would write again what that decision lets sinks commit.
#[test]
fn after_a_first_decision_of_unknown_outcome_the_job_goes_on_from_the_latest_checkpoint() {
    for chosen in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        let mut settings = settings(2);
        if chosen {
            // An earlier process has stopped half-way.
            let blobs = LocalBlobs::open(directory.path()).unwrap();
            let handle = counting(RECORDS, &output, |number| number).start(blobs, settings.clone());
            let handle = handle.unwrap();
            handle.stop();
            let outcome = handle.wait().unwrap();
            settings.restore = Restore::Checkpoint(outcome.checkpoint);
        } else {
            settings.restore = Restore::Fresh;
        }
        let blobs = FaultyBlobs::new(LocalBlobs::open(directory.path()).unwrap());
        // The first create takes over. The second decides, and it, its repetition and the question
        // about it get no reply.
        let decision = On::call(Call::Create).path("log/").after(1).times(3);
        blobs.faults().fail(decision, Failure::After);
        let job = counting(RECORDS, &output, |number| number);
        let outcome = job.start(blobs, settings).unwrap().wait().unwrap();
        assert!(outcome.is_finished && outcome.restarts == 1, "{outcome:?}");
        assert_ledger(output.take(), RECORDS);
    }
}

/// B63: restoring a damaged checkpoint is refused, naming the object, whichever byte of whichever
/// object it is.
#[test]
fn a_damaged_checkpoint_is_refused_by_name() {
    const KEYS: u64 = 10_000; // So that there are state files beside the metadata.
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let mut settings = settings(2);
    settings.retained_checkpoints = 1;
    let run = || {
        let job = Job::new("damaged");
        job.source("numbers", VecSource::new(vec![(0..KEYS).collect()]))
            .key_by(|number| *number)
            .fold("count", |count: &mut u64, number| {
                *count += 1;
                (number, *count)
            })
            .sink("updates", output.clone());
        let store = crate::common::store(directory.path());
        let handle = job.start(store, settings.clone());
        handle.unwrap().wait()
    };
    run().unwrap();
    let objects = files_below(&directory.path().join("chk"), directory.path());
    assert!(objects.len() >= 2, "metadata and state files: {objects:?}");
    for object in objects {
        let path = directory.path().join(&object);
        let intact = std::fs::read(&path).unwrap();
        for at in [0, intact.len() / 2, intact.len() - 1] {
            let mut damaged = intact.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let error = run().unwrap_err();
            let chain = error.chain();
            assert_eq!(
                error.kind(),
                ErrorKind::Restore,
                "{object}, byte {at}: {chain}"
            );
            assert!(chain.contains(&object), "{object}, byte {at}: {chain}");
        }
        std::fs::write(&path, &intact).unwrap();
    }
    run().unwrap();
    let mut updates = output.take();
    updates.sort_unstable();
    assert_eq!(updates, (0..KEYS).map(|key| (key, 1)).collect::<Vec<_>>());
}

/// The objects whose path starts with the characters of `prefix`, relative to `root`.
fn files_below(prefix: &Path, root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .to_string_lossy()
                .starts_with(&*prefix.to_string_lossy())
            {
                let relative = path.strip_prefix(root).unwrap();
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found
}
