//! A key group, and how many there are.

use core::fmt;

/// The slice of a job's keys that moves as one when the job is rescaled: `0..max_parallelism`, so
/// never more than 32767.
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
    /// The largest: a group fits in 15 bits, and `group * parallelism` in 32, as in Flink.
    pub const MAX: Self = Self(32768);

    /// `raw` groups, or `None` if that is not in `1..=32768`.
    pub const fn new(raw: u16) -> Option<Self> {
        if 1 <= raw && raw <= Self::MAX.0 {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// What a job gets that does not choose: the power of two that is at least 1.5 times
    /// `parallelism`, not under 128, not over 32768.
    ///
    /// As in Flink, but for the parallelisms 171, 683, 2731 and 10923, where Flink's rounding stays
    /// just under 1.5 times. A checkpoint's number is adopted either way, see [`agreed`](Self::agreed).
    pub const fn default_for(parallelism: u16) -> Self {
        let wanted = (parallelism as u32 * 3).div_ceil(2).next_power_of_two();
        if wanted < 128 {
            Self(128)
        } else if wanted < 32768 {
            #[expect(clippy::cast_possible_truncation, reason = "less than 32768")]
            Self(wanted as u16)
        } else {
            Self::MAX
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
