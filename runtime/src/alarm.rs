//! When the next timer of a task's operators is due: what the task waits for at most.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use cutwater_state::Timestamp;

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
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis != NEVER).then(|| Timestamp::from_millis(millis))
    }

    /// It has gone off: whoever still waits for something sets it again.
    pub(crate) fn clear(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }
}
