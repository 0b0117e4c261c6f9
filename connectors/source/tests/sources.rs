//! The sources of this crate, and the exam itself: a broken source must fail it.

use std::{
    collections::BTreeSet,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Time};
use cutwater_source::{
    Assignment, Discovery, Enumerator, ErrorKind, Pace, Paced, Reader, ReaderContext, Result,
    Source, Status, VecReader, VecSource, VecSplit, encode_splits, testkit,
};

fn parts() -> Vec<Vec<u32>> {
    vec![(0..25).collect(), vec![], (100..103).collect(), vec![7; 9]]
}

#[test]
fn vec_source_conforms() {
    testkit::conforms(|| VecSource::new(parts()));
}

#[test]
fn a_paced_source_conforms() {
    testkit::conforms(|| {
        let ticks = AtomicU64::new(0);
        Paced::new(VecSource::new(parts()), rate(2000), move || {
            Time::from_millis(ticks.fetch_add(1, Ordering::Relaxed))
        })
    });
}

#[test]
fn vectors_of_another_length_are_refused() {
    let mut run = testkit::Run::fresh(VecSource::new(parts()), 1).unwrap();
    run.step(0, 3).unwrap();
    let checkpoint = run.checkpoint(CheckpointId::new(1)).unwrap();
    let shorter = VecSource::new(vec![vec![1u32]; 4]);
    let error = testkit::Run::restore(shorter, 1, &checkpoint).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
}

#[test]
fn a_checkpoint_has_the_same_bytes_each_time() {
    let snapshot = || {
        let mut run = testkit::Run::fresh(VecSource::new(parts()), 2).unwrap();
        run.step(0, 3).unwrap();
        run.checkpoint(CheckpointId::new(1)).unwrap()
    };
    assert_eq!(snapshot(), snapshot());
}

/// Golden: version 1 of the splits' bytes, which keep decoding.
#[test]
fn version_1_bytes_decode() {
    let bytes = b"\x01\x01\x06part-2\x02\x01\x03";
    let splits: Vec<VecSplit> = cutwater_source::decode_splits(bytes).unwrap();
    assert_eq!(splits[0].id, "part-2");
    assert_eq!((splits[0].next, splits[0].length), (1, 3));
    assert_eq!(encode_splits(&splits), bytes);
}

fn rate(records: u64) -> NonZeroU64 {
    NonZeroU64::new(records).unwrap()
}

#[test]
fn pace_allows_the_rate_and_saves_a_tenth_of_a_second_at_most() {
    let mut pace = Pace::new(rate(1000));
    let mut taken = 0;
    for millis in 0..1000 {
        let allowed = pace.allowance(Time::from_millis(millis));
        pace.took(allowed);
        taken += allowed;
    }
    assert_eq!(taken, 1000);
    assert_eq!(pace.allowance(Time::from_millis(60_000)), 101);
}

#[test]
fn an_allowance_not_taken_is_not_lost() {
    let mut pace = Pace::new(rate(1000));
    assert_eq!(pace.allowance(Time::ZERO), 1);
    assert_eq!(pace.allowance(Time::from_millis(10)), 11);
    pace.took(11);
    assert_eq!(pace.allowance(Time::from_millis(10)), 0);
    assert_eq!(pace.allowance(Time::from_millis(11)), 1);
}

#[test]
fn a_clock_that_steps_back_gives_nothing_until_it_is_due_again() {
    let mut pace = Pace::new(rate(1000));
    assert_eq!(pace.allowance(Time::from_millis(50)), 1);
    assert_eq!(pace.allowance(Time::from_millis(20)), 0);
    assert_eq!(pace.allowance(Time::from_millis(50)), 1);
}

#[test]
fn two_readers_of_one_process_share_the_rate() {
    let now = Arc::new(AtomicU64::new(0));
    let clock = {
        let now = Arc::clone(&now);
        move || Time::new(Duration::from_millis(now.load(Ordering::Relaxed)))
    };
    let source = Paced::new(VecSource::new(vec![vec![0u8; 500]; 2]), rate(100), clock);
    let mut run = testkit::Run::fresh(source, 2).unwrap();
    let mut read = 0;
    for millis in 0..1000 {
        now.store(millis, Ordering::Relaxed);
        read += run.step(0, 64).unwrap().len() + run.step(1, 64).unwrap().len();
    }
    assert_eq!(read, 100);
}

/// A vector source whose snapshot is one record behind what it gave.
struct OffByOne(VecSource<u32>);
#[derive(Debug)]
struct Behind(VecReader<u32>);

impl Source for OffByOne {
    type Record = u32;
    type Split = VecSplit;
    type Enumerator = <VecSource<u32> as Source>::Enumerator;
    type Reader = Behind;

    fn assignment(&self) -> Assignment {
        self.0.assignment()
    }

    fn enumerator(&self, state: Option<&[u8]>) -> Result<Self::Enumerator> {
        self.0.enumerator(state)
    }

    fn reader(&self, context: ReaderContext) -> Result<Behind> {
        self.0.reader(context).map(Behind)
    }
}

impl Reader for Behind {
    type Record = u32;
    type Split = VecSplit;

    fn add_splits(&mut self, splits: Vec<VecSplit>) -> Result<()> {
        self.0.add_splits(splits)
    }

    fn no_more_splits(&mut self) {
        self.0.no_more_splits();
    }

    fn poll_batch(&mut self, out: &mut Vec<u32>, max: usize) -> Result<Status> {
        self.0.poll_batch(out, max)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<VecSplit>> {
        let mut splits = self.0.snapshot(checkpoint)?;
        for split in &mut splits {
            if split.next < split.length {
                split.next = split.next.saturating_sub(1);
            }
        }
        Ok(splits)
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.0.notify_complete(checkpoint)
    }
}

#[test]
#[should_panic(expected = "resumed after 1 records read in batches of 1")]
fn the_exam_sees_a_position_that_is_one_behind() {
    testkit::conforms(|| OffByOne(VecSource::new(parts())));
}

#[test]
fn a_complete_enumerator_is_not_asked_again() {
    let source = VecSource::new(parts());
    let mut coordinator = cutwater_source::SplitCoordinator::fresh(&source, 1).unwrap();
    assert!(coordinator.discover().unwrap());
    let Discovery { splits, .. } = source
        .enumerator(None)
        .unwrap()
        .discover(&BTreeSet::new())
        .unwrap();
    assert_eq!(coordinator.assigner().known().len(), splits.len());
    assert!(coordinator.discover().unwrap());
    assert_eq!(coordinator.assigner().known().len(), splits.len());
}
