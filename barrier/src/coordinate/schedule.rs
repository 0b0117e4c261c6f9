//! When the next periodic checkpoint is due.
//!
//! `interval` after the last periodic trigger, but no sooner than `min_pause` after the end of the
//! last checkpoint, however that ended (F013).

use core::time::Duration;

use super::Config;
use crate::Time;

/// So that an interval of 0 means "as often as there is room" and not "forever at this instant".
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The pause before a failed final checkpoint is tried again, for a job without an interval.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Schedule {
    config: Config,
    /// When all tasks had begun to run, put off by each trigger. `None`: not yet.
    next: Option<Time>,
    last_end: Option<Time>,
}

impl Schedule {
    pub(super) const fn new(config: Config) -> Self {
        Self {
            config,
            next: None,
            last_end: None,
        }
    }

    /// All tasks run: the first trigger is the initial delay away (F017).
    pub(super) fn start(&mut self, now: Time) {
        self.next.get_or_insert(now + self.config.initial_delay);
    }

    /// A periodic checkpoint was triggered, or refused.
    pub(super) fn triggered(&mut self, now: Time) {
        let interval = self
            .config
            .interval
            .map(|interval| interval.max(INTERVAL_MIN));
        self.next = interval.map(|interval| now + interval);
    }

    /// A checkpoint ended.
    pub(super) fn ended(&mut self, now: Time) {
        self.last_end = Some(now);
    }

    /// When to repeat a final checkpoint that failed at `now`.
    pub(super) fn retry_at(&self, now: Time) -> Time {
        now + self
            .config
            .interval
            .unwrap_or(RETRY_DEFAULT)
            .max(self.config.min_pause)
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.config.interval?;
        let paused = self.last_end.map(|end| end + self.config.min_pause);
        self.next.max(paused.filter(|_| self.next.is_some()))
    }
}
