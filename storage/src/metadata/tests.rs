//! Metadata round trips, and its format stays.

use std::{ops::Range, time::Duration};

use super::*;
use crate::{Content, golden};

const PATH: &str = "chk-42/_metadata-g3";

fn decode(bytes: &Bytes) -> crate::Result<Metadata> {
    Metadata::decode(bytes, PATH)
}

fn empty(kind: Kind) -> Metadata {
    Metadata::new("bank", CheckpointId::new(42), Generation::new(3), kind)
}

fn file(name: &str, content: Content, length: u64) -> FileRef {
    FileRef {
        name: name.to_owned(),
        content,
        length,
        block_bytes: 4,
        checksums: (0..length.div_ceil(4))
            .map(|block| 0xabcd + block)
            .collect(),
    }
}

/// A source that finished in part, and a keyed operator that also is a sink, after a rescale.
fn everything() -> Metadata {
    let mut source = Operator::new("flights");
    source.coordinator = Some(Bytes::from_static(b"two splits left"));
    for (finished, positions) in [(true, ""), (false, "EWR@121")] {
        source.subtasks.push(Subtask {
            finished,
            source: Bytes::from_static(positions.as_bytes()),
            ..Subtask::default()
        });
    }

    let mut totals = Operator::new("running totals \u{e4}");
    totals.max_parallelism = Some(MaxParallelism::MAX);
    totals.grouping = Some(Grouping::Xxh64);
    totals.assignment = vec![
        vec![KeyGroupRange::new(0, 16384)],
        vec![
            KeyGroupRange::new(16384, 16385),
            KeyGroupRange::new(20000, 32768),
        ],
        vec![],
    ];
    for groups in &totals.assignment {
        let mut subtask = Subtask::default();
        let files = vec![
            file(
                "keyed",
                Content::Object("chk-42/totals.0.keyed.00000000000000ab-g3".to_owned()),
                11,
            ),
            file(
                "small",
                Content::Inline(Bytes::from_static(b"012345678")),
                9,
            ),
        ];
        subtask
            .keyed
            .push(KeyedHandle::new(groups.clone(), "manifest", files));
        subtask.operator_state = Bytes::from_static(b"list");
        let stats = &mut subtask.statistics;
        stats.start_delay = Duration::from_micros(1);
        stats.alignment = Duration::from_micros(2);
        stats.sync = Duration::from_micros(3);
        stats.async_ = Duration::from_micros(4);
        stats.bytes_during_alignment = 5;
        stats.bytes_in_flight = 6;
        stats.bytes_written = 7;
        stats.bytes_full = 8;
        totals.subtasks.push(subtask);
    }

    for checkpoint in [41, 42] {
        let token = format!("token {checkpoint}");
        let prepared = PreparedTransaction::new(CheckpointId::new(checkpoint), token);
        totals.prepared.push(prepared);
    }

    let mut metadata = empty(Kind::Checkpoint);
    metadata.triggered_at_unix_ms = 1_795_977_600_000;
    metadata.duration = Duration::from_micros(12_345);
    metadata.operators.insert("source-1".to_owned(), source);
    metadata.operators.insert("totals".to_owned(), totals);
    metadata
}

/// What version 2 can say and version 1 could not.
fn everything_and_in_flight() -> Metadata {
    let mut metadata = everything();
    let totals = metadata.operators.get_mut("totals").unwrap();
    totals.subtasks[1].pieces = vec![Bytes::new(), Bytes::from_static(b"a file and its length")];
    let section = |edge: &str, from, range: Range<u64>| InFlight {
        range,
        ..InFlight::new(edge, "(String, u64)", from, 2, 3)
    };
    let object = Content::Object("chk-42/totals.2.in-flight.00000000000000cd-g3".to_owned());
    metadata.channels.push(ChannelState {
        file: file("in-flight", object, 30),
        sections: vec![
            section("source-1→totals", 0, 0..12),
            section("source-1→totals", 1, 12..13),
            section("rules→totals", 0, 13..30),
        ],
    });
    for (name, millis) in [("source-1→map (0)", 12), ("totals (2)", 7)] {
        let mut report = TaskReport {
            name: name.to_owned(),
            took: Duration::from_millis(millis),
            statistics: TaskStats::default(),
        };
        report.statistics.alignment = Duration::from_micros(millis);
        report.statistics.bytes_in_flight = 30;
        metadata.tasks.push(report);
    }
    let inline = Content::Inline(Bytes::from_static(b"012"));
    metadata.channels.push(ChannelState {
        file: file("in-flight", inline, 3),
        sections: vec![InFlight {
            range: 0..3,
            ..InFlight::new("loop", "u64", 7, 0, 1)
        }],
    });
    metadata
}

/// F137, as far as there are kinds of state: none, everything, finished tasks; checkpoint, savepoint.
#[test]
fn version_2_reads_forever() {
    golden::check(
        "metadata-v2-everything.bin",
        &everything_and_in_flight(),
        Metadata::encode,
        decode,
    );
    let savepoint = empty(Kind::Savepoint);
    golden::check(
        "metadata-v2-empty.bin",
        &savepoint,
        Metadata::encode,
        decode,
    );
    let mut with_timeout = empty(Kind::Checkpoint);
    with_timeout.mode = Mode::AlignedFor(Duration::from_millis(30_000));
    golden::check(
        "metadata-v2-timeout.bin",
        &with_timeout,
        Metadata::encode,
        decode,
    );
}

/// F137: what an older release wrote is read as if it had said that nothing was in flight.
#[test]
fn version_1_reads_forever() {
    golden::check_old("metadata-v1-everything.bin", &everything(), decode);
    golden::check_old("metadata-v1-empty.bin", &empty(Kind::Savepoint), decode);
}

/// CASES B12, B13: an edge is one of its own, though another connects the same tasks; one without
/// records in flight is empty, and no error.
#[test]
fn records_in_flight_are_found_by_their_edge() {
    let metadata = everything_and_in_flight();
    let of = |edge: &str| {
        let sections = metadata.in_flight(edge);
        sections
            .map(|(file, section)| (file.length, section.from, section.range.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("source-1→totals"), [(30, 0, 0..12), (30, 1, 12..13)]);
    assert_eq!(of("rules→totals"), [(30, 0, 13..30)]);
    assert_eq!(of("loop"), [(3, 7, 0..3)]);
    assert_eq!(of("an edge that was idle"), []);
}

#[test]
fn records_in_flight_outside_of_their_file_are_corrupt() {
    for (start, end) in [(0, 31), (5, 5), (30, 40), (9, 8)] {
        let range = start..end;
        let mut metadata = everything_and_in_flight();
        metadata.channels[0].sections[1].range = range.clone();
        let error = decode(&metadata.encode()).unwrap_err();
        assert_eq!(
            error.kind(),
            crate::ErrorKind::Corrupt,
            "{range:?}: {error}"
        );
    }
}

#[test]
fn an_operator_that_finished_round_trips() {
    let mut metadata = empty(Kind::Checkpoint);
    metadata.mode = Mode::Unaligned;
    let mut operator = Operator::new("");
    operator.finished = true;
    operator.grouping = Some(Grouping::Flink);
    metadata.operators.insert(String::new(), operator);
    assert_eq!(decode(&metadata.encode()).unwrap(), metadata);
}

#[test]
fn every_file_and_transaction_is_listed() {
    let metadata = everything_and_in_flight();
    assert_eq!(metadata.files().count(), 8);
    assert_eq!(metadata.prepared().count(), 2);
    assert_eq!(metadata.subtasks().count(), 5);
    assert_eq!(metadata.subtasks_of("totals").len(), 3);
    assert_eq!(metadata.subtasks_of("nobody"), []);
    let bytes: u64 = metadata
        .subtasks()
        .map(|(_, _, subtask)| subtask.bytes())
        .sum();
    assert_eq!(bytes, 7 + 3 * (11 + 9 + 8 + 4) + 21);
}

#[test]
fn a_file_whose_blocks_do_not_add_up_is_corrupt() {
    for break_it in [
        (|file| file.block_bytes = 0) as fn(&mut FileRef),
        |file| file.length += 100,
        |file| file.checksums.clear(),
        |file| file.content = Content::Inline(Bytes::from_static(b"too short")),
    ] {
        let mut metadata = everything();
        let totals = metadata.operators.get_mut("totals").unwrap();
        break_it(&mut totals.subtasks[0].keyed[0].files[0]);
        let error = decode(&metadata.encode()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn an_operator_listed_twice_is_corrupt() {
    let mut bytes = everything().encode().to_vec();
    // Both uids have the same length once one is renamed.
    let uid = b"source-1";
    let at = bytes
        .windows(uid.len())
        .position(|window| window == uid)
        .unwrap();
    bytes.splice(
        at - 4..at + uid.len(),
        [6, 0, 0, 0].into_iter().chain(*b"totals"),
    );
    let payload = &bytes[15..bytes.len() - 8];
    let error = decode(&crate::frame::encode(
        crate::frame::Kind::Metadata,
        2,
        payload,
    ))
    .unwrap_err();
    assert!(error.to_string().contains("twice"), "{error}");
}
