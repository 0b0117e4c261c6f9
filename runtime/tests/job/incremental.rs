//! Checkpoints that store what has changed: the ledger is as with others, and the bytes are fewer.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    common::{Count, Update, settings, start, store, wait_until},
    stepped::Stepped,
};
use cutwater_runtime::{Collect, Job, Snapshots};
use cutwater_source::VecSource;
use cutwater_storage::{CheckpointStore, Options};
use futures::executor::block_on;

/// So many keys come once, and then the first few of them over and over again.
const KEYS: u64 = 20_000;
const AGAIN: u64 = 30_000;
const FEW: u64 = 3;

fn job(output: &Collect<Update>, steps: &Arc<AtomicU64>) -> Job {
    let numbers = VecSource::new(vec![(0..KEYS + AGAIN).collect()]);
    let job = Job::new("few change");
    job.source("numbers", Stepped::new(numbers, Arc::clone(steps)))
        .key_by(|number| {
            if *number < KEYS {
                *number
            } else {
                *number % FEW
            }
        })
        .process("count", Count::open)
        .sink("updates", output.clone());
    job
}

/// Bytes that the newest checkpoint stored for the operator, and those it consists of.
fn bytes(directory: &Path) -> (u64, u64) {
    let store = CheckpointStore::open(store(directory), Options::default());
    let store = block_on(store).unwrap();
    let metadata = block_on(store.load_latest()).unwrap().unwrap();
    let subtasks = metadata.subtasks_of("count");
    let statistics = subtasks.iter().map(|subtask| subtask.statistics);
    statistics.fold((0, 0), |(written, full), next| {
        (written + next.bytes_written, full + next.bytes_full)
    })
}

/// F107 through a job, with one retained checkpoint, most of whose files the next one names.
#[test]
fn checkpoints_store_what_has_changed() {
    for snapshots in [Snapshots::Incremental, Snapshots::Full] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        let mut settings = settings(2);
        settings.snapshots = snapshots;
        settings.retained_checkpoints = 1;
        let steps = Arc::new(AtomicU64::new(0));
        let handle = start(job(&output, &steps), directory.path(), settings);
        for allowed in [KEYS, KEYS + AGAIN / 2] {
            steps.store(allowed, Ordering::Relaxed);
            wait_until("these are counted", || output.len() as u64 == allowed);
            let before = handle.status().completed;
            wait_until("two checkpoints more", || {
                handle.status().completed >= before + 2
            });
        }
        steps.store(u64::MAX, Ordering::Relaxed);
        assert!(handle.wait().unwrap().is_finished);

        let updates = output.take();
        assert_eq!(
            updates.len() as u64,
            KEYS + AGAIN,
            "each record counts once"
        );
        let largest = updates.iter().map(|(_, count)| *count).max();
        assert_eq!(largest, Some(1 + AGAIN / FEW));

        let (written, full) = bytes(directory.path());
        match snapshots {
            Snapshots::Incremental => assert!(10 * written < full, "{written} of {full}"),
            _ => assert_eq!(written, full),
        }
    }
}
