//! Points in time that mean the same after a restart.

use std::{fmt, time::Duration};

use cutwater_keygroups::key;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, or on whatever axis the events of a job have: never read from a clock here.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Timestamp(i64);

key!(Timestamp { 0 });

impl Timestamp {
    /// Before all others.
    pub const MIN: Self = Self(i64::MIN);
    /// After all others: the watermark of a stream that has ended.
    pub const MAX: Self = Self(i64::MAX);

    /// So many milliseconds after the epoch.
    #[inline]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds after the epoch.
    #[inline]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// So much later, cut to milliseconds; `None` if there is no such time.
    #[inline]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let millis = i64::try_from(duration.as_millis()).ok()?;
        self.0.checked_add(millis).map(Self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
