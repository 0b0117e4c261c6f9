//! How long to wait before asking the target again.

use std::time::Duration;

/// Exponential back-off with a bound. One committer asks, so there is no herd to scatter and
/// no randomness.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Retry {
    /// The wait after the first failure. It doubles with each further one.
    pub delay_first: Duration,
    /// The longest wait.
    pub delay_max: Duration,
    /// After this many failed attempts of one call the job fails. Probes of an unknown outcome do
    /// not count: they go on for as long as nobody knows.
    pub attempts_max: u32,
}

impl Retry {
    /// Starts at `delay_first`, waits at most `delay_max`, fails after `attempts_max` attempts.
    pub const fn new(delay_first: Duration, delay_max: Duration, attempts_max: u32) -> Self {
        Self {
            delay_first,
            delay_max,
            attempts_max,
        }
    }

    /// How long to wait after `failures` failed attempts in a row.
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.delay_first
            .saturating_mul(1 << doublings)
            .min(self.delay_max)
    }

    /// Whether `failures` failed attempts are too many.
    pub fn is_exhausted(&self, failures: u32) -> bool {
        failures >= self.attempts_max
    }
}

impl Default for Retry {
    /// 100 ms, 200 ms, … up to 30 s, and 10 attempts: about a minute of a target that says no.
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30), 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_its_bound() {
        let retry = Retry::new(Duration::from_millis(10), Duration::from_millis(50), 3);
        let delays: Vec<u128> = [0, 1, 2, 3, 4, u32::MAX]
            .map(|failures| retry.delay(failures).as_millis())
            .to_vec();
        assert_eq!(delays, [10, 10, 20, 40, 50, 50]);
        assert!(!retry.is_exhausted(2) && retry.is_exhausted(3));
    }
}
