//! What a job is restored from, and what is refused before anything runs.

use std::path::Path;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::MaxParallelism;
use cutwater_runtime::{
    BoxError, Collect, Error, ErrorKind, Job, KeyedContext, KeyedProcess, Outcome, Restore, Result,
    Settings, State,
};
use cutwater_source::VecSource;
use cutwater_state::{Data, Handle, ValueState};

use crate::common::{Barrage, Update, assert_ledger, counting, settings, start, wait_until};

/// A finished run, to restore from.
fn finished(directory: &Path) -> Outcome {
    let job = counting(1_000, &Collect::new(), |number| number);
    start(job, directory, settings(2)).wait().unwrap()
}

fn refused(job: Job, directory: &Path, settings: Settings) -> String {
    let error: Error = start(job, directory, settings).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restore, "{}", error.chain());
    error.chain()
}

/// Keeps a value of type `V` under a name of the test's choice.
struct Keep<V: Data>(Handle<ValueState<u64, V>>);

impl<V: Data + Default> KeyedProcess<u64> for Keep<V> {
    type In = u64;
    type Out = u64;

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        context
            .keyed
            .update(self.0, context.key, |slot| *slot = Some(V::default()))?;
        out.push(number);
        Ok(())
    }
}

fn keeping<V: Data + Default>(uid: &str, state: &'static str) -> Job {
    let job = Job::new("keeping");
    job.source("numbers", VecSource::new(vec![(0..100_u64).collect()]))
        .key_by(|number| number % 10)
        .process(uid, move |open| Ok(Keep::<V>(open.keyed.value(state)?)))
        .sink("out", Collect::new());
    job
}

#[test]
fn state_of_an_operator_that_is_gone_is_refused_by_uid_and_dropped_only_if_allowed() {
    let directory = tempfile::tempdir().unwrap();
    start(keeping::<u64>("sums", "sum"), directory.path(), settings(2))
        .wait()
        .unwrap();
    let renamed = || keeping::<u64>("totals", "sum");
    let message = refused(renamed(), directory.path(), settings(2));
    assert!(message.contains("no operator `sums`"), "{message}");
    assert!(message.contains("allow dropped state"), "{message}");
    let mut settings = settings(2);
    settings.allow_dropped_state = true;
    start(renamed(), directory.path(), settings).wait().unwrap();
}

#[test]
fn a_state_that_is_not_declared_any_more_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    start(keeping::<u64>("sums", "sum"), directory.path(), settings(2))
        .wait()
        .unwrap();
    let message = refused(
        keeping::<u64>("sums", "total"),
        directory.path(),
        settings(1),
    );
    assert!(
        message.contains("`sums`") && message.contains("`sum`"),
        "{message}"
    );
}

#[test]
fn a_state_of_another_type_is_refused_with_both_schemas() {
    let directory = tempfile::tempdir().unwrap();
    start(keeping::<u64>("sums", "sum"), directory.path(), settings(2))
        .wait()
        .unwrap();
    let message = refused(
        keeping::<String>("sums", "sum"),
        directory.path(),
        settings(2),
    );
    assert!(
        message.contains("u64") && message.contains("str"),
        "{message}"
    );
}

/// F083.
#[test]
fn a_checkpoints_max_parallelism_is_adopted_by_default_and_another_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let with = |max| {
        let mut settings = settings(2);
        settings.max_parallelism = MaxParallelism::new(max);
        settings
    };
    start(keeping::<u64>("sums", "sum"), directory.path(), with(64))
        .wait()
        .unwrap();
    let message = refused(keeping::<u64>("sums", "sum"), directory.path(), with(256));
    assert!(
        message.contains("64") && message.contains("256"),
        "{message}"
    );
    start(keeping::<u64>("sums", "sum"), directory.path(), settings(3))
        .wait()
        .unwrap();
    let message = refused(
        keeping::<u64>("sums", "sum"),
        directory.path(),
        settings(65),
    );
    assert!(
        message.contains("65") && message.contains("64 key groups"),
        "{message}"
    );
}

#[test]
fn a_fresh_start_ignores_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    finished(directory.path());
    let output = Collect::new();
    let mut settings = settings(2);
    settings.restore = Restore::Fresh;
    let job = counting(1_000, &output, |number| number);
    start(job, directory.path(), settings).wait().unwrap();
    assert_ledger(output.take(), 1_000);
}

#[test]
fn a_checkpoint_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    finished(directory.path());
    let mut settings = settings(2);
    settings.restore = Restore::Checkpoint(CheckpointId::new(9_999));
    let output = Collect::<Update>::new();
    let message = refused(
        counting(1, &output, |number| number),
        directory.path(),
        settings,
    );
    assert!(message.contains("9999"), "{message}");
}

/// SPEC 4.4: never past a checkpoint whose transactions were committed.
#[test]
fn a_checkpoint_older_than_what_sinks_have_committed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::<Update>::new();
    let hold = Barrage::default();
    let held = hold.clone();
    let job = counting(1_000, &output, move |number| {
        if number == 500 {
            held.pass();
        }
        number
    });
    let handle = start(job, directory.path(), settings(2));
    hold.await_waiting();
    handle.stop();
    wait_until("the last checkpoint is triggered", || {
        handle.status().state == State::Stopping
    });
    hold.open();
    let middle = handle.wait().unwrap().checkpoint;
    let mut settings = settings(2);
    settings.checkpoint_interval = None;
    let job = counting(1_000, &output, |number| number);
    start(job, directory.path(), settings.clone())
        .wait()
        .unwrap();

    settings.restore = Restore::Checkpoint(middle);
    let message = refused(
        counting(1, &output, |number| number),
        directory.path(),
        settings,
    );
    assert!(message.contains("would be written again"), "{message}");
}

#[test]
fn two_operators_with_one_uid_are_refused_when_the_job_is_built() {
    let job = Job::new("twins");
    let numbers = job.source("numbers", VecSource::new(vec![vec![1_u64]]));
    numbers.sink("out", Collect::new());
    numbers.sink("out", Collect::new());
    let directory = tempfile::tempdir().unwrap();
    let store = crate::common::store(directory.path());
    let error = job.start(store, settings(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
    assert!(error.to_string().contains("`out`"), "{error}");
}
