//! Second copies on a local disk: what is read from them, what is not, and what is left of them (F127).

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use cutwater_barrier::CheckpointId;
use cutwater_storage::{Blobs, CheckpointStore, FileRef, Options, testkit::MemoryBlobs};
use futures::executor::block_on;
use support::{lead, metadata, options};
use tempfile::TempDir;

struct World {
    local: TempDir,
    blobs: MemoryBlobs,
    store: CheckpointStore,
}

impl World {
    async fn new() -> Self {
        let local = tempfile::tempdir().unwrap();
        let blobs = MemoryBlobs::new();
        let (store, _) = lead(blobs.clone(), with_copies(local.path())).await;
        Self {
            local,
            blobs,
            store,
        }
    }

    /// A file of the operator `uid`.
    async fn file(&self, id: u64, uid: &str) -> FileRef {
        let bytes = format!("the bytes of {uid} in {id}");
        let files = self.store.files().unwrap();
        let file = files.store(CheckpointId::new(id), uid, 0, "keyed", bytes);
        file.await.unwrap()
    }

    async fn complete(&mut self, id: u64, files: &[FileRef]) {
        let metadata = metadata(&self.store, id, files);
        self.store.complete(&metadata).await.unwrap();
    }

    /// All of a file, as a restore reads it.
    async fn read(&self, file: &FileRef) -> String {
        let files = self.store.files().unwrap();
        let bytes = files.read(file, 0..file.length).await.unwrap();
        String::from_utf8(bytes.into()).unwrap()
    }

    fn copy_of(&self, file: &FileRef) -> PathBuf {
        self.local.path().join(file.path().unwrap())
    }
}

fn with_copies(local: &Path) -> Options {
    let mut options = options();
    options.local_copies = Some(local.to_owned());
    options
}

#[test]
fn an_intact_copy_is_read_instead_of_the_store() {
    block_on(async {
        let mut world = World::new().await;
        let file = world.file(1, "totals").await;
        world.complete(1, std::slice::from_ref(&file)).await;
        // Another process finds it, also when the store has lost it.
        let (store, _) = lead(world.blobs.clone(), with_copies(world.local.path())).await;
        world.store = store;
        world.blobs.delete(file.path().unwrap()).await.unwrap();
        assert_eq!(world.read(&file).await, "the bytes of totals in 1");
        let files = world.store.files().unwrap();
        assert_eq!(files.read(&file, 13..19).await.unwrap(), "totals");
    });
}

#[test]
fn a_damaged_copy_is_deleted_and_the_store_is_asked() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("changed", |copy| {
            let mut bytes = fs::read(copy).unwrap();
            bytes[5] ^= 1;
            fs::write(copy, bytes).unwrap();
        }),
        ("torn", |copy| {
            let bytes = fs::read(copy).unwrap();
            fs::write(copy, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("empty", |copy| fs::write(copy, "").unwrap()),
        ("missing", |copy| fs::remove_file(copy).unwrap()),
    ];
    for (what, damage) in damages {
        block_on(async {
            let mut world = World::new().await;
            let file = world.file(1, "totals").await;
            world.complete(1, std::slice::from_ref(&file)).await;
            let copy = world.copy_of(&file);
            damage(&copy);
            assert_eq!(
                world.read(&file).await,
                "the bytes of totals in 1",
                "{what}"
            );
            assert!(!copy.exists(), "{what}");
        });
    }
}

/// By the id of the newest completed checkpoint: what it names is kept, and what a later one is writing.
#[test]
fn copies_are_kept_of_the_newest_completed_checkpoint() {
    block_on(async {
        let mut world = World::new().await;
        let (shared, old) = (world.file(1, "shared").await, world.file(1, "old").await);
        world.complete(1, &[shared.clone(), old.clone()]).await;
        let aborted = world.file(2, "aborted").await;
        let new = world.file(3, "new").await;
        let later = world.file(4, "later").await;
        let there = |files: [&FileRef; 5]| files.map(|file| world.copy_of(file).exists());
        assert_eq!(there([&shared, &old, &aborted, &new, &later]), [true; 5]);
        world.complete(3, &[shared.clone(), new.clone()]).await;
        let there =
            [&shared, &old, &aborted, &new, &later].map(|file| world.copy_of(file).exists());
        assert_eq!(there, [true, false, false, true, true]);
        // The store keeps checkpoint 1, which is read from there.
        assert_eq!(world.read(&old).await, "the bytes of old in 1");
    });
}

/// B26: two operators with one directory, in one task or not.
#[test]
fn operators_have_copies_of_their_own() {
    block_on(async {
        let mut world = World::new().await;
        let files = [world.file(1, "X").await, world.file(1, "Y").await];
        world.complete(1, &files).await;
        for file in &files {
            world.blobs.delete(file.path().unwrap()).await.unwrap();
        }
        assert_eq!(world.read(&files[0]).await, "the bytes of X in 1");
        assert_eq!(world.read(&files[1]).await, "the bytes of Y in 1");
    });
}

/// Whatever keeps a copy from being written, the checkpoint does without.
#[test]
fn a_checkpoint_does_not_need_its_copies() {
    block_on(async {
        let mut world = World::new().await;
        let in_the_way = world.local.path().join("chk-1");
        fs::write(&in_the_way, "a file where a folder should be").unwrap();
        let file = world.file(1, "totals").await;
        world.complete(1, std::slice::from_ref(&file)).await;
        assert_eq!(world.read(&file).await, "the bytes of totals in 1");
        fs::remove_file(in_the_way).unwrap();
        // And a file that is given up leaves no copy.
        let files = world.store.files().unwrap();
        let mut writer = files.writer(CheckpointId::new(2), "totals", 0, "keyed");
        writer.write("more than one block").await.unwrap();
        drop(writer);
        let left = fs::read_dir(world.local.path().join("chk-2")).unwrap();
        assert_eq!(left.count(), 0);
    });
}
