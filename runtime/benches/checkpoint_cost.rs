//! What checkpoints every 100 ms cost the thread that processes, and everybody else.
//!
//! Pairs of runs of the keyed sum at 1 million keys, one without checkpoints and one with, each first in every other
//! pair, so that a drift of the machine's speed touches both alike. Medians of the ratios.

mod support;

use std::time::Duration;

use support::{RECORDS, run};

const KEYS: u64 = 1_000_000;
const PAIRS: usize = 16;

fn main() {
    let mut thread = Vec::new();
    let mut rest = Vec::new();
    let mut checkpoints = 0;
    for pair in 0..PAIRS {
        let interval = Some(Duration::from_millis(100));
        let (off, on) = if pair % 2 == 0 {
            let off = run(KEYS, None);
            (off, run(KEYS, interval))
        } else {
            let on = run(KEYS, interval);
            (run(KEYS, None), on)
        };
        thread.push(on.thread.as_secs_f64() / off.thread.as_secs_f64());
        let others = |run: &support::Used| (run.process - run.thread).as_secs_f64();
        rest.push((others(&on) - others(&off)) / on.checkpoints as f64 * 1e3);
        checkpoints += on.checkpoints;
    }
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    {
        println!(
            "{KEYS} keys, {RECORDS} records, {PAIRS} pairs, {checkpoints} checkpoints of 100 ms:\n  \
             processing thread: CPU time × {:.3} (least {:.3}, quartiles {:.3} and {:.3}, most {:.3})\n  \
             other threads (writer, coordinator, log): {:.1} ms of CPU time a checkpoint",
            median(&mut thread),
            thread[0],
            thread[PAIRS / 4],
            thread[3 * PAIRS / 4],
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
