//! Files that several checkpoints name: who may name which, and how long they live.

mod support;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_storage::{
    CheckpointStore, ErrorKind, Fate, HandleWriter, KeyedHandle, Metadata, Subtask,
    testkit::MemoryBlobs,
};
use futures::executor::block_on;
use support::{lead, metadata, objects, options};

/// Keeps the newest checkpoint only.
async fn store(blobs: &MemoryBlobs) -> CheckpointStore {
    let mut options = options();
    options.keep = 1;
    lead(blobs.clone(), options).await.0
}

fn handle(store: &CheckpointStore, id: u64) -> HandleWriter {
    let files = store.files().unwrap();
    files.handle(CheckpointId::new(id), "totals", 0)
}

/// Stores new files, each called by a letter.
async fn add(handle: &mut HandleWriter, names: &str) {
    for name in names.chars() {
        let bytes = format!("the bytes of {name}");
        handle.store(&name.to_string(), bytes).await.unwrap();
    }
}

/// Asks for files of earlier checkpoints, and says which it got.
fn reused(handle: &mut HandleWriter, names: &str) -> String {
    let got = |name: &char| handle.reuse(&name.to_string());
    names.chars().filter(got).collect()
}

fn finished(store: &CheckpointStore, id: u64, handle: HandleWriter) -> Metadata {
    let handle = handle.finish([KeyGroupRange::new(0, 128)], "");
    with(store, id, handle)
}

fn with(store: &CheckpointStore, id: u64, handle: KeyedHandle) -> Metadata {
    let mut metadata = metadata(store, id, &[]);
    let mut subtask = Subtask::default();
    subtask.keyed.push(handle);
    let operator = metadata.operators.get_mut("totals").unwrap();
    operator.subtasks = vec![subtask];
    metadata
}

async fn complete(store: &mut CheckpointStore, metadata: &Metadata) {
    store.complete(metadata).await.unwrap();
    store.committed(metadata.checkpoint).await.unwrap();
    store.apply_retention().await.unwrap();
}

/// The letters of the state files that are there.
async fn there(blobs: &MemoryBlobs) -> String {
    let objects = objects(blobs).await;
    let names = objects
        .iter()
        .filter_map(|object| object.rsplit('-').nth(1)?.chars().next());
    names.filter(char::is_ascii_uppercase).collect()
}

/// SPEC 3.5, the golden scenario: C100={A,B,C}, C101={A,B,D}, C102={B,D,E}.
#[test]
fn each_file_is_stored_once_and_lives_as_long_as_it_is_named() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut store = store(&blobs).await;
        for (id, old, new, left) in [
            (100, "", "ABC", "ABC"),
            (101, "AB", "D", "ABD"), // discarding 100 deletes C only
            (102, "BD", "E", "BDE"), // discarding 101 deletes A only
        ] {
            let mut handle = handle(&store, id);
            assert_eq!(reused(&mut handle, old), old);
            add(&mut handle, new).await;
            let metadata = finished(&store, id, handle);
            complete(&mut store, &metadata).await;
            assert_eq!(there(&blobs).await, left, "after {id}");
        }
        // A successor, which knows nothing but what is stored, reads C102.
        let successor = self::store(&blobs).await;
        let old = successor.restore_latest().await.unwrap();
        let reader = old.files().reader(&old.subtasks("totals")[0].keyed[0]);
        for name in ["B", "D", "E"] {
            let bytes = reader.read(name, 13..14).await.unwrap();
            assert_eq!(bytes, name);
        }
        // And names its files again.
        assert_eq!(reused(&mut handle(&successor, 103), "ABCDE"), "BDE");
    });
}

/// B28: what an unconfirmed checkpoint stored cannot be had, nor what nobody stored.
#[test]
fn only_files_of_retained_checkpoints_can_be_reused() {
    block_on(async {
        let mut store = store(&MemoryBlobs::new()).await;
        let mut unconfirmed = handle(&store, 1);
        add(&mut unconfirmed, "A").await;
        assert_eq!(reused(&mut handle(&store, 2), "AX"), "");
        let metadata = finished(&store, 1, unconfirmed);
        complete(&mut store, &metadata).await;
        assert_eq!(reused(&mut handle(&store, 2), "AX"), "A");
    });
}

/// C101 completes, and C100 is discarded, while C102 has already named a file of C100 that C101 has
/// not: with several checkpoints at once, or if a task hears late that C101 is complete.
#[test]
fn what_a_checkpoint_in_progress_names_is_not_deleted() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut store = store(&blobs).await;
        let mut first = handle(&store, 100);
        add(&mut first, "AB").await;
        let metadata = finished(&store, 100, first);
        complete(&mut store, &metadata).await;

        let mut slow = handle(&store, 102);
        assert_eq!(reused(&mut slow, "A"), "A");
        let mut fast = handle(&store, 101);
        assert_eq!(reused(&mut fast, "B"), "B");
        let metadata = finished(&store, 101, fast);
        complete(&mut store, &metadata).await;
        assert_eq!(there(&blobs).await, "AB");

        let metadata = finished(&store, 102, slow);
        complete(&mut store, &metadata).await;
        assert_eq!(there(&blobs).await, "A");
    });
}

/// F124, B30: the promise ends with the checkpoint it was made to, and deletion catches up.
#[test]
fn what_a_failed_checkpoint_named_is_deleted_after_it() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut store = store(&blobs).await;
        let mut first = handle(&store, 100);
        add(&mut first, "AB").await;
        let metadata = finished(&store, 100, first);
        complete(&mut store, &metadata).await;

        let mut failing = handle(&store, 102);
        assert_eq!(reused(&mut failing, "A"), "A");
        add(&mut failing, "C").await;
        let mut fast = handle(&store, 101);
        add(&mut fast, "D").await;
        let metadata = finished(&store, 101, fast);
        complete(&mut store, &metadata).await;
        assert_eq!(there(&blobs).await, "ADC", "B was promised to nobody");

        let fate = store.discard_failed(CheckpointId::new(102)).await.unwrap();
        assert_eq!(fate, Fate::Discarded);
        store.apply_retention().await.unwrap();
        assert_eq!(there(&blobs).await, "D");
        // Too late, and refused with the reason.
        let metadata = finished(&store, 103, failing);
        let error = store.complete(&metadata).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("may be deleted"), "{error}");
    });
}

/// B31: one name, two objects. Whoever asks could mean either, and so gets none.
#[test]
fn a_name_that_means_two_files_of_a_checkpoint_means_none() {
    block_on(async {
        let mut store = store(&MemoryBlobs::new()).await;
        let mut twice = handle(&store, 1);
        add(&mut twice, "AAB").await;
        let metadata = finished(&store, 1, twice);
        complete(&mut store, &metadata).await;
        assert_eq!(reused(&mut handle(&store, 2), "AB"), "B");
    });
}

/// Bytes that are in the metadata are copied into the next one.
#[test]
fn inline_files_are_reused_as_well() {
    block_on(async {
        let mut options = options();
        options.keep = 1;
        options.inline_max_bytes = 100;
        let (mut store, _) = lead(MemoryBlobs::new(), options).await;
        for id in 1..4 {
            let mut handle = handle(&store, id);
            if reused(&mut handle, "A").is_empty() {
                assert_eq!(id, 1);
                add(&mut handle, "A").await;
            }
            let metadata = finished(&store, id, handle);
            complete(&mut store, &metadata).await;
        }
        let old = store.restore_latest().await.unwrap();
        let reader = old.files().reader(&old.subtasks("totals")[0].keyed[0]);
        assert_eq!(reader.read("A", 4..9).await.unwrap(), "bytes");
    });
}
