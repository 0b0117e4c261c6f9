//! The short form of `cargo xtask sim`: what a million jobs must keep, some thousand keep first.

use cutwater_sim::{Seeds, simulate, transcript};

/// A few seconds, unoptimised.
const SEEDS: u64 = 2_000;

#[test]
fn every_record_counts_once_and_every_job_ends() {
    let outcome = simulate(&Seeds::new(0, SEEDS), |_| {});
    if let Some(failure) = outcome.failures.first() {
        let (transcript, _) = transcript(failure.seed);
        panic!(
            "{transcript}\nseed {}: {}\nreplay it: cargo xtask sim --seed {0}",
            failure.seed, failure.what
        );
    }
    println!("{}", outcome.coverage);
    // A fault that never happens proves nothing.
    for what in [
        "aborted: a task failed to take its part",
        "aborted: expired",
        "aborted: not durable",
        "aborted: subsumed",
        "checkpoints completed",
        "cuts: before all restored records were processed",
        "cuts: aligned at first, then unaligned",
        "cuts: unaligned",
        "failed: fenced",
        "failed: stop failed",
        "failed: task lost",
        "failed: too many failures",
        "failed: undecided",
        "jobs at least once",
        "jobs drained",
        "jobs resumed after a stop",
        "jobs suspended",
        "jobs with a loop",
        "jobs without an end",
        "messages doubled",
        "messages lost",
        "power cuts",
        "processes crashed",
        "records in flight restored",
        "rescales",
        "savepoints completed",
        "the store was full",
        "tasks finished early",
        "tasks restored as finished",
        "zombies fenced",
    ] {
        assert!(outcome.coverage.of(what) > 0, "no run came across: {what}");
    }
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    for seed in 0..20 {
        let (first, coverage) = transcript(seed);
        let (again, _) = transcript(seed);
        assert_eq!(first, again, "seed {seed}");
        assert_eq!(
            coverage.unwrap(),
            cutwater_sim::run(seed).unwrap(),
            "seed {seed}"
        );
    }
}
