//! Every way to connect operators, with more than one subtask on both sides.

use std::collections::BTreeMap;

use cutwater_runtime::{
    BoxError, BroadcastProcess, Collect, Context, Job, KeyedBroadcastProcess, KeyedCoProcess,
    KeyedContext, KeyedOpen, Open, Process, Result, Subtask,
};
use cutwater_source::VecSource;
use cutwater_state::{Handle, MapState, ValueState};

use crate::common::{settings, start};

fn run(job: Job) {
    let directory = tempfile::tempdir().unwrap();
    let outcome = start(job, directory.path(), settings(3)).wait().unwrap();
    assert!(outcome.is_finished);
}

fn sorted<T: Ord + Send + 'static>(output: &Collect<T>) -> Vec<T> {
    let mut records = output.take();
    records.sort();
    records
}

#[test]
fn map_filter_and_flat_map_keep_every_record_once() {
    let output = Collect::new();
    let job = Job::new("stateless");
    job.source(
        "numbers",
        VecSource::new(vec![(0..500_u64).collect(), (500..1_000).collect()]),
    )
    .filter(|number| number % 2 == 0)
    .map(|number| number / 2)
    .flat_map(|number, out: &mut Vec<u64>| out.extend([number, number + 500]))
    .sink("out", output.clone());
    run(job);
    assert_eq!(sorted(&output), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_union_has_the_records_of_both_and_a_fan_out_gives_each_consumer_all() {
    let (all, doubled) = (Collect::new(), Collect::new());
    let job = Job::new("union");
    let left = job.source("left", VecSource::new(vec![(0..300_u64).collect()]));
    let right = job.source("right", VecSource::new(vec![(300..600_u64).collect()]));
    let both = left.union(&right);
    both.sink("all", all.clone());
    both.map(|number| 2 * number)
        .sink("doubled", doubled.clone());
    run(job);
    assert_eq!(sorted(&all), (0..600).collect::<Vec<_>>());
    assert_eq!(
        sorted(&doubled),
        (0..600).map(|number| 2 * number).collect::<Vec<_>>()
    );
}

#[test]
fn an_operator_can_have_its_own_parallelism() {
    let output = Collect::new();
    let job = Job::new("funnel");
    job.source("numbers", VecSource::new(vec![(0..900_u64).collect()]))
        .process("one", |open| Ok(Number(open.subtask)))
        .parallelism(1)
        .process("two", |open| Ok(Number(open.subtask)))
        .parallelism(2)
        .sink("out", output.clone());
    run(job);
    assert_eq!(sorted(&output), (0..900).collect::<Vec<_>>());
}

/// Passes numbers on.
struct Number(Subtask);

impl Process for Number {
    type In = u64;
    type Out = u64;

    fn process(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        out: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        assert_eq!(self.0, context.subtask);
        out.push(number);
        Ok(())
    }
}

/// Joins what a key is called with what it is worth, in whichever order they come.
struct Join {
    names: Handle<ValueState<u64, String>>,
    worths: Handle<MapState<u64, u64, ()>>,
}

impl Join {
    fn open(open: &mut KeyedOpen<'_, u64>) -> Result<Self> {
        Ok(Self {
            names: open.keyed.value("name")?,
            worths: open.keyed.map("worths")?,
        })
    }
}

impl KeyedCoProcess<u64> for Join {
    type Left = (u64, String);
    type Right = (u64, u64);
    type Out = (String, u64);

    fn left(
        &mut self,
        (_, name): (u64, String),
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<(String, u64)>,
    ) -> Result<(), BoxError> {
        for (worth, ()) in context.keyed[self.worths].entries(context.key)? {
            out.push((name.clone(), *worth));
        }
        context
            .keyed
            .update(self.names, context.key, |slot| *slot = Some(name))?;
        Ok(())
    }

    fn right(
        &mut self,
        (_, worth): (u64, u64),
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<(String, u64)>,
    ) -> Result<(), BoxError> {
        match context.keyed.get(self.names, context.key)? {
            Some(name) => out.push((name.clone(), worth)),
            None => {
                context.keyed[self.worths].put(context.key, worth, ())?;
            }
        }
        Ok(())
    }
}

#[test]
fn two_keyed_inputs_share_the_state_of_a_key() {
    let output = Collect::new();
    let job = Job::new("join");
    let names = (0..200).map(|key| (key, format!("key {key}"))).collect();
    let names = job.source("names", VecSource::new(vec![names]));
    let worths = (0..200)
        .flat_map(|key| [(key, 10 * key), (key, 10 * key + 1)])
        .collect();
    let worths = job.source("worths", VecSource::new(vec![worths]));
    names
        .key_by(|(key, _)| *key)
        .connect(&worths.key_by(|(key, _)| *key), "join", Join::open)
        .sink("out", output.clone());
    run(job);
    let mut expected: Vec<_> = (0..200)
        .flat_map(|key| [10 * key, 10 * key + 1].map(|worth| (format!("key {key}"), worth)))
        .collect();
    expected.sort();
    assert_eq!(sorted(&output), expected);
}

/// Reports, for each number or rule, how many rules it knows.
struct Rules {
    rules: Handle<BTreeMap<u64, u64>>,
}

impl BroadcastProcess for Rules {
    type In = u64;
    type Broadcast = u64;
    type Out = (u16, u64);

    fn process(
        &mut self,
        _: u64,
        _: &mut Context<'_>,
        _: &mut Vec<(u16, u64)>,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    fn broadcast(
        &mut self,
        rule: u64,
        context: &mut Context<'_>,
        out: &mut Vec<(u16, u64)>,
    ) -> Result<(), BoxError> {
        context.operator[self.rules].insert(rule, rule);
        out.push((context.subtask.index, rule));
        Ok(())
    }
}

#[test]
fn every_subtask_gets_all_of_a_broadcast_stream() {
    let output = Collect::new();
    let job = Job::new("rules");
    let numbers = job.source("numbers", VecSource::new(vec![(0..100_u64).collect()]));
    let rules = job.source("rules", VecSource::new(vec![vec![1_u64, 2], vec![3]]));
    let open = |open: &mut Open<'_>| {
        Ok(Rules {
            rules: open.operator.broadcast("rules")?,
        })
    };
    numbers
        .connect_broadcast(&rules, "apply", open)
        .sink("out", output.clone());
    run(job);
    let expected: Vec<_> = (0..3)
        .flat_map(|subtask| [1, 2, 3].map(|rule| (subtask, rule)))
        .collect();
    assert_eq!(sorted(&output), expected);
}

/// Sums numbers of a key; a broadcast record is counted by every subtask.
struct Sums {
    sum: Handle<ValueState<u64, u64>>,
}

impl KeyedBroadcastProcess<u64> for Sums {
    type In = u64;
    type Broadcast = u64;
    type Out = (u64, u64);

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<(u64, u64)>,
    ) -> Result<(), BoxError> {
        let sum = context.keyed.update(self.sum, context.key, |sum| {
            let sum = sum.get_or_insert(0);
            *sum += number;
            *sum
        })?;
        out.push((*context.key.key(), sum));
        Ok(())
    }

    fn broadcast(
        &mut self,
        _: u64,
        _: &mut Context<'_>,
        out: &mut Vec<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.push((u64::MAX, 0));
        Ok(())
    }
}

#[test]
fn a_keyed_operator_can_listen_to_a_broadcast_as_well() {
    let output = Collect::new();
    let job = Job::new("sums");
    let numbers = job.source("numbers", VecSource::new(vec![(0..100_u64).collect()]));
    let rules = job.source("rules", VecSource::new(vec![vec![1_u64, 2]]));
    let open = |open: &mut KeyedOpen<'_, u64>| {
        Ok(Sums {
            sum: open.keyed.value("sum")?,
        })
    };
    numbers
        .key_by(|number| number % 10)
        .connect_broadcast(&rules, "sum", open)
        .sink("out", output.clone());
    run(job);
    let updates = sorted(&output);
    let heard = updates.iter().filter(|(key, _)| *key == u64::MAX).count();
    assert_eq!(heard, 2 * 3, "both rules in all three subtasks");
    for key in 0..10 {
        let sums = updates
            .iter()
            .filter(|(k, _)| *k == key)
            .map(|(_, sum)| *sum);
        assert_eq!(sums.max(), Some((0..10).map(|tens| 10 * tens + key).sum()));
    }
}
