//! Time as the driver tells it.

use core::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A point on the driver's clock, counted from a start of the driver's choice.
///
/// `std::time::Instant` cannot be built from a number, so a test or a simulation could not say
/// "at 250 ms". This can.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(Duration);

impl Time {
    /// The driver's start.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// `after` past the driver's start.
    pub const fn new(after: Duration) -> Self {
        Self(after)
    }

    /// `millis` milliseconds past the driver's start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// How long past the driver's start this is.
    pub const fn since_start(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long `self` is after `rhs`; zero if it is before, as two clocks may disagree a little.
    fn sub(self, rhs: Self) -> Duration {
        self.0.saturating_sub(rhs.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
