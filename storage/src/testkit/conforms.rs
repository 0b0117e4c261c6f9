//! The exam of a [`Blobs`].

use std::{future::Future, pin::Pin, sync::Barrier, thread};

use bytes::Bytes;

use crate::{Blobs, BlobsExt, Create, ErrorKind, SharedBlobs, Upload};

/// Runs a future to its end: `&|future| futures::executor::block_on(future)`, or a runtime's. Several
/// threads use it at once.
pub type BlockOn<'a> = &'a (dyn Fn(Pin<Box<dyn Future<Output = ()> + Send + '_>>) + Sync);

/// So many race to create one blob (CASES B48), and fewer to create a large one, as each writes it.
const RACERS: usize = 50;
const RACERS_LARGE: usize = 8;

/// Larger than the least part of a multipart upload, 5 MiB: several stores decided races for small
/// blobs only (CASES B48).
const LARGE: usize = 6 << 20;

type Check = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Examines an implementation of [`Blobs`]. `open` gives an empty store each time.
///
/// ```
/// use cutwater_storage::testkit::{MemoryBlobs, conforms};
///
/// conforms(MemoryBlobs::new, &|future| futures::executor::block_on(future));
/// ```
pub fn conforms<B: Blobs>(open: impl Fn() -> B, block_on: BlockOn<'_>) {
    let open = || SharedBlobs::new(open());
    let checks: [fn(SharedBlobs) -> Check; 8] = [
        |blobs| Box::pin(nothing_is_there_at_first(blobs)),
        |blobs| Box::pin(a_range_is_cut_at_the_end_of_the_blob(blobs)),
        |blobs| Box::pin(an_upload_is_visible_once_finished(blobs)),
        |blobs| Box::pin(an_upload_replaces_a_blob_whole(blobs)),
        |blobs| Box::pin(a_second_create_loses(blobs)),
        |blobs| Box::pin(a_listing_is_by_prefix_and_in_order(blobs)),
        |blobs| Box::pin(a_deleted_blob_is_gone(blobs)),
        |blobs| Box::pin(paths_that_leave_the_root_are_refused(blobs)),
    ];
    for check in checks {
        block_on(check(open()));
    }
    of_racing_creators_one_wins(&open(), RACERS, 16, block_on);
    of_racing_creators_one_wins(&open(), RACERS_LARGE, LARGE, block_on);
}

async fn nothing_is_there_at_first(blobs: SharedBlobs) {
    assert_eq!(blobs.get("a/b").await.unwrap(), None);
    assert_eq!(blobs.get_range("a/b", 0..1).await.unwrap(), None);
    assert_eq!(blobs.list("").await.unwrap(), []);
    assert_eq!(blobs.list("a/").await.unwrap(), []);
    blobs.delete("a/b").await.unwrap();
    blobs.sync("").await.unwrap();
    blobs.sweep().await.unwrap();
}

async fn a_range_is_cut_at_the_end_of_the_blob(blobs: SharedBlobs) {
    blobs
        .put("a/b", Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    for (range, expected) in [
        (0..10, "0123456789"),
        (3..5, "34"),
        (8..12, "89"),
        (10..12, ""),
        (20..30, ""),
    ] {
        let read = blobs.get_range("a/b", range.clone()).await.unwrap();
        assert_eq!(read.as_deref(), Some(expected.as_bytes()), "{range:?}");
    }
}

async fn an_upload_is_visible_once_finished(blobs: SharedBlobs) {
    let mut upload = blobs.upload("a/b").await.unwrap();
    upload.write(Bytes::from_static(b"01")).await.unwrap();
    upload.write(vec![b'2'; LARGE].into()).await.unwrap();
    assert_eq!(
        blobs.get("a/b").await.unwrap(),
        None,
        "before it is finished"
    );
    assert_eq!(blobs.list("").await.unwrap(), [], "before it is finished");
    upload.finish().await.unwrap();
    let read = blobs.get("a/b").await.unwrap().unwrap();
    assert_eq!((&read[..3], read.len()), (&b"012"[..], LARGE + 2));
    blobs.sync("a/").await.unwrap();

    let mut dropped = blobs.upload("a/c").await.unwrap();
    dropped.write(Bytes::from_static(b"01")).await.unwrap();
    drop(dropped);
    assert_eq!(
        blobs.get("a/c").await.unwrap(),
        None,
        "dropped before it was finished"
    );
    blobs.upload("a/d").await.unwrap().finish().await.unwrap();
    assert_eq!(
        blobs.get("a/d").await.unwrap(),
        Some(Bytes::new()),
        "an empty blob is a blob"
    );
}

async fn an_upload_replaces_a_blob_whole(blobs: SharedBlobs) {
    blobs
        .put("a", Bytes::from_static(b"a long old one"))
        .await
        .unwrap();
    blobs.put("a", Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(blobs.get("a").await.unwrap().as_deref(), Some(&b"new"[..]));
}

async fn a_second_create_loses(blobs: SharedBlobs) {
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
    assert_eq!(
        blobs.create("a/b", first.clone()).await.unwrap(),
        Create::Created
    );
    let lost = Create::Exists(first.clone());
    assert_eq!(blobs.create("a/b", second.clone()).await.unwrap(), lost);
    assert_eq!(
        blobs.create("a/b", first.clone()).await.unwrap(),
        lost,
        "with the same bytes too"
    );
    assert_eq!(blobs.get("a/b").await.unwrap(), Some(first.clone()));
    blobs.put("a/c", first.clone()).await.unwrap();
    assert_eq!(
        blobs.create("a/c", second.clone()).await.unwrap(),
        lost,
        "to an upload too"
    );
    blobs.delete("a/b").await.unwrap();
    assert_eq!(
        blobs.create("a/b", second).await.unwrap(),
        Create::Created,
        "the path is free again"
    );
}

async fn a_listing_is_by_prefix_and_in_order(blobs: SharedBlobs) {
    for path in [
        "chk-2/b",
        "chk-10/a",
        "chk-1/z",
        "chk-1/a/b",
        "log/2",
        "log/1",
        "chk-1.x",
    ] {
        blobs.put(path, Bytes::from_static(b"123")).await.unwrap();
    }
    let paths = async |prefix| {
        let listed = blobs.list(prefix).await.unwrap();
        assert!(listed.iter().all(|blob| blob.bytes == 3));
        listed.into_iter().map(|blob| blob.path).collect::<Vec<_>>()
    };
    assert_eq!(paths("log/").await, ["log/1", "log/2"]);
    assert_eq!(paths("chk-1/").await, ["chk-1/a/b", "chk-1/z"]);
    assert_eq!(
        paths("chk-1").await,
        ["chk-1.x", "chk-1/a/b", "chk-1/z", "chk-10/a"]
    );
    assert_eq!(
        paths("chk-").await,
        ["chk-1.x", "chk-1/a/b", "chk-1/z", "chk-10/a", "chk-2/b"]
    );
    assert_eq!(paths("").await.len(), 7);
    assert_eq!(paths("nothing/").await.len(), 0);
}

async fn a_deleted_blob_is_gone(blobs: SharedBlobs) {
    for path in ["a/b/c", "a/b/d"] {
        blobs.put(path, Bytes::new()).await.unwrap();
    }
    blobs.delete("a/b/c").await.unwrap();
    assert_eq!(blobs.get("a/b/c").await.unwrap(), None);
    assert_eq!(blobs.list("a/").await.unwrap().len(), 1);
    blobs.delete("a/b/d").await.unwrap();
    assert_eq!(blobs.list("").await.unwrap(), []);
    blobs.put("a/b/c", Bytes::new()).await.unwrap();
    assert_eq!(
        blobs.list("a/").await.unwrap().len(),
        1,
        "in a folder that had become empty"
    );
}

async fn paths_that_leave_the_root_are_refused(blobs: SharedBlobs) {
    for path in ["", "/a", "../a", "a/../../b", "a//b", "./a"] {
        let error = blobs.put(path, Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "put {path:?}");
        let error = blobs.create(path, Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "create {path:?}");
        let error = blobs.get(path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "get {path:?}");
    }
}

/// Exactly one of many racing creators wins, and nobody sees half of what it wrote (CASES B48).
fn of_racing_creators_one_wins(
    blobs: &SharedBlobs,
    racers: usize,
    size: usize,
    block_on: BlockOn<'_>,
) {
    let start = Barrier::new(racers);
    // One byte each, all over: a torn or mixed blob shows.
    let wrote = |racer: usize| Bytes::from(vec![u8::try_from(racer).unwrap(); size]);
    let race = |racer| {
        let (start, mut seen) = (&start, None);
        let outcome = &mut seen;
        block_on(Box::pin(async move {
            start.wait();
            if let Some(early) = blobs.get("race/blob").await.unwrap() {
                assert!(
                    early.len() == size && early.iter().all(|byte| *byte == early[0]),
                    "torn read"
                );
            }
            *outcome = Some(blobs.create("race/blob", wrote(racer)).await.unwrap());
        }));
        seen.unwrap()
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..racers)
            .map(|racer| scope.spawn(move || race(racer)))
            .collect();
        threads
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    let winners: Vec<_> = (0..racers)
        .filter(|racer| outcomes[*racer] == Create::Created)
        .collect();
    assert_eq!(winners.len(), 1, "winners of a race of {racers}");
    let winner = wrote(winners[0]);
    for (racer, outcome) in outcomes.into_iter().enumerate() {
        if racer != winners[0] {
            assert!(
                outcome == Create::Exists(winner.clone()),
                "racer {racer} got other bytes than the winner's"
            );
        }
    }
}
