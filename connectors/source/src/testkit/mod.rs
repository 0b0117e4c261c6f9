//! The exam for sources. Exempt from semver: a new check may fail an old source.
//!
//! ```
//! use cutwater_source::{VecSource, testkit};
//!
//! testkit::conforms(|| VecSource::new(vec![vec![1, 2, 3], vec![], vec![4, 5]]));
//! ```

mod run;

use std::collections::{BTreeMap, BTreeSet};

use cutwater_barrier::CheckpointId;

pub use run::{Checkpoint, Run};

use crate::{
    Enumerator as _, Reader as _, ReaderContext, Source, Split as _, Status, codec::encode,
    decode_splits, encode_splits,
};

/// How often a reader may give nothing before the exam calls it stuck.
const POLLS_MAX: usize = 10_000;

/// At how many recorded positions of a split reading is resumed.
const RESUMES_MAX: usize = 40;

/// Panics with a sentence if the source breaks its contract.
///
/// `open` makes the source as a new process would. Its input is bounded, stays as it is, and is small
/// (some dozens of records), as it is read once from each of many positions.
pub fn conforms<S: Source>(open: impl Fn() -> S) {
    let splits = discovers_the_same_splits(&open);
    let mut records = Vec::new();
    for split in splits {
        records.extend(resumes_from_every_position(&open, split));
    }
    records.sort();
    for before in 1..=3 {
        for after in 1..=4 {
            rescales(&open, before, after, &records);
        }
    }
}

fn discovers_the_same_splits<S: Source>(open: &impl Fn() -> S) -> Vec<S::Split> {
    let discover = |known: &BTreeSet<String>| {
        let mut enumerator = open().enumerator(None).expect("an enumerator is made");
        let found = enumerator.discover(known).expect("splits are discovered");
        assert!(found.complete, "the exam's input is bounded");
        found.splits
    };
    let first = discover(&BTreeSet::new());
    let ids = |splits: &[S::Split]| -> BTreeSet<String> {
        splits.iter().map(|split| split.id().to_owned()).collect()
    };
    let known = ids(&first);
    assert_eq!(known.len(), first.len(), "each split has an id of its own");
    assert_eq!(
        ids(&discover(&BTreeSet::new())),
        known,
        "another process discovers the same splits"
    );
    assert!(
        discover(&known).is_empty(),
        "a known split is not discovered again"
    );
    first
}

/// Reads the split from each position that reading in batches of several sizes records. Gives back its
/// records, encoded.
fn resumes_from_every_position<S: Source>(open: &impl Fn() -> S, split: S::Split) -> Vec<Vec<u8>> {
    let id = split.id().to_owned();
    let (whole, _) = read::<S>(&open(), split.clone(), usize::MAX >> 1);
    for max in [1, 2, 3, 7, 64] {
        let (records, positions) = read::<S>(&open(), split.clone(), max);
        assert_eq!(
            records, whole,
            "split {id}: the batch size {max} changes the records"
        );
        let step = positions.len().div_ceil(RESUMES_MAX).max(1);
        for (read_before, position) in positions.iter().step_by(step) {
            let restored: Vec<S::Split> = decode_splits(position).expect("a snapshot decodes");
            let [restored] = <[S::Split; 1]>::try_from(restored)
                .unwrap_or_else(|_| panic!("split {id}: a snapshot holds each split once"));
            assert_eq!(restored.id(), id, "a split keeps its id");
            let rest = if restored.is_finished() {
                Vec::new()
            } else {
                read::<S>(&open(), restored, max).0
            };
            assert_eq!(
                rest,
                whole[*read_before..],
                "split {id}: resumed after {read_before} records read in batches of {max}"
            );
        }
    }
    whole
}

/// How many records were read, and the reader's snapshot then.
type Position = (usize, Vec<u8>);

/// All records of `split` and, after each batch, how many there were and the reader's snapshot.
fn read<S: Source>(source: &S, split: S::Split, max: usize) -> (Vec<Vec<u8>>, Vec<Position>) {
    let mut reader = source
        .reader(ReaderContext::new(0, 1))
        .expect("a reader is made");
    reader.add_splits(vec![split]).expect("a split is added");
    let mut records = Vec::new();
    let mut positions = Vec::new();
    let mut batch = Vec::new();
    let mut no_more = false;
    for _ in 0..POLLS_MAX {
        let held = batch.len();
        let status = reader.poll_batch(&mut batch, max).expect("a batch is read");
        assert!(
            batch.len() >= held && batch.len() - held <= max,
            "a batch is appended and no longer than asked for"
        );
        records.extend(batch[held..].iter().map(encode));
        if batch.len() > 2 {
            batch.clear(); // now and then, so that appending to a full one is tried too
        }
        let splits = reader
            .snapshot(CheckpointId::new(1))
            .expect("a snapshot is taken");
        positions.push((records.len(), encode_splits(&splits)));
        match status {
            Status::More | Status::Idle => {}
            Status::Drained => {
                assert!(!no_more, "a drained reader that gets no more is finished");
                assert!(
                    splits[0].is_finished(),
                    "a drained reader's split is finished"
                );
                reader.no_more_splits();
                no_more = true;
            }
            Status::Finished => {
                assert!(no_more, "only a reader that gets no more is finished");
                return (records, positions);
            }
        }
    }
    panic!("a reader ended neither in records nor in {POLLS_MAX} polls");
}

/// Reads some on `before` readers, checkpoints, reads on what will be lost, restores on `after`.
fn rescales<S: Source>(open: &impl Fn() -> S, before: usize, after: usize, expected: &[Vec<u8>]) {
    for steps in [0, 1, 2, 5, 11] {
        let mut records = Vec::new();
        let mut run = Run::fresh(open(), before).expect("a job starts");
        for step in 0..steps {
            records.extend(run.step(step % before, 2).expect("a batch is read"));
        }
        let checkpoint = run.checkpoint(CheckpointId::new(7)).expect("a snapshot");
        for step in 0..steps {
            run.step(step % before, 3).expect("a batch is read"); // lost with the attempt
        }
        let mut run = Run::restore(open(), after, &checkpoint).expect("a job is restored");
        records.extend(run.to_end(5).expect("the rest is read"));

        let mut records: Vec<Vec<u8>> = records.iter().map(encode).collect();
        records.sort();
        assert!(
            records == expected,
            "{before} -> {after} readers after {steps} steps: {}",
            difference(expected, &records)
        );
    }
}

fn difference(expected: &[Vec<u8>], found: &[Vec<u8>]) -> String {
    let mut counts: BTreeMap<&[u8], i64> = BTreeMap::new();
    for record in expected {
        *counts.entry(record).or_default() -= 1;
    }
    for record in found {
        *counts.entry(record).or_default() += 1;
    }
    let lost: i64 = counts.values().filter(|count| **count < 0).sum();
    let doubled: i64 = counts.values().filter(|count| **count > 0).sum();
    format!("{} records lost, {doubled} too many", -lost)
}
