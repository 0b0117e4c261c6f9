//! What checkpoints every 100 ms cost the thread that processes, and everybody else.
//!
//! One job, the keyed sum at 1 million keys, runs for a minute. In every other window of 400 ms it takes a
//! checkpoint each 100 ms, in the windows between none, and the CPU time of a record in each window is set against that
//! in the two around it. So both rivals have the same table at the same addresses and the same neighbours on
//! the machine: between two runs those alone make a difference of some 10 %.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::time::ClockId;
use support::{Running, cpu};

const KEYS: u64 = 1_000_000;
const PAIRS: usize = 75;
/// Checkpoints of a window.
const CHECKPOINTS: u32 = 4;
const INTERVAL: Duration = Duration::from_millis(100);

fn main() {
    let job = Running::start(KEYS, u64::MAX, None, support::fold);
    job.progress.once(KEYS);
    window(&job, true); // which leaves buffers for copies
    let mut off = window(&job, false);
    let (mut thread, mut others) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let on = window(&job, true);
        let after = window(&job, false);
        let without = |of: fn(&Window) -> f64| f64::midpoint(of(&off), of(&after));
        thread.push(on.thread / without(|window| window.thread));
        let more = on.others - without(|window| window.others);
        others.push(more * on.records as f64 / f64::from(CHECKPOINTS) * 1e3);
        off = after;
    }
    let ratio = median(&mut thread);
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    {
        println!(
            "{KEYS} keys, {PAIRS} windows with {CHECKPOINTS} checkpoints between windows without:\n  \
             processing thread: {:.1} ns of CPU time a record without, × {ratio:.3} with (quartiles {:.3} and {:.3})\n  \
             other threads (writer, coordinator, log): {:.1} ms of CPU time a checkpoint",
            off.thread * 1e9,
            thread[PAIRS / 4],
            thread[3 * PAIRS / 4],
            median(&mut others),
        );
    }
}

/// CPU seconds a record.
struct Window {
    records: u64,
    thread: f64,
    others: f64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock, and keeps to it"
)]
fn window(job: &Running, with_checkpoints: bool) -> Window {
    let from = (job.progress.so_far(), cpu(ClockId::ProcessCPUTime));
    let start = Instant::now();
    for number in 0..CHECKPOINTS {
        if with_checkpoints {
            job.handle.checkpoint().expect("nothing is in its way");
        }
        let next = INTERVAL * (number + 1);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
    let to = (job.progress.so_far(), cpu(ClockId::ProcessCPUTime));
    let records = to.0.records - from.0.records;
    let thread = to.0.thread - from.0.thread;
    let others = (to.1 - from.1).saturating_sub(thread);
    Window {
        records,
        thread: thread.as_secs_f64() / records as f64,
        others: others.as_secs_f64() / records as f64,
    }
}

/// Sorts as well.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
