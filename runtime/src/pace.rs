//! How many records a task processes in one step, so that a barrier never waits long for it.
//!
//! A barrier cannot pre-empt a call of a user function, but it need not wait for a whole batch of
//! them either: a step takes about [`STEP`], whatever a record costs.

use std::time::{Duration, Instant};

/// Small against a checkpoint, large against two readings of the clock.
const STEP: Duration = Duration::from_millis(1);

/// A step grows by this factor at most, as the next records may cost more.
const GROWTH: usize = 4;

/// Measures steps and sizes the next one.
#[derive(Debug)]
pub(crate) struct Pace {
    step: usize,
    batch_size: usize,
}

impl Pace {
    /// Begins with a single record, which may cost anything.
    pub(crate) fn new(batch_size: usize) -> Self {
        Self {
            step: 1,
            batch_size,
        }
    }

    /// Records that the next step should take at most.
    #[inline]
    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// A step of `records` took from `start` to `end`.
    #[inline]
    pub(crate) fn took(&mut self, records: usize, start: Instant, end: Instant) {
        let took = end.saturating_duration_since(start);
        if took <= STEP && self.step == self.batch_size {
            return; // the usual case
        }
        let fitting = records as u128 * STEP.as_nanos() / took.as_nanos().max(1);
        let most = self.batch_size.min(self.step.saturating_mul(GROWTH));
        self.step = usize::try_from(fitting)
            .unwrap_or(most)
            .clamp(1, most.max(1));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    fn step_after(pace: &mut Pace, records: usize, took: Duration) -> usize {
        let start = Instant::now();
        pace.took(records, start, start + took);
        pace.step()
    }

    #[test]
    fn fast_records_are_taken_a_batch_at_a_time_and_slow_ones_one_by_one() {
        let mut pace = Pace::new(1024);
        pace.step = 1024;
        assert_eq!(step_after(&mut pace, 1024, Duration::from_micros(50)), 1024);
        assert_eq!(step_after(&mut pace, 1024, Duration::from_millis(1024)), 1);
        assert_eq!(step_after(&mut pace, 1, Duration::from_millis(20)), 1);
    }

    #[test]
    fn a_step_grows_as_long_as_records_are_cheap() {
        let mut pace = Pace::new(1024);
        assert_eq!(pace.step(), 1);
        let steps: Vec<_> = (0..6)
            .map(|_| {
                let records = pace.step();
                step_after(&mut pace, records, Duration::from_micros(1))
            })
            .collect();
        assert_eq!(steps, [4, 16, 64, 256, 1024, 1024]);
    }
}
