//! From a key's hash to its group.

use core::fmt;

use crate::{KeyGroup, KeyHash, MaxParallelism};

/// How a hash picks a key group.
///
/// It decides where every key's state lies, so a checkpoint records it (by [`id`](Self::id)) and a
/// restore with another one must be refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Grouping {
    /// XXH64, its upper 32 bits scaled to the number of groups: `(upper * max) >> 32`.
    Xxh64,
    /// Java's `hashCode`, Flink's murmur step, modulo: the groups that Flink computes.
    ///
    /// The hash's upper 32 bits are the murmur value (see [`Flink`](crate::Flink)), so this is
    /// `upper % max`.
    Flink,
}

impl Grouping {
    /// The group of a key with this hash.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than max_parallelism either way"
    )]
    pub const fn group(self, hash: KeyHash, max_parallelism: MaxParallelism) -> KeyGroup {
        let max = max_parallelism.get();
        KeyGroup::new(match self {
            Self::Xxh64 => ((hash.upper() as u64 * max as u64) >> 32) as u16,
            Self::Flink => (hash.upper() % max as u32) as u16,
        })
    }

    /// The name that stands in a checkpoint's metadata. Never changes.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Xxh64 => "xxh64",
            Self::Flink => "flink",
        }
    }

    /// The grouping of this [`id`](Self::id), or `None` if this release knows no such one.
    pub fn from_id(id: &str) -> Option<Self> {
        [Self::Xxh64, Self::Flink]
            .into_iter()
            .find(|grouping| grouping.id() == id)
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
