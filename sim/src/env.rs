//! What outlives every process: the job, its store, the external system; chance, time and faults.

use cutwater_barrier::Time;
use cutwater_storage::testkit::{FaultyBlobs, MemoryBlobs, Stepped};

use crate::{
    coverage::Coverage, external::External, faults::Faults, job::Job, ledger::Ledger,
    random::Random, trace::Trace,
};

/// The store of the simulation: in memory, with faults, and every call is a step.
pub(crate) type Store = Stepped<FaultyBlobs<MemoryBlobs>>;

/// Every so many runs are watched.
const WATCHED: u64 = 4;

#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) job: Job,
    pub(crate) random: Random,
    pub(crate) now: Time,
    /// The step just made was none: whoever is there waits for a time.
    pub(crate) is_idle: bool,
    /// Whether the check for drivers stands beside each task.
    pub(crate) is_watched: bool,
    pub(crate) faults: Faults,
    pub(crate) blobs: Store,
    pub(crate) external: External,
    pub(crate) ledger: Ledger,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
}

impl Env {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let job = Job::draw(&mut random);
        let faults = Faults::draw(&mut random);
        let memory = MemoryBlobs::new();
        let blobs = FaultyBlobs::new(memory.clone());
        if faults.store_of_1000 > 0 {
            blobs
                .faults()
                .fail_randomly(random.draw(), faults.store_of_1000);
        }
        let mut coverage = Coverage::default();
        for (is_so, what) in [
            (!job.exactly_once, "jobs at least once"),
            (job.feedback().is_some(), "jobs with a loop"),
            (!job.is_bounded(), "jobs without an end"),
        ] {
            if is_so {
                coverage.count(what);
            }
        }
        Self {
            ledger: Ledger::new(memory),
            external: External::new(random.fork(), faults.external),
            job,
            random,
            now: Time::ZERO,
            is_idle: false,
            is_watched: seed.is_multiple_of(WATCHED),
            faults,
            blobs: Stepped(blobs),
            coverage,
            trace,
        }
    }

    pub(crate) fn is_faulty(&self) -> bool {
        self.faults.until > 0
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&mut self) {
        self.note(|| "faults stop".to_owned());
        self.faults = Faults::NONE;
        self.blobs.0.faults().clear();
        self.external.heal();
    }

    /// Compares the store and the external system with the ledger.
    pub(crate) fn audit(&mut self) {
        self.ledger
            .audit(&self.job, &self.external, &mut self.coverage);
        drop(self.blobs.0.faults().take_calls()); // Nobody reads them, and they add up.
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.note(self.now, line);
    }
}
