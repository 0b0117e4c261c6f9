//! Barriers that overtake: the records they leave behind are part of the checkpoint, and count once.

use std::{path::Path, time::Duration};

use cutwater_barrier::Mode;
use cutwater_runtime::{
    BoxError, Collect, ErrorKind, Guarantee, Job, JobHandle, KeyedBroadcastProcess, KeyedContext,
    KeyedProcess, Result, Settings, State,
};
use cutwater_source::VecSource;
use cutwater_state::{Handle, MapState};
use cutwater_storage::testkit::{Call, Failure, FaultyBlobs, On};

use crate::{
    common::{KEYS, Update, assert_ledger, counting, numbers, settings, start, store, wait_until},
    held::{
        Held, Permits, checkpoint_past, checkpoint_while_records_pass, in_flight, metadata,
        on_request,
    },
    stepped::{Stepped, Steps},
};

const RECORDS: u64 = 2_000;

fn held(steps: &Steps, permits: &Permits, output: &Collect<Update>) -> Job {
    let permits = permits.clone();
    let job = Job::new("counting");
    job.source("numbers", Stepped::watched(numbers(RECORDS), steps))
        .map(|number| number + WIDE)
        .key_by(|number| number % KEYS)
        .process("count", move |open| Held::open(open, &permits))
        .sink("updates", output.clone());
    job
}

/// Makes a number long and leaves its key.
const WIDE: u64 = KEYS << 56;

/// Ends the job as it is.
fn kill(job: JobHandle, permits: &Permits) {
    job.cancel();
    permits.end();
    job.wait().unwrap_err();
}

/// Runs the job to its end from the latest checkpoint.
fn finish(directory: &Path, output: &Collect<Update>, settings: Settings) {
    let job = held(&Steps::up_to(u64::MAX), &Permits::unlimited(), output);
    assert!(start(job, directory, settings).wait().unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

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

/// B11: between a source and the keyed operator stands one without state and with a parallelism of
/// its own, so both of its sides have records in flight. After the rescale one of the two edges could
/// be chained.
#[test]
fn records_in_flight_around_an_operator_without_state_find_their_way() {
    for (before, after) in [(2, 3), (3, 2), (2, 1)] {
        let directory = tempfile::tempdir().unwrap();
        let output = Collect::new();
        let build = |steps: &Steps, permits: &Permits| {
            let permits = permits.clone();
            let job = Job::new("counting");
            job.source("numbers", Stepped::watched(numbers(RECORDS), steps))
                .map(|number| number)
                .parallelism(3)
                .key_by(|number| number % KEYS)
                .process("count", move |open| Held::open(open, &permits))
                .sink("updates", output.clone());
            job
        };
        let (permits, steps) = (Permits::default(), Steps::up_to(3 * RECORDS - 1));
        let mut settings = on_request(before, Mode::Unaligned);
        settings.channel_capacity = 1;
        settings.batch_size = 8;
        let job = start(build(&steps, &permits), directory.path(), settings);
        permits.await_waiting(before);
        let checkpoint = checkpoint_while_records_pass(&job, &permits);
        let metadata = metadata(directory.path(), checkpoint);
        assert!(in_flight(&metadata, |edge| edge.ends_with("count [0.0]")) > 0);
        kill(job, &permits);

        let job = build(&Steps::up_to(u64::MAX), &Permits::unlimited());
        let settings = on_request(after, Mode::Unaligned);
        let outcome = start(job, directory.path(), settings).wait().unwrap();
        assert!(outcome.is_finished);
        assert_ledger(output.take(), RECORDS);
    }
}

/// B04: two inputs, of 2 and 3 channels, a record in flight in each.
#[test]
fn records_of_two_inputs_come_back_each_on_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let build = |permits: &Permits, left: &Steps, right: &Steps| {
        let permits = permits.clone();
        let job = Job::new("union");
        let lists = |from: u64, lists: u64| {
            VecSource::new((from..from + lists).map(|number| vec![number]).collect())
        };
        let left = job
            .source("left", Stepped::watched(lists(0, 2), left))
            .parallelism(2);
        let right = job
            .source("right", Stepped::watched(lists(2, 3), right))
            .parallelism(3);
        left.union(&right)
            .key_by(|number| *number)
            .process("count", move |open| Held::open(open, &permits))
            .sink("updates", output.clone());
        job
    };
    let (permits, left, right) = (Permits::default(), Steps::up_to(2), Steps::up_to(3));
    let job = build(&permits, &left, &right);
    let job = start(job, directory.path(), on_request(1, Mode::Unaligned));
    wait_until("all are in the channels", || {
        left.given() == 2 && right.given() == 3
    });
    permits.await_waiting(1);
    let checkpoint = checkpoint_past(&job, &right, 3, &permits, 1);
    let metadata = metadata(directory.path(), checkpoint);
    assert_eq!(in_flight(&metadata, |_| true), 4);
    let sections = metadata.channels.iter().flat_map(|state| &state.sections);
    let channels: Vec<_> = sections.map(|s| (s.edge.as_str(), s.from)).collect();
    assert_eq!(channels.len(), 4, "{channels:?}");
    kill(job, &permits);

    let job = build(&Permits::unlimited(), &Steps::up_to(2), &Steps::up_to(3));
    let outcome = start(job, directory.path(), on_request(2, Mode::Unaligned)).wait();
    assert!(outcome.unwrap().is_finished);
    let mut updates = output.take();
    updates.sort_unstable();
    assert_eq!(updates, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
}

/// Counts with a permit per record, and hears broadcasts.
struct HeldWithRules(Held);

impl KeyedBroadcastProcess<u64> for HeldWithRules {
    type In = u64;
    type Broadcast = u64;
    type Out = Update;

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        KeyedProcess::process(&mut self.0, number, context, out)
    }

    fn broadcast(
        &mut self,
        _: u64,
        _: &mut cutwater_runtime::Context<'_>,
        _: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
}

/// B13, F074: a broadcast edge is never overtaken and has no channel state, another edge of the same
/// task has; both ends of a rescale find that right.
#[test]
fn an_edge_that_cannot_be_dealt_out_anew_is_never_overtaken() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let build = |permits: &Permits, steps: &Steps| {
        let permits = permits.clone();
        let job = Job::new("broadcast");
        let rules = job
            .source("rules", VecSource::new(vec![vec![1_u64, 2, 3]]))
            .parallelism(1);
        job.source("numbers", Stepped::watched(numbers(RECORDS), steps))
            .key_by(|number| number % KEYS)
            .connect_broadcast(&rules, "count", move |open| {
                Held::open(open, &permits).map(HeldWithRules)
            })
            .sink("updates", output.clone());
        job
    };
    let (permits, steps) = (Permits::default(), Steps::up_to(200));
    let job = build(&permits, &steps);
    let job = start(job, directory.path(), on_request(2, Mode::Unaligned));
    wait_until("all are in the channels", || steps.given() == 200);
    permits.await_waiting(2);
    // The broadcast records may be read only after some others: they wait their turn.
    let checkpoint = checkpoint_while_records_pass(&job, &permits);
    let metadata = metadata(directory.path(), checkpoint);
    assert_eq!(in_flight(&metadata, |edge| edge.starts_with("rules")), 0);
    kill(job, &permits);

    let job = build(&Permits::unlimited(), &Steps::up_to(u64::MAX));
    let outcome = start(job, directory.path(), on_request(3, Mode::Unaligned)).wait();
    assert!(outcome.unwrap().is_finished);
    assert_ledger(output.take(), RECORDS);
}

/// So many records in flight are not part of the metadata but a file of their own.
const MANY: u64 = 3_000;

/// Channels that hold them.
fn roomy() -> Settings {
    let mut settings = on_request(1, Mode::Unaligned);
    settings.channel_capacity = 64;
    settings.tolerable_failures = 1;
    settings
}

/// B12: forward edges that are not chained, from producers that are rescaled alone, 4 → 2.
#[test]
fn a_producer_that_is_rescaled_leaves_no_record_in_flight_behind() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let build = |producers: u16, steps: &Steps, permits: &Permits| {
        let permits = permits.clone();
        let job = Job::new("producers");
        let numbers = job
            .source("numbers", Stepped::watched(numbers(RECORDS), steps))
            .parallelism(producers);
        let (even, odd) = (
            numbers
                .filter(|number| number % 2 == 0)
                .parallelism(producers),
            numbers
                .filter(|number| number % 2 == 1)
                .parallelism(producers),
        );
        even.union(&odd)
            .map(|number| number)
            .parallelism(3)
            .key_by(|number| number % KEYS)
            .process("count", move |open| Held::open(open, &permits))
            .sink("updates", output.clone());
        job
    };
    for producers in [4, 2, 3] {
        let (permits, steps) = (Permits::default(), Steps::up_to(RECORDS));
        let mut settings = on_request(3, Mode::Unaligned);
        settings.channel_capacity = 2;
        settings.batch_size = 16;
        let job = start(
            build(producers, &steps, &permits),
            directory.path(),
            settings,
        );
        permits.await_waiting(3);
        let checkpoint = checkpoint_while_records_pass(&job, &permits);
        let metadata = metadata(directory.path(), checkpoint);
        assert!(in_flight(&metadata, |_| true) > 0);
        kill(job, &permits);
    }
    let job = build(2, &Steps::up_to(u64::MAX), &Permits::unlimited());
    let settings = on_request(3, Mode::Unaligned);
    assert!(
        start(job, directory.path(), settings)
            .wait()
            .unwrap()
            .is_finished
    );
    assert_ledger(output.take(), RECORDS);
}

/// B63: a damaged file of in-flight records is refused by name, and F076: the named checkpoint, and
/// only that, can be restored without them.
#[test]
fn damaged_records_in_flight_are_refused_by_name_or_left_out_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let (output, permits) = (Collect::new(), Permits::default());
    let steps = Steps::up_to(MANY);
    let job = held(&steps, &permits, &output);
    let job = start(job, directory.path(), roomy());
    wait_until("all are in the channels", || steps.given() == MANY);
    permits.await_waiting(1);
    let checkpoint = checkpoint_past(&job, &steps, 1, &permits, 1);
    let file = metadata(directory.path(), checkpoint).channels[0]
        .file
        .clone();
    kill(job, &permits);

    let file = file.path().expect("a file of its own");
    let path = directory.path().join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = |settings| {
        let job = held(&Steps::up_to(u64::MAX), &Permits::unlimited(), &output);
        start(job, directory.path(), settings).wait()
    };
    let mut settings = on_request(1, Mode::Aligned);
    let error = run(settings.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restore);
    let chain = error.chain();
    assert!(
        chain.contains(file) && chain.contains("ignore_in_flight"),
        "{chain}"
    );

    settings.ignore_in_flight = Some(checkpoint);
    assert!(run(settings).unwrap().is_finished);
    let updates = output.take();
    assert_eq!(
        updates.len() as u64,
        3 * RECORDS - (MANY - 1),
        "what was in flight is lost"
    );
}

#[test]
fn records_of_another_type_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (output, permits) = (Collect::new(), Permits::default());
    let steps = Steps::up_to(100);
    let job = held(&steps, &permits, &output);
    let job = start(job, directory.path(), on_request(1, Mode::Unaligned));
    wait_until("all are in the channels", || steps.given() == 100);
    permits.await_waiting(1);
    checkpoint_past(&job, &steps, 1, &permits, 1);
    kill(job, &permits);

    let job = Job::new("counting");
    job.source("numbers", numbers(RECORDS))
        .map(|number| number.to_string())
        .key_by(|number| number.len() as u64)
        .fold("count", |count: &mut u64, _| {
            *count += 1;
            (0, *count)
        })
        .sink("updates", output.clone());
    let error = start(job, directory.path(), on_request(1, Mode::Aligned))
        .wait()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restore, "{}", error.chain());
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

/// Fails if the records of a list come to a key in another order than that of the list.
struct InOrder {
    newest: Handle<MapState<u64, u16, u64>>,
    permits: Permits,
    subtask: u16,
}

impl KeyedProcess<u64> for InOrder {
    type In = (u16, u64);
    type Out = Update;

    fn process(
        &mut self,
        (list, number): (u16, u64),
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<Update>,
    ) -> Result<(), BoxError> {
        self.permits.take(self.subtask)?;
        let newest = &mut context.keyed[self.newest];
        let before = newest.put(context.key, list, number)?;
        if before.is_some_and(|newest| newest >= number) {
            return Err(format!("{number} of list {list} comes after {newest:?}").into());
        }
        out.push((u64::from(list), number));
        Ok(())
    }
}

/// F063, F070: what one sender sent comes in its order, restored records before new ones, over any
/// number of checkpoints with unread rests, also when another subtask takes over the sender's split.
#[test]
fn records_of_a_sender_keep_their_order_over_restores() {
    const LISTS: u16 = 3;
    const LENGTH: u64 = 900;
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let build = |steps: &Steps, permits: &Permits| {
        let list = |list: u16| (0..LENGTH).map(|number| (list, number)).collect();
        let lists = VecSource::new((0..LISTS).map(list).collect());
        let permits = permits.clone();
        let job = Job::new("ordered");
        job.source("lists", Stepped::watched(lists, steps))
            .key_by(|(_, number)| number % 7)
            .process("in-order", move |open| {
                Ok(InOrder {
                    newest: open.keyed.map("newest")?,
                    permits: permits.clone(),
                    subtask: open.subtask.index,
                })
            })
            .sink("out", output.clone());
        job
    };
    for parallelism in [2, 3, 1, 2] {
        let (permits, steps) = (Permits::default(), Steps::up_to(300));
        let mut settings = on_request(parallelism, Mode::Unaligned);
        settings.channel_capacity = 64; // also for what is still unread of the runs before
        let job = start(build(&steps, &permits), directory.path(), settings);
        wait_until("more is in the channels", || steps.given() == 300);
        permits.give(20);
        checkpoint_while_records_pass(&job, &permits);
        kill(job, &permits);
    }
    let job = build(&Steps::up_to(u64::MAX), &Permits::unlimited());
    let settings = on_request(3, Mode::Unaligned);
    assert!(
        start(job, directory.path(), settings)
            .wait()
            .unwrap()
            .is_finished
    );
    let mut found = output.take();
    found.sort_unstable();
    let all = (0..u64::from(LISTS)).flat_map(|list| (0..LENGTH).map(move |n| (list, n)));
    assert_eq!(found, all.collect::<Vec<_>>());
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
