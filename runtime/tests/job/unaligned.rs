//! Barriers that overtake: the records they leave behind are part of the checkpoint, and count once.

use std::{fs, time::Duration};

use cutwater_barrier::Mode;
use cutwater_runtime::{Collect, ErrorKind, Guarantee, Job, State};
use cutwater_source::VecSource;
use cutwater_storage::testkit::{Call, Failure, FaultyBlobs, On};

use crate::{
    common::{Barrage, assert_ledger, counting, numbers, settings, start, store, wait_until},
    held::{
        Held, MANY, Permits, checkpoint_past, finish, held, in_flight, kill, metadata, on_request,
        roomy,
    },
    stepped::{Stepped, Steps},
};

/// F047, F048: the queue is full of records, none of which a barrier waits for; all of them are in the
/// checkpoint, and after a restart with another parallelism each counts once.
#[test]
fn a_checkpoint_overtakes_a_full_queue_and_takes_it_along() {
    for (before, after) in [(1, 1), (1, 3), (3, 2), (2, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let (output, permits) = (Collect::new(), Permits::default());
        let steps = Steps::up_to(300);
        let settings = on_request(before, Mode::Unaligned);
        let job = start(held(&steps, &permits, &output), directory.path(), settings);
        wait_until("all are in the channels", || steps.given() == 300);
        permits.await_waiting(before);

        let (readers, subtasks) = (u64::from(before.min(3)), u64::from(before));
        let checkpoint = checkpoint_past(&job, &steps, readers, &permits, 1);
        assert_eq!(permits.taken(), subtasks);
        let metadata = metadata(directory.path(), checkpoint);
        assert_eq!(metadata.mode, Mode::Unaligned);
        let edge = |edge: &str| edge == "map 1 → count [0.0]";
        assert_eq!(in_flight(&metadata, edge), 300 - subtasks);

        kill(job, &permits);
        finish(
            directory.path(),
            &output,
            on_request(after, Mode::Unaligned),
        );
    }
}

/// The same schedule with aligned barriers: the checkpoint waits for the whole queue.
#[test]
fn an_aligned_checkpoint_waits_for_the_queue() {
    let directory = tempfile::tempdir().unwrap();
    let (output, permits) = (Collect::new(), Permits::default());
    let steps = Steps::up_to(300);
    let job = held(&steps, &permits, &output);
    let job = start(job, directory.path(), on_request(1, Mode::Aligned));
    wait_until("all are in the channels", || steps.given() == 300);
    wait_until("all tasks run", || job.status().state == State::Running);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| job.checkpoint());
        wait_until("the barrier is out", || steps.snapshots() == 1);
        permits.give(299);
        permits.await_waiting(1);
        assert_eq!(job.status().completed, 0, "one record is still before it");
        permits.give(1);
        let checkpoint = checkpoint.join().unwrap().unwrap();
        assert_eq!(
            in_flight(&metadata(directory.path(), checkpoint), |_| true),
            0
        );
    });
    permits.give(u64::MAX - 1_000);
    kill(job, &permits);
    finish(directory.path(), &output, on_request(2, Mode::Aligned));
}

/// Opens it in the end, also if that is a panic: a scope waits for its threads.
struct Opens<'a>(&'a Barrage);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// State is on its way as soon as it is fixed: it does not wait for a barrier that is late, until which
/// records are still recorded.
#[test]
fn state_is_in_the_store_before_the_last_record_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let (permits, door) = (Permits::unlimited(), Barrage::default());
    let job = Job::new("counting");
    let quick = job.source(
        "quick",
        Stepped::watched(numbers(10_000), &Steps::up_to(29_000)),
    );
    let late = job.source("late", VecSource::new(vec![vec![7]])).map({
        let door = door.clone();
        move |number| {
            door.pass();
            number
        }
    });
    let held = permits.clone();
    quick
        .union(&late)
        .key_by(|number| *number)
        .process("count", move |open| Held::open(open, &held))
        .sink("updates", Collect::new());
    let settings = on_request(1, Mode::Unaligned);
    let job = start(job, directory.path(), settings);
    wait_until("the quick ones are counted", || permits.taken() == 29_000);
    door.await_waiting();
    wait_until("all tasks run", || job.status().state == State::Running);
    let folder = directory.path().join("chk-1");
    let is_stored = || {
        let files = fs::read_dir(&folder).into_iter().flatten();
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.starts_with("count.0.keyed"))
    };
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| job.checkpoint());
        let opens = Opens(&door);
        wait_until("the state is in the store", is_stored);
        assert_eq!(job.status().completed, 0, "a barrier is missing");
        drop(opens);
        let checkpoint = checkpoint.join().unwrap().unwrap();
        let metadata = metadata(directory.path(), checkpoint);
        assert_eq!(in_flight(&metadata, |_| true), 1, "the late one");
    });
    kill(job, &permits);
}

/// F050: a timeout of 0 is unaligned from the start; one that has not passed changes nothing.
#[test]
fn a_checkpoint_that_takes_too_long_aligned_goes_on_unaligned() {
    for (timeout, is_overtaking) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
        let directory = tempfile::tempdir().unwrap();
        let (output, permits) = (Collect::new(), Permits::default());
        let steps = Steps::up_to(100);
        let settings = on_request(1, Mode::AlignedFor(timeout));
        let job = start(held(&steps, &permits, &output), directory.path(), settings);
        wait_until("all are in the channels", || steps.given() == 100);
        permits.await_waiting(1);
        let passed = if is_overtaking { 1 } else { 100 };
        let checkpoint = checkpoint_past(&job, &steps, 1, &permits, passed);
        let in_flight = in_flight(&metadata(directory.path(), checkpoint), |_| true);
        assert_eq!(in_flight, 100 - passed, "after {timeout:?}");
        kill(job, &permits);
        finish(directory.path(), &output, on_request(2, Mode::Aligned));
    }
}

/// F064: a checkpoint soon after a restore takes along exactly what has not been read yet.
#[test]
fn restored_records_that_are_still_unread_are_in_the_next_checkpoint_too() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let mut left = 300;
    for (run, parallelism) in [2_u16, 1, 3, 2].into_iter().enumerate() {
        let permits = Permits::default();
        let steps = Steps::up_to(if run == 0 { 300 } else { 0 });
        let settings = on_request(parallelism, Mode::Unaligned);
        let job = start(held(&steps, &permits, &output), directory.path(), settings);
        wait_until("all are in the channels", || {
            run > 0 || steps.given() == 300
        });
        permits.await_waiting(parallelism);
        let (readers, subtasks) = (u64::from(parallelism.min(3)), u64::from(parallelism));
        let checkpoint = checkpoint_past(&job, &steps, readers, &permits, 1);
        left -= subtasks;
        let metadata = metadata(directory.path(), checkpoint);
        assert_eq!(in_flight(&metadata, |_| true), left, "run {run}");
        kill(job, &permits);
    }
    finish(directory.path(), &output, on_request(2, Mode::Aligned));
}

/// F075: a failure to write channel state fails that checkpoint only.
#[test]
fn a_checkpoint_whose_records_in_flight_cannot_be_written_fails_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (output, permits) = (Collect::new(), Permits::default());
    let blobs = FaultyBlobs::new(store(directory.path()));
    blobs
        .faults()
        .fail(On::call(Call::Finish).path("in-flight"), Failure::Before);
    let steps = Steps::up_to(MANY);
    let job = held(&steps, &permits, &output)
        .start(blobs, roomy())
        .unwrap();
    wait_until("all are in the channels", || steps.given() == MANY);
    permits.await_waiting(1);
    wait_until("all tasks run", || job.status().state == State::Running);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| job.checkpoint());
        wait_until("the barrier is out", || steps.snapshots() == 1);
        permits.give(1);
        checkpoint.join().unwrap().unwrap_err();
    });
    permits.await_waiting(1);
    let checkpoint = checkpoint_past(&job, &steps, 1, &permits, 1);
    assert_eq!(
        in_flight(&metadata(directory.path(), checkpoint), |_| true),
        MANY - 2
    );
    kill(job, &permits);
    finish(directory.path(), &output, on_request(2, Mode::Aligned));
}

/// Crashes wherever they happen to fall, among many unaligned checkpoints.
#[test]
fn attempts_that_fail_anywhere_lose_nothing() {
    for mode in [Mode::Unaligned, Mode::AlignedFor(Duration::from_millis(1))] {
        for at in [3_000, 20_000, 59_000] {
            let directory = tempfile::tempdir().unwrap();
            let output = Collect::new();
            let left = std::sync::atomic::AtomicU64::new(at);
            let job = counting(20_000, &output, move |number| {
                let left = left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                assert!(left != 1, "{number} breaks it");
                number
            });
            let mut settings = settings(3);
            settings.barriers = mode;
            settings.checkpoint_interval = Some(Duration::from_millis(1));
            settings.channel_capacity = 2;
            let outcome = start(job, directory.path(), settings).wait().unwrap();
            assert_eq!(outcome.restarts, 1, "failed at {at}");
            assert_ledger(output.take(), 20_000);
        }
    }
}

#[test]
fn barriers_that_overtake_do_not_go_with_at_least_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = on_request(1, Mode::Unaligned);
    settings.guarantee = Guarantee::AtLeastOnce;
    let job = counting(1, &Collect::new(), |number| number);
    let error = job.start(store(directory.path()), settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
    assert!(error.to_string().contains("Mode::Aligned"), "{error}");
}

/// F059, F069: what a checkpoint reports of its records in flight is what is in its metadata, and with
/// nothing in flight there is no file.
#[test]
fn the_statistics_say_what_was_in_flight() {
    for mode in [Mode::Unaligned, Mode::Aligned] {
        let directory = tempfile::tempdir().unwrap();
        let (output, permits) = (Collect::new(), Permits::default());
        let steps = Steps::up_to(100);
        let job = held(&steps, &permits, &output);
        let job = start(job, directory.path(), on_request(1, mode));
        wait_until("all are in the channels", || steps.given() == 100);
        permits.await_waiting(1);
        let passed = if mode == Mode::Aligned { 100 } else { 1 };
        let checkpoint = checkpoint_past(&job, &steps, 1, &permits, passed);
        let metadata = metadata(directory.path(), checkpoint);
        let counted = &metadata.operators["count"].subtasks[0].statistics;
        let stored: u64 = metadata
            .channels
            .iter()
            .map(|state| state.file.length)
            .sum();
        assert_eq!(counted.bytes_in_flight, stored);
        assert_eq!(stored == 0, mode == Mode::Aligned);
        assert_eq!(counted.alignment, Duration::ZERO, "it has a single channel");
        let source = &metadata.operators["numbers"].subtasks[0].statistics;
        assert_eq!(source.bytes_in_flight, 0);
        kill(job, &permits);
    }
}
