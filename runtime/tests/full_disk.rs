//! A disk that fills up in the middle of a checkpoint, for real.
//!
//! Needs a small disk of its own, so it is not part of `cargo test`: `cargo xtask test small-disk`
//! mounts one where that is allowed, and says so where it is not.
//! `CUTWATER_SMALL_DISK=DIR cargo test -p cutwater-runtime --test full_disk` uses another.

use std::{env, fs, path::Path, time::Duration};

use cutwater_runtime::{Collect, ErrorKind, Job, Restart, Settings};
use cutwater_source::VecSource;
use cutwater_storage::{CheckpointStore, LocalBlobs, Options};
use futures::executor::block_on;

/// So many keys do not fit on the small disk.
const KEYS: u64 = 200_000;

fn run(
    directory: &Path,
    output: &Collect<(u64, u64)>,
) -> cutwater_runtime::Result<cutwater_runtime::Outcome> {
    let job = Job::new("filling");
    job.source("numbers", VecSource::new(vec![(0..KEYS).collect()]))
        .key_by(|number| *number)
        .fold("count", |count: &mut u64, number| {
            *count += 1;
            (number, *count)
        })
        .sink("out", output.clone());
    let mut settings = Settings::default();
    settings.checkpoint_interval = Some(Duration::from_millis(5));
    settings.restart = Restart::Never;
    let store = LocalBlobs::open(directory).unwrap();
    job.start(store, settings)?.wait()
}

#[test]
fn a_full_disk_fails_the_checkpoint_and_the_one_before_stays_intact() {
    let disk = env::var_os("CUTWATER_SMALL_DISK").expect("CUTWATER_SMALL_DISK names a small disk");
    let directory = Path::new(&disk).join("checkpoints");
    let output = Collect::new();
    let error = run(&directory, &output).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed, "{}", error.chain());
    assert!(error.chain().contains("No space left"), "{}", error.chain());

    let blobs = LocalBlobs::open(&directory).unwrap();
    let mut store = block_on(CheckpointStore::open(blobs, Options::default())).unwrap();
    let mut verified = 0;
    block_on(store.verify(|object| {
        object.result.as_ref().unwrap();
        verified += 1;
    }))
    .unwrap();
    let retained = store.list().count();
    assert!(verified >= retained, "every retained checkpoint is intact");

    // On a larger disk the job goes on from the last checkpoint that fitted.
    let roomy = tempfile::tempdir().unwrap();
    copy(&directory, roomy.path());
    assert!(run(roomy.path(), &output).unwrap().is_finished);
    let mut updates = output.take();
    updates.sort_unstable();
    assert_eq!(updates, (0..KEYS).map(|key| (key, 1)).collect::<Vec<_>>());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
