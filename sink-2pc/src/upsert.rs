//! The other way to exactly-once: rows that may be written twice, because the second time changes
//! nothing.
//!
//! A target without transactions, or one whose readers must not wait for a checkpoint, can still show
//! each update once. Rows are visible as soon as they are written; after a crash the records since the
//! last checkpoint are processed again, and what they write is refused where it is there already:
//!
//! ```text
//!   alice   written 1 2 3 4 │ crash, restored at 2 │ again 3 4, then 5
//!   visible         1 2 3 4                          4 4        5      never back to 3
//! ```
//!
//! It takes four things, and each covers a way in which a row would be wrong:
//!
//! | of the row | otherwise |
//! |---|---|
//! | a **stable key**: the same record writes the same row | a replay leaves a second row |
//! | a **deterministic value**: a version has one value | a replay leaves the old one, or a reader sees two |
//! | a **monotone version** in the row, from the operator's state, so that a restore sets it back | newer and older cannot be told apart |
//! | a **conditional write** that refuses to go back | a replay, or a process that was replaced, undoes newer rows |
//!
//! The number of updates of a key, counted in its keyed state, is such a version. A clock is none: a replay
//! reads it anew. Neither is a checkpoint's id: a key changes more than once between two. To remove a row,
//! write a value that says so, and let a job of the target's clear it up later: a row that is gone has no
//! version, and an old write would bring it back.
//!
//! In SQL one statement does it, for any number of rows:
//!
//! ```sql
//! INSERT INTO totals (aircraft, version, miles) VALUES ($1, $2, $3)
//! ON CONFLICT (aircraft) DO UPDATE SET version = excluded.version, miles = excluded.miles
//! WHERE totals.version < excluded.version
//! ```
//!
//! The operator counts, the sink does the rest:
//!
//! ```
//! use cutwater_barrier::{CheckpointId, Generation, Time};
//! use cutwater_sink_2pc::{
//!     Input, Sink, Writer, WriterContext,
//!     testkit::{MemoryTable, block_on},
//!     upsert::UpsertSink,
//! };
//!
//! # fn main() -> cutwater_sink_2pc::Result<()> {
//! let table = MemoryTable::new(); // Stands for a database.
//! let sink = UpsertSink::new(table.clone());
//! for generation in [1, 2] {
//!     // The second time is a replay: nothing changes.
//!     let context = WriterContext::new("job", "totals", 0, 1, Generation::new(generation));
//!     let mut writer = block_on(sink.writer(context, Vec::new()))?;
//!     let mut rows = vec![(7, 1, "one".to_owned()), (7, 2, "two".to_owned())];
//!     block_on(writer.write(Time::ZERO, &mut rows))?;
//!     block_on(writer.prepare(Time::ZERO, CheckpointId::new(generation), Input::Continues))?;
//!     assert_eq!(table.rows(), [(7, 2, "two".to_owned())]);
//! }
//! # Ok(()) }
//! ```
//!
//! Your own target implements [`UpsertTarget`] and [`UpsertTable`], and takes the exam
//! `testkit::upsert_conforms` (feature `testkit`).
//!
//! No fence is needed. What a replaced process still writes, its successor writes too, with the same
//! versions and values. What is weaker than with transactions: a reader can see rows of which no checkpoint
//! is complete yet, and those of one checkpoint one by one ([`Guarantee::Idempotent`]).
//!
//! [`Guarantee::Idempotent`]: crate::Guarantee::Idempotent

mod sink;

pub use self::sink::{NothingToCommit, UpsertSink, UpsertWriter};

use std::future::Future;

use crate::{Result, WriterContext};

/// A row as it is from some version on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Upsert<K, V> {
    /// Which row.
    pub key: K,
    /// Rises with each change of the row, and is the same in a replay.
    pub version: u64,
    /// What is in it besides. The same whenever the version is.
    pub value: V,
}

impl<K, V> Upsert<K, V> {
    /// The row `key` with `value`, as of `version`.
    pub const fn new(key: K, version: u64, value: V) -> Self {
        Self {
            key,
            version,
            value,
        }
    }
}

/// A triple is a record that every engine can send.
impl<K, V> From<(K, u64, V)> for Upsert<K, V> {
    fn from((key, version, value): (K, u64, V)) -> Self {
        Self::new(key, version, value)
    }
}

/// A row of the table `T`.
pub type Row<T> = Upsert<<T as UpsertTable>::Key, <T as UpsertTable>::Value>;

/// A table, or whatever else has rows that can be written on a condition.
///
/// The contract:
///
/// - A row is written unless there is one of its key with the same version or a higher one. Looking and
///   writing is one step: no other writer gets in between.
/// - A row is visible whole: with value and version of one write.
/// - When the call returns, what it wrote survives a crash of the target. If it fails, any of its rows
///   may have been written.
/// - Calls end by themselves in bounded time. A call whose future was dropped may have taken effect.
pub trait UpsertTable: Send + Sized {
    /// What tells rows apart.
    type Key: Clone + Ord + Send + Sync;
    /// The rest of a row.
    type Value: Clone + PartialEq + Send + Sync;

    /// Writes `rows`, of which no two have the same key, and says how many were not there yet in that
    /// or a later version.
    fn upsert(&mut self, rows: &[Row<Self>]) -> impl Future<Output = Result<u64>> + Send;
}

/// Opens the table for each writer, any number of times and in any process of the job.
pub trait UpsertTarget: Send + Sync {
    /// What it opens.
    type Table: UpsertTable;

    /// Opens the table for one subtask.
    fn open(&self, context: WriterContext) -> impl Future<Output = Result<Self::Table>> + Send;
}
