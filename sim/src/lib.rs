//! Whole jobs from a seed.

mod attempt;
mod committing;
mod coverage;
mod env;
mod external;
mod faults;
mod job;
mod keeper;
mod lane;
mod layout;
mod ledger;
mod process;
mod random;
mod record;
mod restore;
mod stepped;
mod stored;
mod task;
mod trace;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use coverage::Coverage;

/// Runs one seed.
///
/// # Errors
///
/// With a transcript.
pub fn run(seed: u64) -> Result<Coverage, Failure> {
    run_traced(seed, trace::Trace::new(false)).or_else(|_| run_traced(seed, trace::Trace::new(true)))
}

fn run_traced(seed: u64, trace: trace::Trace) -> Result<Coverage, Failure> {
    let mut world = world::World::new(seed, trace);
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(()) => Ok(world.into_coverage()),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(Failure {
                seed,
                what: text.unwrap_or_default(),
                transcript: world.env.trace.to_string(),
            })
        }
    }
}

/// A property did not hold.
#[derive(Debug)]
pub struct Failure {
    /// How to see it again.
    pub seed: u64,
    /// What did not hold.
    pub what: String,
    /// The last events.
    pub transcript: String,
}
