//! Every number is counted and written exactly once, wherever the engine stops and however many
//! workers go on.

mod bomb;

use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

use bomb::Bomb;
use cutwater_example_thread_engine::run;
use cutwater_sink_2pc::testkit::{MemoryTarget, Target as _};
use cutwater_storage::{
    CheckpointStore, Options,
    testkit::{Call, Failure, FaultyBlobs, MemoryBlobs, On},
};
use futures::executor::block_on;

/// Where a run stops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// All output is prepared, all state is stored, and the first checkpoint is not complete.
    Prepared,
    /// The first checkpoint is complete, and nothing of it is committed.
    Completed,
    /// At this call of the store, if there are so many.
    Call(usize),
    Nowhere,
}
use Crash::{Completed, Nowhere, Prepared};

impl Crash {
    fn arrange(self, store: &FaultyBlobs<MemoryBlobs>) {
        let create = On::call(Call::Create);
        let (on, failure) = match self {
            Prepared => (create.path("_metadata"), Failure::Before),
            // The log takes the decision, and the reply is lost, also that of the second try.
            Completed => (create.path("log/").after(1).times(2), Failure::After),
            Self::Call(number) => (On::any().after(number).always(), Failure::Before),
            Nowhere => return,
        };
        store.faults().fail(on, failure);
    }
}

/// Two sources of different length that share some numbers.
fn inputs(length: u64) -> [Vec<u64>; 2] {
    [(length, 7), (length * 7 / 10, 40)]
        .map(|(length, modulus)| (0..length).map(|i| i * i % modulus).collect())
}

/// Number and 1, number and 2, … up to its count: a record lost or doubled, in the state or in the
/// output, leaves a gap or a double.
fn expected(inputs: &[Vec<u64>]) -> Vec<u64> {
    let mut counts = BTreeMap::<u64, u64>::new();
    for number in inputs.concat() {
        *counts.entry(number).or_default() += 1;
    }
    let rows = |(number, count)| (1..=count).map(move |n| number * 1_000_000 + n);
    counts.into_iter().flat_map(rows).collect()
}

fn check_output(target: &MemoryTarget, inputs: &[Vec<u64>], runs: &[(u16, Crash)]) {
    let mut rows = target.rows();
    rows.sort_unstable();
    assert!(rows == expected(inputs), "{runs:?}: {} rows", rows.len());
}

/// Runs the job with each number of workers in turn, to a crash or to the end, and checks the output.
fn check(runs: &[(u16, Crash)]) {
    let inputs = inputs(1_000);
    for target in [MemoryTarget::new(), MemoryTarget::rolling(300)] {
        let blobs = MemoryBlobs::new();
        for &(parallelism, crash) in runs {
            let store = FaultyBlobs::new(blobs.clone());
            crash.arrange(&store);
            let ended = run(&inputs, &target.sink(), store, parallelism);
            assert_eq!(ended.is_err(), crash != Nowhere, "{runs:?}: {ended:?}");
            let log = block_on(CheckpointStore::open(blobs.clone(), Options::default())).unwrap();
            let newest = log.latest().map(|newest| newest.checkpoint);
            let is_committed = log.last_committed() >= newest;
            match crash {
                Completed => assert!(!is_committed, "{runs:?}: {crash:?}"),
                Nowhere => assert!(is_committed, "{runs:?}: {crash:?}"),
                Prepared | Crash::Call(_) => {}
            }
        }
        check_output(&target, &inputs, runs);
    }
}

#[test]
fn an_undisturbed_run_counts_everything_once() {
    check(&[(2, Nowhere)]);
}

#[test]
fn output_of_a_completed_checkpoint_is_committed_by_a_successor_of_another_parallelism() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, Completed), (successor, Nowhere)]);
    }
}

#[test]
fn output_of_an_incomplete_checkpoint_is_swept_and_written_again() {
    for successor in [1, 2, 3, 5] {
        check(&[(2, Prepared), (successor, Nowhere)]);
    }
}

#[test]
fn crashes_may_follow_each_other_while_the_job_is_rescaled() {
    check(&[(2, Completed), (3, Prepared), (1, Nowhere)]);
    check(&[
        (2, Prepared),
        (1, Completed),
        (3, Completed),
        (4, Prepared),
        (2, Nowhere),
    ]);
}

/// A store that is gone from any call on is a crash at that call.
#[test]
fn a_run_may_stop_at_any_call_of_the_store() {
    let inputs = inputs(100);
    for call in 0.. {
        let (target, blobs) = (MemoryTarget::rolling(30), MemoryBlobs::new());
        let runs = [(2, Crash::Call(call)), (3, Nowhere)];
        let ended = runs.map(|(parallelism, crash)| {
            let store = FaultyBlobs::new(blobs.clone());
            crash.arrange(&store);
            run(&inputs, &target.sink(), store, parallelism)
        });
        assert!(ended[1].is_ok(), "{runs:?}: {ended:?}");
        check_output(&target, &inputs, &runs);
        if ended[0].is_ok() {
            assert!(call > 10, "only {call} calls");
            break;
        }
    }
}

/// State that does not change from one checkpoint to the next is in files of the first, which the next ones name again.
#[test]
fn state_that_stays_as_it_is_goes_from_checkpoint_to_checkpoint() {
    // Longer until it takes some checkpoints.
    for length in (10..24).map(|bits| 1 << bits) {
        // Each number once, and then one of them over and over.
        let inputs = [(0..500).collect(), vec![7; length]];
        let (target, blobs) = (MemoryTarget::new(), MemoryBlobs::new());
        run(&inputs, &target.sink(), blobs.clone(), 2).unwrap();
        check_output(&target, &inputs, &[(2, Nowhere)]);
        let log = block_on(CheckpointStore::open(blobs.clone(), Options::default())).unwrap();
        let newest = log.latest().map(|newest| newest.checkpoint.get());
        if newest > Some(4) {
            run(&inputs, &target.sink(), blobs, 3).unwrap();
            check_output(&target, &inputs, &[(2, Nowhere), (3, Nowhere)]);
            return;
        }
    }
    panic!("no run took five checkpoints");
}

/// A panic is seen when it happens, not when the checkpoint it keeps from completing times out.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a run that hangs must not hang the test"
)]
fn a_worker_that_panics_ends_the_run_at_once() {
    let (ended, end) = mpsc::channel();
    let (target, blobs) = (MemoryTarget::new(), MemoryBlobs::new());
    let (sink, store) = (Bomb(target.sink()), blobs.clone());
    thread::spawn(move || ended.send(run(&inputs(1_000), &sink, store, 2)));
    let ended = end
        .recv_timeout(Duration::from_secs(60))
        .expect("the run ends");
    assert_eq!(ended.unwrap_err().to_string(), "a worker panicked");
    run(&inputs(1_000), &target.sink(), blobs, 3).unwrap();
    check_output(&target, &inputs(1_000), &[(2, Nowhere), (3, Nowhere)]);
}
