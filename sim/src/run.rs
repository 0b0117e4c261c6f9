//! Many runs, on all cores.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::{coverage::Coverage, job::Job, random::Random, trace::Trace, world::World};

/// So many failures are told; one is enough to begin with.
const FAILURES_MAX: usize = 20;

/// So many seeds a thread takes at a time.
const CHUNK: u64 = 64;

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seeds {
    /// The first one.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Seeds {
    /// `count` seeds from `first` on.
    pub fn new(first: u64, count: u64) -> Self {
        Self { first, count }
    }
}

/// What many runs have shown.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// What the runs that went well have come across.
    pub coverage: Coverage,
    /// The first failures by seed; 20 at most.
    pub failures: Vec<Failure>,
}

/// A property did not hold in one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Runs it again.
    pub seed: u64,
    /// What did not hold.
    pub what: String,
}

/// Runs one seed.
///
/// # Errors
///
/// If a property does not hold.
pub fn run(seed: u64) -> Result<Coverage, Failure> {
    traced(seed, Trace::new(false)).1
}

/// Runs one seed, and gives the last things that happened.
pub fn transcript(seed: u64) -> (String, Result<Coverage, Failure>) {
    let (trace, outcome) = traced(seed, Trace::new(true));
    let job = Job::draw(&mut Random::new(seed));
    (format!("{job}{trace}"), outcome)
}

fn traced(seed: u64, trace: Trace) -> (Trace, Result<Coverage, Failure>) {
    let mut world = World::new(seed, trace);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let (trace, coverage) = world.into_parts();
    let outcome = match ended {
        Ok(()) => Ok(coverage),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
            let what = text.unwrap_or_else(|| "panicked without a word".to_owned());
            Err(Failure { seed, what })
        }
    };
    (trace, outcome)
}

/// Runs all seeds. `progress` is told how many more are done.
pub fn simulate(seeds: &Seeds, progress: impl Fn(u64) + Sync) -> Outcome {
    let next = AtomicU64::new(0);
    let all = Mutex::new(Outcome::default());
    let work = || {
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            let chunk = from..seeds.count.min(from.saturating_add(CHUNK));
            if chunk.is_empty() {
                return;
            }
            let done = chunk.end - chunk.start;
            let mut coverage = Coverage::default();
            let mut failures = Vec::new();
            for seed in chunk {
                match run(seeds.first + seed) {
                    Ok(one) => coverage.merge(&one),
                    Err(failure) => failures.push(failure),
                }
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.coverage.merge(&coverage);
            all.failures.append(&mut failures);
            all.failures.sort_by_key(|failure| failure.seed);
            all.failures.truncate(FAILURES_MAX);
            progress(done);
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
