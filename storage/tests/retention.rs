//! What is kept, what is deleted, and what is left alone when in doubt.

mod support;

use cutwater_barrier::{CheckpointId, Generation, Kind};
use cutwater_storage::{
    Blobs, BlobsExt, CheckpointStore, ErrorKind,
    testkit::{Call, Failure, FaultyBlobs, MemoryBlobs, On},
};
use futures::executor::block_on;
use support::{carry_out, complete, file, ids, lead, metadata, objects, options};

/// SPEC 3.5, the golden scenario: C100={A,B,C}, C101={A,B,D}, C102={B,D,E}.
#[test]
fn a_file_lives_as_long_as_a_retained_checkpoint_names_it() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut options = options();
        options.keep = 1;
        let (mut store, _) = lead(blobs.clone(), options).await;
        let mut files = Vec::new();
        for (id, name) in [(100, "A"), (100, "B"), (100, "C"), (101, "D"), (102, "E")] {
            files.push(file(&store, id, name).await.unwrap());
        }
        let [a, b, c, d, e] = files.try_into().unwrap();
        let there = async || {
            let objects = objects(&blobs).await;
            let names = objects
                .iter()
                .filter_map(|object| object.rsplit('-').nth(1)?.chars().next());
            names.filter(char::is_ascii_uppercase).collect::<String>()
        };
        for (id, files, left) in [
            (100, [&a, &b, &c], "ABCDE"),
            (101, [&a, &b, &d], "ABDE"), // discarding 100 deletes C only
            (102, [&b, &d, &e], "BDE"),  // discarding 101 deletes A only
        ] {
            let metadata = metadata(&store, id, &files.map(Clone::clone));
            store.complete(&metadata).await.unwrap();
            store.committed(CheckpointId::new(id)).await.unwrap();
            store.apply_retention().await.unwrap();
            assert_eq!(there().await, left, "after {id}");
        }
    });
}

/// F129, and the rule that recovery commits from a checkpoint: it stays until that is done.
#[test]
fn the_newest_the_uncommitted_the_pinned_and_savepoints_are_kept() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        let mut savepoint = metadata(&store, 1, &[]);
        savepoint.kind = Kind::Savepoint;
        store.complete(&savepoint).await.unwrap();
        for id in 2..=4 {
            carry_out(&mut store, id).await.unwrap();
        }
        let pin = store.pin(CheckpointId::new(2)).unwrap();
        for id in 5..=8 {
            complete(&mut store, id).await.unwrap();
        }
        assert_eq!(store.uncommitted().count(), 4);
        let deleted = store.apply_retention().await.unwrap();
        assert_eq!(deleted.discarded, [3, 4].map(CheckpointId::new));
        assert_eq!(ids(&store), [1, 2, 5, 6, 7, 8]);
        // B50: until it is unpinned.
        drop(pin);
        store.committed(CheckpointId::new(8)).await.unwrap();
        store.apply_retention().await.unwrap();
        assert_eq!(ids(&store), [1, 7, 8]);
    });
}

/// B41: savepoints do not push out the last checkpoint.
#[test]
fn savepoints_do_not_count_as_the_newest_checkpoints() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        carry_out(&mut store, 1).await.unwrap();
        for id in 2..=4 {
            let mut savepoint = metadata(&store, id, &[]);
            savepoint.kind = Kind::Savepoint;
            store.complete(&savepoint).await.unwrap();
            store.committed(CheckpointId::new(id)).await.unwrap();
        }
        assert_eq!(store.apply_retention().await.unwrap().discarded, []);
        assert_eq!(ids(&store), [1, 2, 3, 4]);
    });
}

/// B46a: nobody knows what a damaged checkpoint needs.
#[test]
fn a_damaged_retained_checkpoint_stops_deletion_and_is_named() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        for id in 1..=4 {
            carry_out(&mut store, id).await.unwrap();
        }
        // A process that has not seen its metadata while it was intact.
        blobs.overwrite("chk-3/_metadata-g1", "rubbish");
        let before = objects(&blobs).await;
        let (mut store, _) = lead(blobs.clone(), options()).await;
        let error = store.apply_retention().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.object()),
            (ErrorKind::Corrupt, "chk-3/_metadata-g1")
        );
        assert_eq!(objects(&blobs).await, before);
        let error = store.prune().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(objects(&blobs).await, before);
    });
}

/// F130: what could not be deleted is deleted later, also by a successor.
#[test]
fn a_failed_deletion_is_done_again() {
    for skip in 0..4 {
        block_on(async {
            let memory = MemoryBlobs::new();
            let faulty = FaultyBlobs::new(memory.clone());
            let (mut store, _) = lead(faulty.clone(), options()).await;
            for id in 1..=4 {
                carry_out(&mut store, id).await.unwrap();
            }
            faulty
                .faults()
                .fail(On::call(Call::Delete).after(skip), Failure::Before);
            let failed = store.apply_retention().await;
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(ids(&store), [3, 4], "the decision stands");
            let (mut successor, _) = lead(memory.clone(), options()).await;
            successor.apply_retention().await.unwrap();
            assert_eq!(
                objects(&memory).await.len(),
                4,
                "two checkpoints of two objects"
            );
        });
    }
}

/// The log says so before anything is deleted.
#[test]
fn a_checkpoint_is_discarded_in_the_log_before_its_files_go() {
    block_on(async {
        let faulty = FaultyBlobs::new(MemoryBlobs::new());
        let (mut store, _) = lead(faulty.clone(), options()).await;
        for id in 1..=4 {
            carry_out(&mut store, id).await.unwrap();
        }
        faulty.faults().take_calls();
        faulty
            .faults()
            .fail(On::call(Call::Create).path("log/"), Failure::Full);
        store.apply_retention().await.unwrap_err();
        let calls = faulty.faults().take_calls();
        assert!(
            calls.iter().all(|(call, _)| *call != Call::Delete),
            "{calls:?}"
        );
        assert_eq!(ids(&store), [1, 2, 3, 4]);
    });
}

/// B47: nothing of a job's own is an orphan, what a crash left is, and only once a successor leads.
#[test]
fn orphans_are_what_a_crash_left() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        carry_out(&mut store, 1).await.unwrap();
        file(&store, 2, "left").await.unwrap();
        assert_eq!(store.orphans().await.unwrap(), [], "it may be in progress");
        drop(store);
        let (mut successor, term) = lead(blobs.clone(), options()).await;
        assert_eq!(term.first.get(), 3, "above what is listed");
        carry_out(&mut successor, 3).await.unwrap();
        let pruned = successor.prune().await.unwrap();
        assert_eq!(pruned.len(), 1);
        assert!(pruned[0].path.starts_with("chk-2/totals.0.left."));
        assert_eq!(objects(&blobs).await.len(), 4);
        assert_eq!(successor.orphans().await.unwrap(), []);
    });
}

/// Retention keeps the log short, however long a savepoint lives.
#[test]
fn the_log_stays_short() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut options = options();
        options.log_entries = 10;
        let (mut store, _) = lead(blobs.clone(), options.clone()).await;
        let mut savepoint = metadata(&store, 1, &[]);
        savepoint.kind = Kind::Savepoint;
        store.complete(&savepoint).await.unwrap();
        for id in 2..=60 {
            carry_out(&mut store, id).await.unwrap();
            store.apply_retention().await.unwrap();
            let entries = blobs.list("log/").await.unwrap().len();
            assert!(entries <= 24, "{entries} entries after {id}");
        }
        let reader = CheckpointStore::open(blobs, options).await.unwrap();
        assert_eq!(ids(&reader), [1, 59, 60]);
        assert_eq!(reader.last_committed(), Some(CheckpointId::new(60)));
        assert_eq!(reader.generation(), Some(Generation::new(1)));
    });
}

/// The ids of failed checkpoints are not used again, though all that told of them is trimmed.
#[test]
fn ids_stay_used_when_the_log_is_trimmed() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut options = options();
        options.log_entries = 10;
        let (mut store, _) = lead(blobs.clone(), options.clone()).await;
        carry_out(&mut store, 1).await.unwrap();
        complete(&mut store, 2).await.unwrap();
        for id in 3..=30 {
            store.discard_failed(CheckpointId::new(id)).await.unwrap();
        }
        // Says again what is needed, behind the failures; then a last word of an old id.
        store.apply_retention().await.unwrap();
        store.committed(CheckpointId::new(2)).await.unwrap();
        store.apply_retention().await.unwrap();
        let entries = blobs.list("log/").await.unwrap().len();
        assert_eq!(entries, 4, "both completions, both commits");
        let (_, term) = lead(blobs, options).await;
        assert_eq!(term.first, CheckpointId::new(31));
    });
}

/// More savepoints than the log may have entries: it has as many as it needs, and no more.
#[test]
fn a_log_shorter_than_what_is_kept_is_not_asked_for() {
    block_on(async {
        let mut options = options();
        options.log_entries = 1;
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options).await;
        for id in 1..=20 {
            let mut savepoint = metadata(&store, id, &[]);
            savepoint.kind = Kind::Savepoint;
            store.complete(&savepoint).await.unwrap();
            store.committed(CheckpointId::new(id)).await.unwrap();
            store.apply_retention().await.unwrap();
        }
        assert_eq!(ids(&store).len(), 20);
        assert!(blobs.list("log/").await.unwrap().len() <= 60);
    });
}

/// Incremental checkpoints name the same files, and a fault in one is a fault of each of them.
#[test]
fn a_file_that_several_checkpoints_name_is_read_once_and_reported_for_each() {
    block_on(async {
        let faulty = FaultyBlobs::new(MemoryBlobs::new());
        let mut options = options();
        options.keep = 3;
        let (mut store, _) = lead(faulty.clone(), options).await;
        let shared = file(&store, 1, "shared").await.unwrap();
        for id in 1..=3 {
            let own = file(&store, id, "own").await.unwrap();
            let metadata = metadata(&store, id, &[shared.clone(), own]);
            store.complete(&metadata).await.unwrap();
        }
        let path = shared.path().unwrap().to_owned();
        let reads = |calls: Vec<(Call, String)>| {
            let reads = calls
                .into_iter()
                .filter(|(call, of)| *call == Call::GetRange && *of == path);
            reads.count()
        };
        faulty.faults().take_calls();
        let mut reported = 0;
        let count = |verified: cutwater_storage::Verified| {
            verified.result.unwrap();
            reported += usize::from(verified.object == path);
        };
        store.verify(count).await.unwrap();
        assert_eq!(reported, 3);
        assert_eq!(
            reads(faulty.faults().take_calls()),
            2,
            "its bytes, and that nothing follows"
        );

        faulty
            .inner()
            .put(&path, "other bytes".into())
            .await
            .unwrap();
        let mut faults = Vec::new();
        let found = store.verify(|verified| faults.extend(verified.result.err()));
        found.await.unwrap();
        assert_eq!(faults.len(), 3);
    });
}

/// Whatever one checkpoint says of a file is no word for another.
#[test]
fn a_file_is_read_again_for_a_checkpoint_that_says_something_else_of_it() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        let right = file(&store, 1, "shared").await.unwrap();
        let mut wrong = right.clone();
        wrong.checksums[1] ^= 1;
        for (id, file) in [(1, right), (2, wrong)] {
            let metadata = metadata(&store, id, &[file]);
            store.complete(&metadata).await.unwrap();
        }
        let mut faults = Vec::new();
        let found = store.verify(|verified| {
            faults.extend(
                verified
                    .result
                    .err()
                    .map(|error| (verified.checkpoint, error.offset())),
            );
        });
        found.await.unwrap();
        assert_eq!(faults, [(CheckpointId::new(2), Some(4))]);
    });
}
