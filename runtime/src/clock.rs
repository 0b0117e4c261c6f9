//! The one place that reads the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cutwater_barrier::Time;
use cutwater_state::Timestamp;

/// The clock of one process: tasks and coordinator read the same one, so start delays are exact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The wall clock at `start`, since the Unix epoch.
    unix_start: Duration,
}

#[expect(
    clippy::disallowed_methods,
    reason = "machines take time as an argument; it comes from here"
)]
impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            unix_start: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::new(self.start.elapsed())
    }

    pub(crate) fn instant(&self) -> Instant {
        Instant::now()
    }
}

impl Clock {
    /// When `time` will be, or was. `None` if that is never.
    pub(crate) fn instant_of(&self, time: Time) -> Option<Instant> {
        self.start.checked_add(time.since_start())
    }

    /// `time` on the axis of timers, which goes on after a restart.
    pub(crate) fn timestamp(&self, time: Time) -> Timestamp {
        let millis = i64::try_from(self.unix_millis(time));
        Timestamp::from_millis(millis.unwrap_or(i64::MAX))
    }

    /// When it will be `timestamp`, or was. `None` if that is never.
    pub(crate) fn instant_at(&self, timestamp: Timestamp) -> Option<Instant> {
        let since_epoch = u64::try_from(timestamp.millis()).unwrap_or(0);
        let since_start = Duration::from_millis(since_epoch).saturating_sub(self.unix_start);
        self.start.checked_add(since_start)
    }

    /// A number in `0.0..1.0` that differs from process to process.
    pub(crate) fn fraction(&self) -> f64 {
        f64::from(self.unix_start.subsec_nanos() % 1_000_000) / 1e6
    }

    /// `time` in milliseconds since the Unix epoch.
    pub(crate) fn unix_millis(&self, time: Time) -> u64 {
        let since_epoch = self.unix_start + time.since_start();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
}
