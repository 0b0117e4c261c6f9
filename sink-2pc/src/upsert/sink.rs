//! A sink of upserts, in the form of any other: all is written before the barrier, and nothing is left
//! to commit.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    marker::PhantomData,
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};

use super::{Row, Upsert, UpsertTable, UpsertTarget};
use crate::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};

/// So many rows are written in one call, unless a checkpoint comes before.
const ROWS_MAX: usize = 1000;

/// A [`Sink`] of rows that may be written twice. Its records are whatever turns into an [`Upsert`]: a
/// triple of key, version and value, or a type of one's own.
#[derive(Clone, Debug)]
pub struct UpsertSink<T, R> {
    target: T,
    rows_max: usize,
    records: PhantomData<fn(R)>,
}

impl<T: UpsertTarget, R> UpsertSink<T, R> {
    /// Writes to `target`, at most 1000 rows at once.
    pub const fn new(target: T) -> Self {
        Self {
            target,
            rows_max: ROWS_MAX,
            records: PhantomData,
        }
    }

    /// The same with at most `rows` rows at once; 1 makes each visible without delay. Of a key that
    /// changes more often than that, only the newest version is written.
    ///
    /// # Panics
    ///
    /// If `rows` is 0.
    #[must_use]
    pub fn with_rows_max(self, rows: usize) -> Self {
        assert!(rows > 0, "a row is written some time");
        Self {
            rows_max: rows,
            ..self
        }
    }
}

impl<T, R> Sink for UpsertSink<T, R>
where
    T: UpsertTarget,
    R: Into<Row<T::Table>> + Send,
{
    type Record = R;
    type Writer = UpsertWriter<T::Table, R>;
    type Committer = NothingToCommit;

    fn guarantee(&self) -> Guarantee {
        Guarantee::Idempotent
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, _: Vec<Vec<u8>>) -> Result<Self::Writer> {
        Ok(UpsertWriter {
            table: self.target.open(context).await?,
            open: BTreeMap::new(),
            rows_max: self.rows_max,
            records: PhantomData,
        })
    }

    async fn committer(&self, _: CommitterContext) -> Result<NothingToCommit> {
        Ok(NothingToCommit)
    }
}

/// Collects the newest version of each key, and writes them when there are enough, or at a barrier.
#[derive(Debug)]
pub struct UpsertWriter<T: UpsertTable, R> {
    table: T,
    open: BTreeMap<T::Key, (u64, T::Value)>,
    rows_max: usize,
    records: PhantomData<fn(R)>,
}

impl<T: UpsertTable, R> UpsertWriter<T, R> {
    /// Notes a row, and checks what can be checked here: the operator's part of the bargain.
    fn note(&mut self, row: Row<T>) -> Result<()> {
        match self.open.entry(row.key) {
            Entry::Vacant(none) => drop(none.insert((row.version, row.value))),
            Entry::Occupied(mut open) => {
                let (version, value) = open.get();
                let why = match row.version.cmp(version) {
                    std::cmp::Ordering::Greater => {
                        open.insert((row.version, row.value));
                        return Ok(());
                    }
                    std::cmp::Ordering::Equal if row.value == *value => return Ok(()),
                    std::cmp::Ordering::Equal => format!("version {version} has two values"),
                    std::cmp::Ordering::Less => {
                        format!("version {} comes after version {version}", row.version)
                    }
                };
                let why = format!("{why} of one key: versions rise with each change of a row");
                return Err(Error::new("taking a row", why));
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open).into_iter();
        let rows: Vec<_> = open
            .map(|(key, (version, value))| Upsert::new(key, version, value))
            .collect();
        for rows in rows.chunks(self.rows_max) {
            self.table.upsert(rows).await?;
        }
        Ok(())
    }
}

impl<T: UpsertTable, R: Into<Row<T>> + Send> Writer for UpsertWriter<T, R> {
    type Record = R;

    async fn write(&mut self, _: Time, batch: &mut Vec<R>) -> Result<()> {
        for record in batch.drain(..) {
            self.note(record.into())?;
        }
        if self.open.len() >= self.rows_max {
            self.flush().await?;
        }
        Ok(())
    }

    /// Everything before the barrier is in the table before the checkpoint can complete: it is not
    /// processed again after that.
    async fn prepare(&mut self, _: Time, _: CheckpointId, _: Input) -> Result<Flushed> {
        self.flush().await?;
        Ok(Flushed::default())
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(())
    }
}

/// The committer of a sink whose rows are visible before the checkpoint is complete.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "it has nothing to do and nothing to know"
)]
pub struct NothingToCommit;

impl NothingToCommit {
    /// A checkpoint of a job that had a transactional sink by this uid names transactions. They would
    /// be lost in silence.
    fn foreign(prepared: &[Prepared]) -> Vec<Verdict> {
        let why = "this sink has no transactions, and one of another kind has left some under its uid: \
                   restore with that one once more, or give the new one a uid of its own";
        let error = Error::new("ending a transaction", why);
        vec![Verdict::Lost(error); prepared.len()]
    }
}

impl Committer for NothingToCommit {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        Self::foreign(prepared)
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        Self::foreign(prepared)
    }

    async fn abort(&mut self, _: &[Prepared]) -> Result<()> {
        Ok(())
    }

    /// A process that was replaced writes nothing that its successor does not write too.
    async fn fence(&mut self, _: Generation) -> Result<()> {
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        Ok(())
    }
}
