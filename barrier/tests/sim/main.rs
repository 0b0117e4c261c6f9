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

use world::World;

/// A run that takes longer than this is stuck.
const STEPS_MAX: u64 = 30_000;

const SEEDS: u64 = 3_000;

#[test]
fn every_checkpoint_is_a_consistent_cut_and_every_job_ends() {
    let seeds = match std::env::var("SIM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("SIM_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let mut longest = 0;
    for seed in seeds {
        let run = std::panic::catch_unwind(|| World::new(seed).run(STEPS_MAX));
        match run {
            Ok(Some(steps)) => longest = longest.max(steps),
            Ok(None) => panic!("stuck after {STEPS_MAX} steps: SIM_SEED={seed}"),
            Err(_) => panic!("failed as printed above: SIM_SEED={seed}"),
        }
    }
    println!("longest run: {longest} steps");
}
