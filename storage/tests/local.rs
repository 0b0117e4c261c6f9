//! What `LocalBlobs` does to a directory, beyond what every store promises.

use std::{fs, path::Path};

use bytes::Bytes;
use cutwater_storage::{Blobs, BlobsExt, CheckpointStore, ErrorKind, LocalBlobs, Options, Upload};
use futures::executor::block_on;

fn bytes() -> Bytes {
    Bytes::from_static(b"bytes")
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_crashed_process_left_unfinished_is_invisible_and_swept() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        blobs.put("chk-1/kept", bytes()).await.unwrap();
        let mut upload = blobs.upload("chk-1/crashed").await.unwrap();
        upload.write(bytes()).await.unwrap();
        std::mem::forget(upload);
        let left = directory.path().join(".unfinished");
        assert_eq!(entries(&left).len(), 1);
        assert_eq!(blobs.list("").await.unwrap().len(), 1);

        // Taking over sweeps; opening and reading does not.
        let open = CheckpointStore::open(
            LocalBlobs::open(directory.path()).unwrap(),
            Options::default(),
        );
        open.await.unwrap_err();
        assert_eq!(entries(&left).len(), 1);
        blobs.delete("chk-1/kept").await.unwrap();
        let successor = LocalBlobs::open(directory.path()).unwrap();
        let mut store = CheckpointStore::open(successor, Options::default())
            .await
            .unwrap();
        store.take_over().await.unwrap();
        assert_eq!(entries(&left), Vec::<String>::new());
    });
}

#[test]
fn an_upload_that_is_dropped_or_overtaken_by_a_sweep_leaves_nothing() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        drop(blobs.upload("a").await.unwrap());
        assert_eq!(
            entries(&directory.path().join(".unfinished")),
            Vec::<String>::new()
        );
        let mut upload = blobs.upload("a").await.unwrap();
        upload.write(bytes()).await.unwrap();
        LocalBlobs::open(directory.path())
            .unwrap()
            .sweep()
            .await
            .unwrap();
        let error = upload.finish().await.unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Io, "a"));
        assert_eq!(blobs.get("a").await.unwrap(), None);
    });
}

#[test]
fn directories_that_became_empty_go_with_their_last_blob() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        for _ in 0..3 {
            blobs.put("chk-1/a/b", bytes()).await.unwrap();
            blobs.create("chk-1/c", bytes()).await.unwrap();
            blobs.sync("chk-1/").await.unwrap();
            blobs.delete("chk-1/a/b").await.unwrap();
            assert_eq!(entries(&directory.path().join("chk-1")), ["c"]);
            blobs.delete("chk-1/c").await.unwrap();
            assert_eq!(entries(directory.path()), [".unfinished"]);
        }
    });
}

#[test]
fn more_uploads_than_files_may_be_open_are_synced_together() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        for i in 0..140 {
            blobs.put(&format!("chk-1/{i}"), bytes()).await.unwrap();
        }
        blobs.sync("chk-1/").await.unwrap();
        blobs.sync("chk-1/").await.unwrap();
        assert_eq!(blobs.list("chk-1/").await.unwrap().len(), 140);
    });
}

#[test]
fn a_directory_that_is_not_there_is_not_made_by_reading() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("nowhere");
    let error = LocalBlobs::open_existing(&nowhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(entries(directory.path()), Vec::<String>::new());
}

#[test]
fn an_error_of_the_disk_names_the_object_and_what_was_tried() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(directory.path()).unwrap();
        blobs.put("a", bytes()).await.unwrap();
        // Below a file there can be no other.
        let error = blobs.create("a/b", bytes()).await.unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Io, "a/b"));
        assert!(
            error.is_without_effect() && error.to_string().starts_with("a/b: could not create"),
            "{error}"
        );
        let error = blobs.put("a/b", bytes()).await.unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Io, "a/b"));
    });
}
