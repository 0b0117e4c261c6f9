//! Loops: each record counts once on every round, whatever circles when a checkpoint is taken.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cutwater_barrier::Mode;
use cutwater_runtime::{Collect, ErrorKind, Guarantee, Job};
use cutwater_source::VecSource;

use crate::common::{settings, start, store};

/// A number, and what it has become after some rounds.
type Walk = (u64, u64);

const STARTS: u64 = 600;

fn starts() -> VecSource<Walk> {
    let list = |part: u64| (1 + part..=STARTS).step_by(3).map(|n| (n, n)).collect();
    VecSource::new((0..3).map(list).collect())
}

/// Halves even numbers and triples odd ones (and adds 1) until they are 1 (Collatz, 1937), counting
/// the steps of each start in keyed state inside the loop.
fn walks(output: &Collect<(u64, u64)>, each: impl Fn(Walk) -> Walk + Send + Sync + 'static) -> Job {
    let job = Job::new("walks");
    job.source("starts", starts())
        .iterate("walk", |walks| {
            let stepped = walks.map(each).key_by(|(start, _)| *start).fold(
                "steps",
                |steps: &mut u64, (start, at): Walk| {
                    if at == 1 {
                        return (start, at, *steps);
                    }
                    *steps += 1;
                    let next = if at.is_multiple_of(2) {
                        at / 2
                    } else {
                        3 * at + 1
                    };
                    (start, next, *steps)
                },
            );
            let again = stepped
                .filter(|(_, at, _)| *at != 1)
                .map(|(start, at, _)| (start, at));
            let done = stepped
                .filter(|(_, at, _)| *at == 1)
                .map(|(start, _, steps)| (start, steps));
            (again, done)
        })
        .sink("done", output.clone());
    job
}

fn steps_of(start: u64) -> u64 {
    let mut at = start;
    let mut steps = 0;
    while at != 1 {
        at = if at.is_multiple_of(2) {
            at / 2
        } else {
            3 * at + 1
        };
        steps += 1;
    }
    steps
}

#[track_caller]
fn assert_walks(output: &Collect<(u64, u64)>) {
    let mut walked = output.take();
    walked.sort_unstable();
    let expected: Vec<_> = (1..=STARTS).map(|start| (start, steps_of(start))).collect();
    assert_eq!(walked, expected);
}

#[test]
fn a_loop_ends_when_its_input_has_and_nothing_circles() {
    for parallelism in [1, 2, 4] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        let job = walks(&output, |walk| walk);
        let outcome = start(job, directory.path(), settings(parallelism)).wait();
        assert!(outcome.unwrap().is_finished);
        assert_walks(&output);
    }
}

/// The steps of a start are counted in the loop, once each, over crashes and rescales.
#[test]
fn each_record_in_the_loop_counts_once_over_crash_and_rescale() {
    for mode in [Mode::Aligned, Mode::Unaligned] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        for (parallelism, fails_after) in [(2, 3_000), (3, 6_000), (1, 4_000), (4, u64::MAX)] {
            let left = Arc::new(AtomicU64::new(fails_after));
            let job = walks(&output, move |walk| {
                let left = left.fetch_sub(1, Ordering::Relaxed);
                assert!(left != 1, "{walk:?} breaks it");
                walk
            });
            let mut settings = settings(parallelism);
            settings.barriers = mode;
            settings.batch_size = 16;
            settings.checkpoint_interval = Some(std::time::Duration::from_millis(1));
            settings.restart = cutwater_runtime::Restart::Never;
            let ended = start(job, directory.path(), settings).wait();
            if ended.is_ok() {
                break; // With what was saved, the rest was done before the failure.
            }
        }
        assert_walks(&output);
    }
}

#[test]
fn a_loop_that_feeds_back_what_is_not_its_own_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let job = Job::new("wrong");
    let other = job.source("other", starts());
    let wrong = job.source("starts", starts());
    let out = wrong.iterate("loop", |walks| (other.clone(), walks.clone()));
    out.sink("out", Collect::new());
    let error = job.start(store(directory.path()), settings(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
    assert!(error.to_string().contains("loop `loop`"), "{error}");
}

#[test]
fn nested_loops_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let job = Job::new("nested");
    job.source("starts", starts())
        .iterate("outer", |walks| {
            let inner = walks.iterate("inner", |walks| {
                (walks.map(|walk| walk), walks.map(|walk| walk))
            });
            (inner.map(|walk| walk), inner)
        })
        .sink("out", Collect::new());
    let error = job.start(store(directory.path()), settings(1)).unwrap_err();
    assert!(error.to_string().contains("nested"), "{error}");
}

#[test]
fn at_least_once_is_refused_with_a_loop() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(1);
    settings.guarantee = Guarantee::AtLeastOnce;
    let job = walks(&Collect::new(), |walk| walk);
    let error = job.start(store(directory.path()), settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
}
