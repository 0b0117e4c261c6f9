//! Completing and restoring, on stores that fail, lose replies, or have been damaged.

mod support;

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_storage::{
    Blobs, CheckpointStore, ErrorKind, Fate, LocalBlobs, PreparedTransaction,
    testkit::{Call, Failure, FaultyBlobs, MemoryBlobs, On},
};
use futures::executor::block_on;
use support::{carry_out, complete, file, ids, lead, metadata, objects, options};

const ID: CheckpointId = CheckpointId::new(1);

/// B46c and the "a store that fails or is full in the middle of a checkpoint": any single
/// call fails, in any way, and the checkpoint is either complete or gone.
#[test]
fn whichever_call_fails_the_fate_of_the_checkpoint_is_known() {
    let mut fates = Vec::new();
    for failure in [Failure::Before, Failure::After, Failure::Full] {
        for skip in 0.. {
            let done = block_on(async {
                let memory = MemoryBlobs::new();
                let faulty = FaultyBlobs::new(memory.clone());
                let (mut store, _) = lead(faulty.clone(), options()).await;
                faulty.faults().take_calls();
                faulty.faults().fail(On::any().after(skip), failure);
                let fate = match complete(&mut store, 1).await {
                    Ok(()) => Fate::Completed,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                        store.discard_failed(ID).await.unwrap()
                    }
                };
                fates.push(fate);
                let expected: &[u64] = if fate == Fate::Completed { &[1] } else { &[] };
                assert_eq!(ids(&store), expected);
                memory.cut_power();
                let reader = CheckpointStore::open(memory.clone(), options())
                    .await
                    .unwrap();
                assert_eq!(ids(&reader), expected, "{failure:?} at call {skip}");
                if fate == Fate::Discarded {
                    assert_eq!(objects(&memory).await, Vec::<String>::new(), "B30");
                }
                let met = faulty.faults().take_calls().len() > skip;
                faulty.faults().clear();
                complete(&mut store, 2).await.expect("the job goes on");
                !met
            });
            if done {
                break;
            }
        }
    }
    assert!(fates.contains(&Fate::Completed) && fates.contains(&Fate::Discarded));
}

/// A completion whose reply was lost twice is found to be one, or is given up for good.
#[test]
fn a_completion_of_unknown_outcome_is_settled_once() {
    block_on(async {
        for (failure, fate) in [
            (Failure::After, Fate::Completed),
            (Failure::Before, Fate::Discarded),
        ] {
            let faulty = FaultyBlobs::new(MemoryBlobs::new());
            let (mut store, _) = lead(faulty.clone(), options()).await;
            faulty
                .faults()
                .fail(On::call(Call::Create).path("log/").times(2), failure);
            complete(&mut store, 1).await.unwrap_err();
            assert_eq!(ids(&store), Vec::<u64>::new(), "nothing is assumed");
            assert_eq!(store.discard_failed(ID).await.unwrap(), fate);
            assert_eq!(
                store.discard_failed(ID).await.unwrap(),
                fate,
                "and stays so"
            );
            complete(&mut store, 2).await.unwrap();
        }
    });
}

/// An entry of one's own, whose reply was lost, is not taken for that of a successor.
#[test]
fn a_note_of_unknown_outcome_is_settled_by_the_next_decision() {
    block_on(async {
        for failure in [Failure::After, Failure::Before] {
            let faulty = FaultyBlobs::new(MemoryBlobs::new());
            let (mut store, _) = lead(faulty.clone(), options()).await;
            complete(&mut store, 1).await.unwrap();
            faulty
                .faults()
                .fail(On::call(Call::Create).path("log/").times(2), failure);
            store.committed(ID).await.unwrap_err();
            complete(&mut store, 2).await.unwrap();
            assert_eq!(store.last_committed(), Some(ID));
        }
    });
}

/// Nor is it if the store was full in between, which says nothing about the first try.
#[test]
fn a_full_store_does_not_make_an_open_append_look_like_a_successors() {
    block_on(async {
        let faulty = FaultyBlobs::new(MemoryBlobs::new());
        let (mut store, _) = lead(faulty.clone(), options()).await;
        complete(&mut store, 1).await.unwrap();
        let append = || On::call(Call::Create).path("log/");
        faulty.faults().fail(append().times(2), Failure::After);
        store.committed(ID).await.unwrap_err();
        faulty.faults().fail(append(), Failure::Full);
        let error = complete(&mut store, 2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        complete(&mut store, 3).await.unwrap();
        assert_eq!(store.last_committed(), Some(ID));
    });
}

/// Nor what gave up an open completion, when that reply was lost as well.
#[test]
fn what_gave_up_a_completion_is_known_again() {
    block_on(async {
        let faulty = FaultyBlobs::new(MemoryBlobs::new());
        let (mut store, _) = lead(faulty.clone(), options()).await;
        let append = || On::call(Call::Create).path("log/");
        faulty.faults().fail(append().times(2), Failure::Before);
        complete(&mut store, 1).await.unwrap_err();
        faulty.faults().fail(append(), Failure::After);
        store.discard_failed(ID).await.unwrap_err();
        complete(&mut store, 2).await.unwrap();
        assert_eq!(ids(&store), [2]);
        assert_eq!(store.discard_failed(ID).await.unwrap(), Fate::Discarded);
    });
}

/// B46d, power cut after `complete` returned.
#[test]
fn what_is_complete_is_durable() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        complete(&mut store, 1).await.unwrap();
        file(&store, 2, "in progress").await.unwrap();
        blobs.cut_power();
        let mut reader = CheckpointStore::open(blobs, options()).await.unwrap();
        let mut objects = 0;
        let all = reader.verify(|verified| {
            verified.result.unwrap();
            objects += 1;
        });
        all.await.unwrap();
        assert_eq!(objects, 2);
    });
}

/// B46b: a missing file is not an empty one.
#[test]
fn a_missing_or_changed_object_is_named() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        complete(&mut store, 1).await.unwrap();
        let file = store
            .load(ID)
            .await
            .unwrap()
            .files()
            .next()
            .unwrap()
            .clone();
        let path = file.path().unwrap();
        assert_eq!(store.read(&file, 4..9).await.unwrap(), "bytes");
        assert_eq!(store.read(&file, 3..3).await.unwrap(), "");
        assert_eq!(
            store.read(&file, 0..99).await.unwrap_err().kind(),
            ErrorKind::Misuse
        );
        let intact = blobs.get(path).await.unwrap().unwrap();

        // B63: any byte, and the block of four in which it is.
        for at in 0..intact.len() {
            let mut flipped = intact.to_vec();
            flipped[at] ^= 1;
            blobs.overwrite(path, flipped);
            let error = store.read(&file, 0..file.length).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(
                (error.object(), error.offset()),
                (path, Some(at as u64 / 4 * 4))
            );
            let elsewhere = if at < 8 { 8..file.length } else { 0..8 };
            store.read(&file, elsewhere).await.unwrap();
        }
        for length in 0..intact.len() {
            blobs.overwrite(path, intact.slice(..length));
            let error = store.read(&file, 0..file.length).await.unwrap_err();
            assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, path));
        }
        blobs.delete(path).await.unwrap();
        let error = store.read(&file, 0..1).await.unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, path));
        // Another intact metadata in the place of the one that was completed.
        let other = metadata(&store, 1, &[]).encode();
        blobs.overwrite("chk-1/_metadata-g1", other);
        let error = store.load(ID).await.unwrap_err();
        assert!(
            error.to_string().contains("not what the log says"),
            "{error}"
        );
    });
}

/// SPEC 4.4 and B63: never past a checkpoint whose transactions may be committed.
#[test]
fn an_older_checkpoint_replaces_a_damaged_one_only_without_transactions_between() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        for id in 1..=2 {
            complete(&mut store, id).await.unwrap();
        }
        let older = store.fallback(CheckpointId::new(2)).unwrap();
        assert_eq!(older.checkpoint, ID);
        store.fallback(ID).unwrap_err();

        let mut with_transaction = metadata(&store, 3, &[]);
        let operator = with_transaction.operators.get_mut("totals").unwrap();
        operator
            .prepared
            .push(PreparedTransaction::new(CheckpointId::new(3), "token"));
        store.complete(&with_transaction).await.unwrap();
        complete(&mut store, 4).await.unwrap();
        assert_eq!(
            store
                .fallback(CheckpointId::new(4))
                .unwrap()
                .checkpoint
                .get(),
            3
        );
        let error = store.fallback(CheckpointId::new(3)).unwrap_err();
        assert!(
            error.to_string().contains("transactions of checkpoint 3"),
            "{error}"
        );
    });
}

/// SPEC 4.5: an index that is missing with data present.
#[test]
fn a_missing_log_is_refused_and_nothing_is_deleted() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        complete(&mut store, 1).await.unwrap();
        for entry in blobs.list("log/").await.unwrap() {
            blobs.delete(&entry.path).await.unwrap();
        }
        let error = CheckpointStore::open(blobs.clone(), options())
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, "log/"));
        store.take_over().await.unwrap_err();
        assert_eq!(objects(&blobs).await.len(), 2);
    });
}

/// F131: a damaged or missing entry of the log is not skipped.
#[test]
fn a_hole_in_the_log_is_named() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        for id in 1..=3 {
            complete(&mut store, id).await.unwrap();
        }
        let path = "log/00000000000000000002";
        let intact = blobs.get(path).await.unwrap().unwrap();
        blobs.delete(path).await.unwrap();
        let error = CheckpointStore::open(blobs.clone(), options())
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, path));
        blobs.overwrite(
            path,
            blobs
                .get("log/00000000000000000003")
                .await
                .unwrap()
                .unwrap(),
        );
        let error = CheckpointStore::open(blobs.clone(), options())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("copy of entry 3"), "{error}");
        blobs.overwrite(path, intact);
        CheckpointStore::open(blobs, options()).await.unwrap();
    });
}

#[test]
fn calls_against_the_rules_are_refused() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut reader = CheckpointStore::open(blobs.clone(), options())
            .await
            .unwrap();
        assert_eq!(reader.files().unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(
            reader.apply_retention().await.unwrap_err().kind(),
            ErrorKind::Misuse
        );
        let (mut store, _) = lead(blobs, options()).await;
        complete(&mut store, 1).await.unwrap();
        let again = complete(&mut store, 1).await.unwrap_err();
        assert_eq!(
            again.kind(),
            ErrorKind::Misuse,
            "F134: completed twice: {again}"
        );
        assert_eq!(
            store
                .committed(CheckpointId::new(9))
                .await
                .unwrap_err()
                .kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            store.load(CheckpointId::new(9)).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        // B28: a file of a checkpoint that was never completed.
        let unconfirmed = file(&store, 2, "unconfirmed").await.unwrap();
        store.discard_failed(CheckpointId::new(2)).await.unwrap();
        let named = store
            .complete(&metadata(&store, 3, &[unconfirmed]))
            .await
            .unwrap_err();
        assert_eq!(named.kind(), ErrorKind::Misuse, "{named}");
    });
}

/// The "two processes started on one checkpoint directory".
#[test]
fn on_a_local_directory_the_older_process_learns_who_replaced_it() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let open = || LocalBlobs::open(directory.path()).unwrap();
        let (mut older, first) = lead(open(), options()).await;
        carry_out(&mut older, 1).await.unwrap();
        complete(&mut older, 2).await.unwrap();
        let (mut newer, second) = lead(open(), options()).await;
        assert!(second.generation > first.generation && second.first.get() == 3);
        let fenced = ErrorKind::Fenced {
            newer: second.generation,
        };
        assert_eq!(older.check_leading().await.unwrap_err().kind(), fenced);
        assert_eq!(
            older
                .committed(CheckpointId::new(2))
                .await
                .unwrap_err()
                .kind(),
            fenced
        );
        let error = complete(&mut older, 3).await.unwrap_err();
        assert_eq!(error.kind(), fenced);
        assert!(
            error.to_string().contains("generation 2 has taken over"),
            "{error}"
        );
        assert_eq!(older.apply_retention().await.unwrap_err().kind(), fenced);
        carry_out(&mut newer, 3).await.unwrap();
        assert_eq!(ids(&newer), [1, 2, 3]);
    });
}

/// F135: a small file is within the metadata, a large one is an object, and both read alike.
#[test]
fn small_files_need_no_object() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let mut options = options();
        options.inline_max_bytes = 10;
        let (mut store, _) = lead(blobs.clone(), options).await;
        let mut files = Vec::new();
        for length in [0, 1, 10, 11, 1000] {
            let mut file = store.files().unwrap().writer(ID, "totals", 0, "keyed");
            let bytes: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
            for chunk in bytes.chunks(3) {
                file.write(Bytes::copy_from_slice(chunk)).await.unwrap();
            }
            files.push((bytes, file.finish().await.unwrap()));
        }
        let all: Vec<_> = files.iter().map(|(_, file)| file.clone()).collect();
        store.complete(&metadata(&store, 1, &all)).await.unwrap();
        assert_eq!(objects(&blobs).await.len(), 3, "two files and the metadata");
        let read = store.load(ID).await.unwrap();
        for ((bytes, written), file) in files.iter().zip(read.files()) {
            assert_eq!(file, written);
            let length = bytes.len();
            for range in [
                0..length,
                length / 3..length / 2,
                length.saturating_sub(1)..length,
            ] {
                let read = store
                    .read(file, range.start as u64..range.end as u64)
                    .await
                    .unwrap();
                assert_eq!(read, bytes[range]);
            }
        }
        let dropped = store.files().unwrap().writer(ID, "totals", 0, "dropped");
        drop(dropped);
        assert_eq!(objects(&blobs).await.len(), 3);
    });
}

/// How its writer cuts a file into chunks, and whether it begins inline, changes nothing about it.
#[test]
fn a_file_is_the_same_in_chunks_of_any_size() {
    block_on(async {
        for inline_max_bytes in [0, 3, 4, 9] {
            let mut options = options();
            options.inline_max_bytes = inline_max_bytes;
            let (store, _) = lead(MemoryBlobs::new(), options).await;
            let files = store.files().unwrap();
            let bytes: Vec<u8> = (10..33).collect();
            let whole = files.store(ID, "totals", 0, "keyed", bytes.clone());
            let whole = whole.await.unwrap();
            for size in 1..bytes.len() {
                let mut file = files.writer(ID, "totals", 0, "keyed");
                for chunk in bytes.chunks(size) {
                    file.write(Bytes::copy_from_slice(chunk)).await.unwrap();
                }
                let file = file.finish().await.unwrap();
                assert_eq!((file.length, &file.checksums), (23, &whole.checksums));
                let read = store.read(&file, 0..23).await.unwrap();
                assert_eq!(read, bytes, "chunks of {size}, {inline_max_bytes} inline");
            }
        }
    });
}

#[test]
fn the_newest_checkpoint_is_loaded_and_its_files_are_read_by_name() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        assert_eq!(store.load_latest().await.unwrap(), None);
        complete(&mut store, 1).await.unwrap();
        let files = [
            file(&store, 2, "one").await.unwrap(),
            file(&store, 2, "two").await.unwrap(),
        ];
        let second = metadata(&store, 2, &files);
        store.complete(&second).await.unwrap();
        assert_eq!(store.load_latest().await.unwrap().as_ref(), Some(&second));

        let handle = &second.subtasks_of("totals")[0].keyed[0];
        let reader = store.files().unwrap().reader(handle);
        assert_eq!(reader.read("two", 4..16).await.unwrap(), "bytes of two");
        let error = reader.read("three", 0..1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("three"), "{error}");
    });
}
