//! Second copies of state files on a local disk: a restart reads them where they are intact (F127).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use crate::{
    common::{Update, flip_a_byte, settings, start, wait_until},
    stepped::Stepped,
};
use cutwater_runtime::{Collect, ErrorKind, Job, JobHandle, Result};
use cutwater_source::VecSource;
use tempfile::TempDir;

/// So many that their state is in files, not in the metadata.
const KEYS: u64 = 20_000;

struct World {
    store: TempDir,
    local: TempDir,
    output: Collect<Update>,
}

impl World {
    /// A job that has counted each key once and was stopped, with a checkpoint.
    fn stopped() -> Self {
        let world = Self {
            store: tempfile::tempdir().unwrap(),
            local: tempfile::tempdir().unwrap(),
            output: Collect::new(),
        };
        let handle = world.start(KEYS);
        wait_until("all keys are counted", || world.output.len() as u64 == KEYS);
        handle.stop();
        assert!(!handle.wait().unwrap().is_finished);
        world
    }

    /// Starts the job, or goes on with it. It counts each key twice, and reads so many records at most.
    fn start(&self, records: u64) -> JobHandle {
        let numbers = VecSource::new(vec![(0..KEYS).chain(0..KEYS).collect()]);
        let job = Job::new("two rounds");
        job.source(
            "numbers",
            Stepped::new(numbers, Arc::new(AtomicU64::new(records))),
        )
        .key_by(|number| *number)
        .fold("count", |count: &mut u64, number| {
            *count += 1;
            (number, *count)
        })
        .sink("updates", self.output.clone());
        let mut settings = settings(2);
        settings.local_copies = Some(self.local.path().to_owned());
        start(job, self.store.path(), settings)
    }

    /// Goes on to the end, where each count must be there once.
    fn go_on(&self) -> Result<()> {
        assert!(self.start(u64::MAX).wait()?.is_finished);
        let mut updates = self.output.take();
        updates.sort_unstable();
        let expected = (0..KEYS).flat_map(|key| [(key, 1), (key, 2)]);
        assert!(updates.into_iter().eq(expected), "each record counts once");
        Ok(())
    }
}

/// The files of keyed state in `directory`.
fn state_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(state_files(&path));
        } else if path.to_string_lossy().contains(".keyed-") {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_restart_needs_no_state_file_of_the_store() {
    let world = World::stopped();
    let files = state_files(world.store.path());
    assert!(!files.is_empty());
    for file in files {
        fs::remove_file(file).unwrap();
    }
    world.go_on().unwrap();
}

#[test]
fn copies_that_are_damaged_or_gone_are_read_from_the_store() {
    let world = World::stopped();
    let copies = state_files(world.local.path());
    let (damaged, gone) = copies.split_at(1);
    damaged.iter().for_each(|file| flip_a_byte(file));
    assert!(!gone.is_empty(), "there are two subtasks");
    gone.iter().for_each(|file| fs::remove_file(file).unwrap());
    world.go_on().unwrap();
}

#[test]
fn without_a_sound_file_anywhere_the_restore_fails_and_names_it() {
    let world = World::stopped();
    let files = state_files(world.store.path());
    state_files(world.local.path())
        .iter()
        .chain(&files[..1])
        .for_each(|file| flip_a_byte(file));
    let error = world.go_on().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restore);
    let name = files[0].file_name().unwrap().to_string_lossy();
    assert!(error.chain().contains(&*name), "{}", error.chain());
}
