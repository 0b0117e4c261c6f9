//! Timers by the clock: they fire although no record comes, once each, across failures and rescaling.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cutwater_runtime::{
    BoxError, Collect, Job, KeyedContext, KeyedOpen, KeyedProcess, Restart, Result, State,
};
use cutwater_source::VecSource;
use cutwater_state::{Handle, Timers, Timestamp};

use crate::{
    common::{settings, start, wait_until},
    stepped::Stepped,
};

/// So many numbers get a timer each. What comes behind them keeps the source from ending.
const NUMBERS: u64 = 300;

/// Emits each number some milliseconds after it came.
struct Later {
    timers: Handle<Timers<u64>>,
    fails: Arc<AtomicBool>,
}

impl Later {
    fn open(open: &mut KeyedOpen<'_, u64>, fails: &Arc<AtomicBool>) -> Result<Self> {
        Ok(Self {
            timers: open.processing_timers()?,
            fails: Arc::clone(fails),
        })
    }
}

impl KeyedProcess<u64> for Later {
    type In = u64;
    type Out = u64;

    fn process(
        &mut self,
        number: u64,
        context: &mut KeyedContext<'_, u64>,
        _: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        let after = context
            .now
            .checked_add(Duration::from_millis(1 + number % 20));
        let at = after.ok_or("the end of time")?;
        context.keyed[self.timers].set(context.key, at)?;
        Ok(())
    }

    fn on_timer(
        &mut self,
        time: Timestamp,
        context: &mut KeyedContext<'_, u64>,
        out: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        assert!(time <= context.now, "too early");
        let number = *context.key.key();
        if number == NUMBERS - 1 && self.fails.swap(false, Ordering::Relaxed) {
            return Err("as the test wants it".into());
        }
        out.push(number);
        Ok(())
    }
}

fn job(allowed: &Arc<AtomicU64>, fails: &Arc<AtomicBool>, output: &Collect<u64>) -> Job {
    let source = VecSource::new(vec![(0..100 * NUMBERS).collect()]);
    let fails = Arc::clone(fails);
    let job = Job::new("later");
    job.source("numbers", Stepped::new(source, Arc::clone(allowed)))
        .filter(|number| *number < NUMBERS)
        .key_by(|number| *number)
        .process("later", move |open| Later::open(open, &fails))
        .sink("out", output.clone());
    job
}

/// B37, F104: stopped with timers pending, rescaled, failed in the middle of firing: each fires once.
#[test]
fn each_timer_fires_once_though_no_record_comes() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let fails = Arc::new(AtomicBool::new(false));

    let allowed = Arc::new(AtomicU64::new(NUMBERS / 2));
    let handle = start(
        job(&allowed, &fails, &output),
        directory.path(),
        settings(2),
    );
    wait_until("one has fired, though no more records come", || {
        !output.is_empty()
    });
    handle.stop();
    handle.wait().unwrap();

    fails.store(true, Ordering::Relaxed);
    let allowed = Arc::new(AtomicU64::new(NUMBERS));
    let handle = start(
        job(&allowed, &fails, &output),
        directory.path(),
        settings(3),
    );
    wait_until("it has failed and runs again", || {
        let status = handle.status();
        status.restarts == 1 && status.state == State::Running
    });
    allowed.store(3 * NUMBERS, Ordering::Relaxed); // what was read is read again
    wait_until("all timers have fired", || output.len() >= NUMBERS as usize);
    handle.stop();
    handle.wait().unwrap();

    let mut fired = output.take();
    fired.sort_unstable();
    assert_eq!(fired, (0..NUMBERS).collect::<Vec<_>>());
}

/// Sets timers, and has nothing to be called for them.
struct Careless(Handle<Timers<u64>>);

impl KeyedProcess<u64> for Careless {
    type In = u64;
    type Out = u64;

    fn process(
        &mut self,
        _: u64,
        context: &mut KeyedContext<'_, u64>,
        _: &mut Vec<u64>,
    ) -> Result<(), BoxError> {
        context.keyed[self.0].set(context.key, context.now)?;
        Ok(())
    }
}

#[test]
fn a_timer_that_nobody_answers_fails_the_job_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let job = Job::new("careless");
    job.source("numbers", VecSource::new(vec![vec![1]]))
        .key_by(|number| *number)
        .process("careless", |open| Ok(Careless(open.processing_timers()?)))
        .sink("out", Collect::new());
    let mut settings = settings(1);
    settings.restart = Restart::Never;
    let error = start(job, directory.path(), settings).wait().unwrap_err();
    let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
        error.source()
    });
    let told = causes.any(|cause| cause.to_string().contains("has no `on_timer`"));
    assert!(told, "{error:?}");
}
