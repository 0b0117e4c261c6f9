//! A seeded simulation of whole jobs: tasks, coordinator, log, and what can go wrong between them.
//!
//! Goal: whatever is lost, late, doubled or killed, every checkpoint is a consistent cut and every
//! job comes to its end. Method: draw a small dataflow and its faults from a seed, take one random
//! step after the other, check the properties of `checks/` as it goes. The faults stop at some point;
//! a job that has not ended long after is stuck. Replay a failure with
//! `SIM_SEED=<seed> cargo test --test sim`.

mod checks;
mod random;
mod scenario;
mod task;
mod world;

use checks::Reach;
use world::World;

/// A run that takes longer than this is stuck.
const STEPS_MAX: u64 = 30_000;

const SEEDS: u64 = 3_000;

#[test]
fn every_checkpoint_is_a_consistent_cut_and_every_job_ends() {
    if let Ok(seed) = std::env::var("SIM_SEED") {
        run(seed.parse().expect("SIM_SEED is a number"));
        return;
    }
    let mut all = Reach::default();
    let mut longest = 0;
    for seed in 0..SEEDS {
        let (steps, reach) = run(seed);
        all.add(&reach);
        longest = longest.max(steps);
    }
    println!("the longest of {SEEDS} runs took {longest} steps");
    all.assert_all();
}

fn run(seed: u64) -> (u64, Reach) {
    match std::panic::catch_unwind(|| World::new(seed).run(STEPS_MAX)) {
        Ok(Some(run)) => run,
        Ok(None) => panic!("stuck after {STEPS_MAX} steps: SIM_SEED={seed}"),
        Err(_) => panic!("failed as printed above: SIM_SEED={seed}"),
    }
}
