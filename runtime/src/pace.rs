//! How many records a task processes in one step, so that a barrier never waits long for it.
//!
//! A barrier that overtakes cannot pre-empt a call of a user function, but it need not wait for a whole
//! batch of them either: a step takes about [`STEP`], whatever a record costs. Not if the cost is that of
//! the call itself (a sink that asks somebody far away once per batch): then a smaller step costs as
//! much and does less.

use std::time::{Duration, Instant};

/// Small against the millisecond or more of a checkpoint that writes a file, large against the 100 ns or
/// two that it costs to begin a step.
const STEP: Duration = Duration::from_micros(250);

/// A step grows by this factor at most, as the next records may cost more: a batch of 1024 is reached
/// after five cheap steps.
const GROWTH: usize = 4;

/// Of so many slow steps one is used to try another size: a wrong guess then costs a percent or two.
const TRIAL: u32 = 64;

/// Measures steps and sizes the next one.
#[derive(Debug)]
pub(crate) struct Pace {
    step: usize,
    batch_size: usize,
    /// The step before.
    last: Option<(usize, Duration)>,
    /// A smaller step was no quicker.
    is_whole: bool,
    /// Slow steps since another size was tried.
    slow: u32,
}

impl Pace {
    /// Begins with a single record, which may cost anything.
    pub(crate) fn new(batch_size: usize) -> Self {
        Self {
            step: 1,
            batch_size,
            last: None,
            is_whole: false,
            slow: 0,
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
        let is_usual = took <= STEP && self.step == self.batch_size;
        if !is_usual && records > 0 {
            self.adapt(records, took);
        }
    }

    fn adapt(&mut self, records: usize, took: Duration) {
        if let Some((before, time)) = self.last.replace((records, took)) {
            if 2 * records <= before {
                // A smaller step that is hardly quicker.
                self.is_whole = took > STEP && 4 * took >= 3 * time;
            } else if records >= 2 * before {
                // A larger one that is hardly slower.
                self.is_whole = took > STEP && 3 * took <= 4 * time;
            }
        }
        self.slow = if took > STEP { self.slow + 1 } else { 0 };
        let is_trial = self.slow == TRIAL;
        if is_trial {
            self.slow = 0;
        }
        self.step = match (self.is_whole, is_trial) {
            (true, false) => self.batch_size,
            (true, true) => (records / 2).max(1),
            (false, true) => (2 * records).min(self.batch_size),
            (false, false) => self.fitting(records, took),
        };
    }

    fn fitting(&self, records: usize, took: Duration) -> usize {
        let fitting = records as u128 * STEP.as_nanos() / took.as_nanos().max(1);
        let most = self.batch_size.min(self.step.saturating_mul(GROWTH)).max(1);
        usize::try_from(fitting).unwrap_or(most).clamp(1, most)
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

    /// A sink that asks somebody far away once per batch.
    #[test]
    fn a_cost_per_step_keeps_batches_whole() {
        let mut pace = Pace::new(1024);
        let mut records = 0;
        for _ in 0..1000 {
            let step = pace.step();
            records += step;
            step_after(&mut pace, step, Duration::from_millis(5));
        }
        assert!(records > 850 * 1024, "{records} in 1000 steps");
    }

    #[test]
    fn records_that_become_slow_are_taken_one_by_one_after_all() {
        let mut pace = Pace::new(1024);
        for _ in 0..200 {
            let records = pace.step();
            step_after(&mut pace, records, Duration::from_millis(5));
        }
        let mut whole = 0;
        for _ in 0..1000 {
            let records = pace.step();
            whole += u32::from(records > 2);
            step_after(&mut pace, records, Duration::from_millis(records as u64));
        }
        assert!(whole <= TRIAL, "{whole} long steps until it was noticed");
    }

    #[test]
    fn an_empty_poll_says_nothing() {
        let mut pace = Pace::new(1024);
        pace.step = 256;
        assert_eq!(step_after(&mut pace, 0, Duration::from_millis(2)), 256);
    }
}
