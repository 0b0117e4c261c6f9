//! What checkpoints every 100 ms cost the thread that processes, and everybody else.
//!
//! Pairs of runs of the keyed sum at 1 million keys, one without checkpoints and one with, in turn, so
//! that a drift of the machine's speed touches both. Medians of the ratios.

mod support;

use std::time::Duration;

use support::{RECORDS, run};

const KEYS: u64 = 1_000_000;
const PAIRS: usize = 9;

fn main() {
    let mut thread = Vec::new();
    let mut rest = Vec::new();
    let mut checkpoints = 0;
    for _ in 0..PAIRS {
        let off = run(KEYS, None);
        let on = run(KEYS, Some(Duration::from_millis(100)));
        thread.push(on.thread.as_secs_f64() / off.thread.as_secs_f64());
        let others = |run: &support::Used| (run.process - run.thread).as_secs_f64();
        rest.push((others(&on) - others(&off)) / on.checkpoints as f64 * 1e3);
        checkpoints += on.checkpoints;
    }
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    {
        println!(
            "{KEYS} keys, {RECORDS} records, {PAIRS} pairs, {checkpoints} checkpoints of 100 ms:\n  \
             processing thread: CPU time × {:.3} (least {:.3}, most {:.3})\n  \
             other threads (writer, coordinator, log): {:.1} ms of CPU time a checkpoint",
            median(&mut thread),
            thread[0],
            thread[PAIRS - 1],
            median(&mut rest),
        );
    }
}

/// Sorts as well.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
