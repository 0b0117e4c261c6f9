//! Records in flight: written by receiving subtask, found by channel, kept and deleted with their
//! checkpoint.

mod support;

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_storage::{
    Blobs, BlobsExt, ChannelState, CheckpointStore, ErrorKind, InFlight, Options,
    testkit::MemoryBlobs,
};
use futures::executor::block_on;
use support::{lead, metadata, objects, options};

/// Two channels of one edge and one of another, between the same two tasks, and an idle one.
async fn in_flight(store: &CheckpointStore, id: u64) -> ChannelState {
    let files = store.files().unwrap();
    let mut writer = files.channel_state(CheckpointId::new(id), "totals", 2);
    for (edge, from, batches) in [
        ("numbers", 0, &["alice 50, ", "bob 7"][..]),
        ("idle", 0, &[]),
        ("numbers", 1, &["carol 1"]),
        ("rules", 1, &["no limit"]),
    ] {
        let records = batches.len() as u64;
        writer.channel(InFlight::new(edge, "(String, u64)", from, 2, records));
        for batch in batches {
            writer.write(*batch).await.unwrap();
        }
    }
    writer.finish().await.unwrap().expect("something in flight")
}

async fn complete(store: &mut CheckpointStore, id: u64) {
    let mut metadata = metadata(store, id, &[]);
    metadata.channels.push(in_flight(store, id).await);
    store.complete(&metadata).await.unwrap();
    store.committed(CheckpointId::new(id)).await.unwrap();
}

/// F070; CASES B12, B13: identity is the edge and both subtasks; nothing in flight is no section, no error.
#[test]
fn each_channel_gets_back_its_own_records_in_order() {
    block_on(async {
        let (mut store, _) = lead(MemoryBlobs::new(), options()).await;
        complete(&mut store, 1).await;
        let restored = store.load_latest().await.unwrap().unwrap();
        let mut found = Vec::new();
        for edge in ["numbers", "rules", "idle"] {
            for (file, section) in restored.in_flight(edge) {
                let bytes = store.read(file, section.range.clone()).await.unwrap();
                assert_eq!((section.to, &*section.record), (2, "(String, u64)"));
                found.push((edge, section.from, section.records, bytes));
            }
        }
        let expected = [
            ("numbers", 0, 2, Bytes::from("alice 50, bob 7")),
            ("numbers", 1, 1, Bytes::from("carol 1")),
            ("rules", 1, 1, Bytes::from("no limit")),
        ];
        assert_eq!(found, expected);
        assert_eq!(restored.files().count(), 1, "one file for all channels");
    });
}

/// F069: small channel state is in the metadata, with the range of each channel; none at all writes nothing.
#[test]
fn little_in_flight_needs_no_object() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), Options::default()).await;
        complete(&mut store, 1).await;
        assert_eq!(objects(&blobs).await, ["chk-1/_metadata-g1"]);
        let restored = store.load_latest().await.unwrap().unwrap();
        let (file, section) = restored.in_flight("rules").next().unwrap();
        let bytes = store.read(file, section.range.clone()).await.unwrap();
        assert_eq!(bytes, "no limit");
    });
}

/// F069.
#[test]
fn nothing_in_flight_writes_no_file() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (store, term) = lead(blobs.clone(), options()).await;
        let mut writer = store
            .files()
            .unwrap()
            .channel_state(term.first, "totals", 0);
        writer.channel(InFlight::new("idle", "u64", 0, 0, 0));
        assert_eq!(writer.finish().await.unwrap(), None);
        assert_eq!(objects(&blobs).await, Vec::<String>::new());
    });
}

/// CASES B63 (c): a flipped byte anywhere in channel state is found, and names object and offset.
#[test]
fn a_flipped_byte_in_channel_state_is_named() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        complete(&mut store, 1).await;
        let restored = store.load_latest().await.unwrap().unwrap();
        let file = &restored.channels[0].file;
        let path = file.path().expect("nothing is inline here");
        let intact = blobs.get(path).await.unwrap().unwrap();
        for at in 0..intact.len() {
            let mut flipped = intact.to_vec();
            flipped[at] ^= 0x10;
            blobs.put(path, flipped.into()).await.unwrap();
            let mut faults = Vec::new();
            let found = store
                .verify(|verified| faults.extend(verified.result.err()))
                .await;
            found.unwrap();
            let [fault] = &faults[..] else {
                panic!("{faults:?}")
            };
            assert_eq!(fault.kind(), ErrorKind::Corrupt);
            assert_eq!(fault.object(), path);
            assert_eq!(fault.offset(), Some(at as u64 / 4 * 4), "blocks of 4 bytes");
            // Who restores hears the same, and only of the channel that is damaged.
            for section in &restored.channels[0].sections {
                let read = store.read(file, section.range.clone()).await;
                let touched = section.range.start / 4 * 4..section.range.end.next_multiple_of(4);
                assert_eq!(
                    read.is_err(),
                    touched.contains(&(at as u64)),
                    "{section:?}, {at}"
                );
            }
        }
    });
}

/// SPEC 4.5: channel state goes with its checkpoint, and not before; of a failed one nothing stays.
#[test]
fn channel_state_lives_as_long_as_its_checkpoint() {
    block_on(async {
        let blobs = MemoryBlobs::new();
        let (mut store, _) = lead(blobs.clone(), options()).await;
        let kept = async || {
            let objects = objects(&blobs).await;
            objects
                .iter()
                .filter(|object| object.contains("in-flight"))
                .count()
        };
        for (id, files) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
            complete(&mut store, id).await;
            store.apply_retention().await.unwrap();
            assert_eq!(kept().await, files, "after {id}, two are kept");
        }
        in_flight(&store, 5).await;
        assert_eq!(kept().await, 3);
        store.discard_failed(CheckpointId::new(5)).await.unwrap();
        assert_eq!(kept().await, 2);
    });
}
