//! Key groups, ranges of them, and their number.

use core::fmt;

/// The slice of a job's keys that moves as one when the job is rescaled. `0..max_parallelism`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyGroup(u16);

impl KeyGroup {
    /// Wraps a raw group number.
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// The raw group number. State keys start with it, two bytes, big-endian, so that one group is
    /// one contiguous range of a sorted store.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many key groups a job has, which is also the most subtasks it can ever have: `1..=32768`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MaxParallelism(u16);

impl MaxParallelism {
    /// The largest that Flink's and our arithmetic allows.
    pub const MAX: Self = Self(32768);

    /// `raw` groups, or `None` if that is not in `1..=32768`.
    pub const fn new(raw: u16) -> Option<Self> {
        if 1 <= raw && raw <= Self::MAX.0 {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The number of groups.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for MaxParallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Neighbouring key groups, `start..end`. `std::ops::Range` is not `Copy`, this is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyGroupRange {
    start: u16,
    end: u16,
}

impl KeyGroupRange {
    /// The groups `start..end`; none if `end <= start`.
    pub const fn new(start: u16, end: u16) -> Self {
        Self { start, end }
    }

    /// The first group inside.
    pub const fn start(self) -> u16 {
        self.start
    }

    /// The first group past the end.
    pub const fn end(self) -> u16 {
        self.end
    }

    /// Whether `group` is inside.
    pub const fn contains(self, group: KeyGroup) -> bool {
        self.start <= group.get() && group.get() < self.end
    }
}
