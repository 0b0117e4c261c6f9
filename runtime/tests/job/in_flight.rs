//! Records in flight find their way after a restore, whatever edge they were on.

use cutwater_barrier::Mode;
use cutwater_runtime::{
    BoxError, Collect, ErrorKind, Job, KeyedBroadcastProcess, KeyedContext, KeyedProcess,
};
use cutwater_source::VecSource;
use cutwater_state::{Handle, MapState};

use crate::{
    common::{KEYS, Update, assert_ledger, flip_a_byte, numbers, start, wait_until},
    held::{
        Held, MANY, Permits, RECORDS, checkpoint_past, checkpoint_while_records_pass,
        checkpoint_with, held, in_flight, kill, metadata, on_request, roomy,
    },
    stepped::{Stepped, Steps},
};

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
        let is_any = |metadata: &_| in_flight(metadata, |edge| edge.ends_with("count [0.0]")) > 0;
        checkpoint_with(is_any, &job, &permits, directory.path());
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
    let build = |permits: &Permits, steps: &Steps| {
        let permits = permits.clone();
        let job = Job::new("union");
        let lists = |from: u64, lists: u64| {
            let lists = (from..from + lists).map(|number| vec![number]).collect();
            Stepped::watched(VecSource::new(lists), steps)
        };
        let left = job.source("left", lists(0, 2)).parallelism(2);
        let right = job.source("right", lists(2, 3)).parallelism(3);
        left.union(&right)
            .key_by(|number| *number)
            .process("count", move |open| Held::open(open, &permits))
            .sink("updates", output.clone());
        job
    };
    let (permits, steps) = (Permits::default(), Steps::up_to(5));
    let job = build(&permits, &steps);
    let job = start(job, directory.path(), on_request(1, Mode::Unaligned));
    wait_until("all are in the channels", || steps.given() == 5);
    permits.await_waiting(1);
    let checkpoint = checkpoint_past(&job, &steps, 5, &permits, 1);
    let metadata = metadata(directory.path(), checkpoint);
    assert_eq!(in_flight(&metadata, |_| true), 4);
    let sections = metadata.channels.iter().flat_map(|state| &state.sections);
    let channels: Vec<_> = sections.map(|s| (s.edge.as_str(), s.from)).collect();
    assert_eq!(channels.len(), 4, "{channels:?}");
    kill(job, &permits);

    let job = build(&Permits::unlimited(), &Steps::up_to(5));
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
        let is_any = |metadata: &_| in_flight(metadata, |_| true) > 0;
        checkpoint_with(is_any, &job, &permits, directory.path());
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
    flip_a_byte(&path);
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
