//! What flows through channels.

use cutwater_barrier::{Barrier, CheckpointId};
use cutwater_keygroups::{Grouping, Key, KeyGroup, MaxParallelism};
use serde::{Deserialize, Serialize};

/// So few that a job can be rescaled across all of them, so many that groups are split unevenly.
pub(crate) const MAX_PARALLELISM: MaxParallelism = MaxParallelism::new(8).expect("in 1..=32768");

/// Few keys, so that many records share one.
const KEYS: u64 = 12;

/// A record's name: no two records of a job have the same. The ledger is kept by it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Id {
    /// A split of the job's input.
    pub(crate) split: u8,
    /// The place in the split, from 0.
    pub(crate) position: u16,
}

impl Id {
    pub(crate) fn key(self) -> u64 {
        (u64::from(self.position) * 7 + u64::from(self.split) * 3) % KEYS
    }

    /// One number for it, as what an external system stores.
    pub(crate) fn to_row(self) -> u64 {
        u64::from(self.split) << 16 | u64::from(self.position)
    }

    pub(crate) fn from_row(row: u64) -> Self {
        Self {
            split: u8::try_from(row >> 16).expect("made by `to_row`"),
            position: u16::try_from(row & 0xffff).expect("masked"),
        }
    }

    /// How often it goes round a loop, if it comes to one.
    pub(crate) fn laps(self) -> u8 {
        u8::try_from((self.position + u16::from(self.split)) % (u16::from(LAPS_MAX) + 1))
            .expect("at most LAPS_MAX")
    }
}

/// The most laps of a record.
pub(crate) const LAPS_MAX: u8 = 2;

/// A record on its way.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Record {
    pub(crate) id: Id,
    /// How often it still has to go round a loop.
    pub(crate) laps: u8,
}

impl Record {
    pub(crate) fn group(self) -> KeyGroup {
        Grouping::Xxh64.group(self.id.key().key_hash(), MAX_PARALLELISM)
    }
}

/// What a channel carries, in order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Item {
    Record(Record),
    Barrier(Barrier),
    /// No barrier of this checkpoint will come.
    Cancel(CheckpointId),
    /// All records have been sent; barriers may follow.
    Drained,
    /// Nothing follows.
    End,
}
