//! When the next timer of a task's operators is due: what the task waits for at most.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use cutwater_state::Timestamp;

use crate::clock::Clock;

/// The earliest time for which any operator of one task asked. All on the task's thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<AtomicI64>);

/// No operator has a timer.
const NEVER: i64 = i64::MAX;

impl Default for Alarm {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NEVER)))
    }
}

impl Alarm {
    /// Goes off at `time` at the latest.
    pub(crate) fn set(&self, time: Timestamp) {
        self.0.fetch_min(time.millis(), Ordering::Relaxed);
    }

    /// When it goes off.
    #[inline]
    fn time(&self) -> Option<Timestamp> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis != NEVER).then(|| Timestamp::from_millis(millis))
    }

    /// When it goes off, by the clock that is waited with.
    pub(crate) fn instant(&self, clock: Clock) -> Option<Instant> {
        self.time().and_then(|time| clock.instant_at(time))
    }

    /// The time, if it goes off. Whoever waits for something later sets it again.
    #[inline]
    pub(crate) fn take_due(&self, clock: Clock) -> Option<Timestamp> {
        let time = self.time()?;
        let now = clock.timestamp(clock.now());
        if now < time {
            return None;
        }
        self.0.store(NEVER, Ordering::Relaxed);
        Some(now)
    }
}
