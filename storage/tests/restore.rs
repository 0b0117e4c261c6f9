//! What an attempt restores from, and what it carries out.

mod support;

use std::future::ready;

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_storage::{
    CheckpointStore, ErrorKind, Operator, Options, PreparedTransaction, Subtask,
    testkit::MemoryBlobs,
};
use futures::executor::block_on;
use support::{ids, lead, metadata, options};

const ID: CheckpointId = CheckpointId::new(1);

/// Completes checkpoint 1: a source with an enumerator, and a sink with two subtasks and five pieces.
async fn complete(store: &mut CheckpointStore) {
    let mut metadata = metadata(store, 1, &[]);
    metadata.add(
        "lines",
        Operator::new("lines").with_coordinator("one split left"),
    );
    let sink = metadata.add("rows", Operator::new("rows"));
    sink.set_prepared([(ID, b"token".to_vec())]);
    for (subtask, pieces) in [(0, &["a", "b", "c"][..]), (1, &["d", "e"])] {
        let mut part = Subtask::default();
        part.operator_state = Bytes::from(format!("rules {subtask}"));
        part.pieces = pieces.iter().map(|piece| Bytes::from(*piece)).collect();
        let mut handle = store.files().unwrap().handle(ID, "rows", subtask);
        handle
            .store("first", format!("alice of {subtask}"))
            .await
            .unwrap();
        handle.store("second", "bob").await.unwrap();
        let groups = KeyGroupRange::new(64 * subtask, 64 * (subtask + 1));
        part.keyed
            .push(handle.finish([groups], format!("manifest {subtask}")));
        sink.subtasks.push(part);
    }
    store.complete(&metadata).await.unwrap();
}

#[test]
fn each_operator_gets_what_is_its_own() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        complete(&mut store).await;
        let old = store.restore_latest().await.unwrap();
        assert_eq!(old.checkpoint(), Some(ID));
        assert_eq!(old.coordinator("lines"), b"one split left");
        assert_eq!(old.coordinator("rows"), b"");
        let states: Vec<_> = old.operator_states("rows").collect();
        assert_eq!(states, ["rules 0", "rules 1"]);
        let prepared: Vec<_> = old.prepared("rows").collect();
        assert_eq!(prepared, [(ID, Bytes::from("token"))]);
        assert_eq!(old.prepared("lines").count(), 0);
        assert_eq!(
            old.keyed("unknown").count() + old.subtasks("unknown").len(),
            0
        );
    });
}

/// The files of a handle are found by the names that the state backend gave them, each handle's its own.
#[test]
fn keyed_state_is_read_by_name() {
    let (mut store, _) = block_on(lead(MemoryBlobs::new(), options()));
    block_on(complete(&mut store));
    let old = block_on(store.restore(ID)).unwrap();
    let mut found = Vec::new();
    for old in old.keyed("rows") {
        let read = old.read_by(block_on);
        let manifest = String::from_utf8_lossy(old.manifest()).into_owned();
        found.push((
            manifest,
            read("first", 9..10).unwrap(),
            read("second", 0..3).unwrap(),
        ));
        let error = read("third", 0..1).unwrap_err();
        assert!(error.to_string().contains("third"), "{error}");
    }
    let [one, two] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (&*one.0, &*one.1, &*one.2),
        ("manifest 0", &b"0"[..], &b"bob"[..])
    );
    assert_eq!((&*two.0, &*two.1), ("manifest 1", &b"1"[..]));
}

/// SPEC 5.5: each piece goes to exactly one subtask, and stays where it is if nothing is rescaled.
#[test]
fn pieces_are_dealt_out_once_to_any_parallelism() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        complete(&mut store).await;
        let old = store.restore_latest().await.unwrap();
        assert_eq!(old.pieces("rows", 1, 2), [b"d", b"e"]);
        for parallelism in 1..=7 {
            let dealt = (0..parallelism).flat_map(|i| old.pieces("rows", i, parallelism));
            assert_eq!(
                dealt.collect::<Vec<_>>().concat(),
                b"abcde",
                "{parallelism}"
            );
        }
    });
}

/// Somebody may have taken committed output away since.
#[test]
fn what_is_noted_as_committed_is_not_committed_again() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        complete(&mut store).await;
        store.committed(ID).await.unwrap();
        let old = store.restore_latest().await.unwrap();
        assert_eq!(old.prepared("rows").count(), 0);
        assert_eq!(old.pieces("rows", 0, 1).len(), 5, "the rest is there");
    });
}

#[test]
fn a_fresh_start_is_an_empty_restore_point() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        let fresh = store.restore_latest().await.unwrap();
        assert_eq!(fresh.checkpoint(), None);
        assert_eq!(fresh.pieces("rows", 0, 1), Vec::<Vec<u8>>::new());
        // Also where there is a checkpoint, and the caller does not want it.
        complete(&mut store).await;
        let fresh = store.restore_nothing().unwrap();
        assert!(fresh.metadata().is_none());
        let error = store.restore(CheckpointId::new(7)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn only_who_leads_may_restore() {
    block_on(async {
        let store = CheckpointStore::open(MemoryBlobs::new(), Options::default()).await;
        let error = store.unwrap().restore_latest().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
    });
}

#[test]
fn a_decision_is_carried_out_in_order() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        for id in 1..=3 {
            let (id, metadata) = (CheckpointId::new(id), metadata(&store, id, &[]));
            store.complete(&metadata).await.unwrap();
            let done = store.carry_out(id, ready(Ok::<_, ()>("committed"))).await;
            assert_eq!(done.unwrap(), Ok("committed"));
            assert_eq!(store.last_committed(), Some(id));
        }
        assert_eq!(ids(&store), [2, 3], "two are kept");
    });
}

#[test]
fn what_the_sinks_refuse_is_not_noted() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        complete(&mut store).await;
        let done = store.carry_out(ID, ready(Err::<(), _>("lost"))).await;
        assert_eq!(done.unwrap(), Err("lost"));
        assert_eq!(store.last_committed(), None);
        assert_eq!(
            store
                .restore_latest()
                .await
                .unwrap()
                .prepared("rows")
                .count(),
            1
        );
    });
}

/// Who was replaced commits nothing.
#[test]
fn a_zombie_does_not_get_to_commit() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut zombie, _) = lead(blobs.clone(), options()).await;
        complete(&mut zombie).await;
        let mut theirs = options();
        theirs.seed = Some(2);
        let (_successor, _) = lead(blobs, theirs).await;
        let mut has_committed = false;
        let commit = async {
            has_committed = true;
            Ok::<_, ()>(())
        };
        let error = zombie.carry_out(ID, commit).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Fenced { .. }), "{error}");
        assert!(!has_committed);
    });
}

#[test]
fn a_transaction_is_stored_as_it_was_named() {
    let mut operator = Operator::new("rows");
    operator.set_prepared([(ID, vec![1]), (ID.next(), vec![2])]);
    let expected = [(ID, vec![1]), (ID.next(), vec![2])];
    let expected = expected.map(|(id, token)| PreparedTransaction::new(id, token));
    assert_eq!(operator.prepared, expected);
}
