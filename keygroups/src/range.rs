//! Sets of key groups: one range, or several.

use alloc::{vec, vec::Vec};
use core::{fmt, iter, ops::Range};

use crate::{KeyGroup, MaxParallelism};

/// Neighbouring key groups, `start..end`. `std::ops::Range` is not `Copy`, this is.
///
/// There is only one empty range, so equality is equality of the groups inside.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyGroupRange {
    start: u16,
    end: u16,
}

impl KeyGroupRange {
    /// No group.
    pub const EMPTY: Self = Self { start: 0, end: 0 };

    /// The groups `start..end`; none if `end <= start`.
    pub const fn new(start: u16, end: u16) -> Self {
        if start < end {
            Self { start, end }
        } else {
            Self::EMPTY
        }
    }

    /// Every group of a job.
    pub const fn all(max_parallelism: MaxParallelism) -> Self {
        Self::new(0, max_parallelism.get())
    }

    /// The first group inside.
    pub const fn start(self) -> u16 {
        self.start
    }

    /// The first group past the end.
    pub const fn end(self) -> u16 {
        self.end
    }

    /// The number of groups inside.
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether no group is inside.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether `group` is inside.
    #[inline]
    pub const fn contains(self, group: KeyGroup) -> bool {
        self.start <= group.get() && group.get() < self.end
    }

    /// `group`, if it is inside.
    ///
    /// # Errors
    ///
    /// If it is not: whoever set the current key has sent it to a task that does not own it, and
    /// writing it here would lose it at the next rescale (case B25).
    #[inline]
    pub const fn check(self, group: KeyGroup) -> Result<KeyGroup, WrongGroup> {
        if self.contains(group) {
            Ok(group)
        } else {
            Err(WrongGroup { group, owned: self })
        }
    }

    /// The groups inside both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        let start = if self.start > other.start {
            self.start
        } else {
            other.start
        };
        let end = if self.end < other.end {
            self.end
        } else {
            other.end
        };
        Self::new(start, end)
    }
}

impl IntoIterator for KeyGroupRange {
    type Item = KeyGroup;
    type IntoIter = iter::Map<Range<u16>, fn(u16) -> KeyGroup>;

    /// The groups inside, in order.
    fn into_iter(self) -> Self::IntoIter {
        (self.start..self.end).map(KeyGroup::new)
    }
}

/// `[4..7]`, both ends inside, as the papers and Flink write it; `[]` if empty.
impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            f.write_str("[]")
        } else {
            write!(f, "[{}..{}]", self.start, self.end - 1)
        }
    }
}

/// A key group outside the range that a task owns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WrongGroup {
    /// The group of the key.
    pub group: KeyGroup,
    /// What the task owns.
    pub owned: KeyGroupRange,
}

impl fmt::Display for WrongGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, owned } = self;
        write!(f, "key group {group} is outside the owned range {owned}")?;
        f.write_str("; a key must hash alike everywhere and go where its key-by sends it")
    }
}

impl core::error::Error for WrongGroup {}

/// Any key groups, as the fewest ranges that hold them: ascending, with gaps between.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct KeyGroupSet {
    ranges: Vec<KeyGroupRange>,
}

impl KeyGroupSet {
    /// No group.
    pub const EMPTY: Self = Self { ranges: Vec::new() };

    /// The ranges that hold the groups, ascending, none empty, no two of them touching.
    pub fn ranges(&self) -> &[KeyGroupRange] {
        &self.ranges
    }

    /// The number of groups inside.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.len()).sum()
    }

    /// Whether no group is inside.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `group` is inside.
    pub fn contains(&self, group: KeyGroup) -> bool {
        let at = self
            .ranges
            .partition_point(|range| range.end <= group.get());
        self.ranges
            .get(at)
            .is_some_and(|range| range.contains(group))
    }

    /// The smallest range with all the groups inside, and possibly others.
    pub fn bounds(&self) -> KeyGroupRange {
        match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(last)) => KeyGroupRange::new(first.start, last.end),
            _ => KeyGroupRange::EMPTY,
        }
    }

    /// The groups inside both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut mine, mut others) = (&self.ranges[..], &other.ranges[..]);
        let mut ranges = Vec::new();
        while let ([a, after_a @ ..], [b, after_b @ ..]) = (mine, others) {
            let both = a.intersection(*b);
            if !both.is_empty() {
                ranges.push(both);
            }
            if a.end <= b.end {
                mine = after_a;
            } else {
                others = after_b;
            }
        }
        Self { ranges }
    }

    /// The groups inside, in order.
    pub fn iter(&self) -> impl Iterator<Item = KeyGroup> {
        self.ranges.iter().copied().flatten()
    }
}

impl From<KeyGroupRange> for KeyGroupSet {
    fn from(range: KeyGroupRange) -> Self {
        Self {
            ranges: if range.is_empty() {
                Vec::new()
            } else {
                vec![range]
            },
        }
    }
}

/// The groups inside any of the ranges, which may be in any order and overlap.
impl FromIterator<KeyGroupRange> for KeyGroupSet {
    fn from_iter<I: IntoIterator<Item = KeyGroupRange>>(ranges: I) -> Self {
        let mut sorted: Vec<_> = ranges
            .into_iter()
            .filter(|range| !range.is_empty())
            .collect();
        sorted.sort_unstable();
        let mut ranges: Vec<KeyGroupRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }
}

/// The groups, which may be in any order.
impl FromIterator<KeyGroup> for KeyGroupSet {
    fn from_iter<I: IntoIterator<Item = KeyGroup>>(groups: I) -> Self {
        let only = |group: KeyGroup| {
            let end = group
                .get()
                .checked_add(1)
                .expect("a key group is less than 32768");
            KeyGroupRange::new(group.get(), end)
        };
        groups.into_iter().map(only).collect()
    }
}

/// `[0..3] [8..8]`, both ends inside; `[]` if empty.
impl fmt::Display for KeyGroupSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, rest) = self
            .ranges
            .split_first()
            .unwrap_or((&KeyGroupRange::EMPTY, &[]));
        write!(f, "{first}")?;
        rest.iter().try_for_each(|range| write!(f, " {range}"))
    }
}
