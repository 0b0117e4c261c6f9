//! Rows that may be written twice: the reference table, tables that break the contract, and the sink.

use std::sync::{Arc, Mutex};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Driver, Failure, Flushed, Guarantee, Input, Prepared, Result,
    Retry, Sink, Writer, WriterContext,
    testkit::{MemoryTable, UpsertExam, block_on, examine_upsert, upsert_conforms},
    upsert::{Row, Upsert, UpsertSink, UpsertTable, UpsertTarget},
};

/// SPEC 5.7.
#[test]
fn memory_table_conforms() {
    upsert_conforms(MemoryTable::new);
}

/// What a table can get wrong.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    /// Writes whatever comes.
    Unconditional,
    /// Compares versions as text.
    Textual,
    /// Compares 32 bits of them.
    Narrow,
    /// Writes the version of a row, and keeps its value.
    Torn,
    /// Leaves a row out that is behind one which was refused.
    StopsAtRefusal,
    /// Never writes over what is there.
    WritesOnce,
    /// Appends instead.
    Appends,
    /// Says that all was written.
    Miscounts,
}

/// A table with a flaw.
#[derive(Clone)]
struct Flawed {
    flaw: Flaw,
    rows: Arc<Mutex<Vec<(u64, u64, u64)>>>,
}

impl UpsertTarget for Flawed {
    type Table = Self;

    async fn open(&self, _: WriterContext) -> Result<Self> {
        Ok(self.clone())
    }
}

impl UpsertTable for Flawed {
    type Key = u64;
    type Value = u64;

    async fn upsert(&mut self, rows: &[Upsert<u64, u64>]) -> Result<u64> {
        let mut table = self.rows.lock().unwrap();
        let mut written = 0;
        for row in rows {
            let new = (row.key, row.version, row.value);
            let there = table.iter_mut().find(|(key, ..)| *key == row.key);
            match (self.flaw, there) {
                (_, None) | (Flaw::Appends, _) => table.push(new),
                (flaw, Some(there)) => {
                    let is_newer = match flaw {
                        Flaw::Unconditional => true,
                        Flaw::Textual => row.version.to_string() > there.1.to_string(),
                        Flaw::Narrow => row.version as u32 > there.1 as u32,
                        Flaw::WritesOnce => false,
                        _ => row.version > there.1,
                    };
                    match flaw {
                        Flaw::StopsAtRefusal if !is_newer => break,
                        Flaw::Torn if is_newer => there.1 = row.version,
                        _ if is_newer => *there = new,
                        Flaw::Miscounts => {}
                        _ => continue,
                    }
                }
            }
            written += 1;
        }
        Ok(written)
    }
}

impl UpsertExam for Flawed {
    type Target = Self;

    fn target(&self) -> Self {
        self.clone()
    }

    fn row(&self, key: u64, version: u64) -> Row<Self> {
        Upsert::new(key, version, version)
    }

    async fn visible(&self) -> Vec<(u64, u64, u64)> {
        self.rows.lock().unwrap().clone()
    }
}

#[test]
fn every_flaw_of_a_table_is_seen() {
    for (flaw, told) in [
        (Flaw::Unconditional, "the same row again"),
        (Flaw::Textual, "of more digits"),
        (Flaw::Narrow, "beyond 32 bits"),
        (Flaw::Torn, "the value of version 5"),
        (Flaw::StopsAtRefusal, "four rows"),
        (Flaw::WritesOnce, "a newer row"),
        (Flaw::Appends, "the same row again"),
        (Flaw::Miscounts, "the same row again"),
    ] {
        let rows = Arc::default();
        let open = || Flawed {
            flaw,
            rows: Arc::clone(&rows),
        };
        let open = || {
            rows.lock().unwrap().clear();
            open()
        };
        let reason = block_on(examine_upsert(open)).expect_err("a flaw");
        assert!(reason.contains(told), "{flaw:?}: {reason}");
    }
}

fn writer(
    table: &MemoryTable,
    rows_max: usize,
) -> impl Writer<Record = Upsert<u64, String>> + use<> {
    let sink = UpsertSink::new(table.clone()).with_rows_max(rows_max);
    let context = WriterContext::new("job", "rows", 0, 1, Generation::new(1));
    block_on(sink.writer(context, Vec::new())).unwrap()
}

fn row(key: u64, version: u64) -> Upsert<u64, String> {
    Upsert::new(key, version, format!("as of {version}"))
}

/// What is before the barrier is not processed again once the checkpoint is complete.
#[test]
fn all_is_written_before_the_barrier_and_only_the_newest_of_a_key() {
    let table = MemoryTable::new();
    let mut writer = writer(&table, 100);
    let mut batch = vec![row(1, 1), row(2, 1), row(1, 2), row(1, 2)];
    block_on(writer.write(Time::ZERO, &mut batch)).unwrap();
    assert!(batch.is_empty() && table.rows().is_empty());
    let prepared = writer.prepare(Time::ZERO, CheckpointId::new(1), Input::Continues);
    assert_eq!(block_on(prepared).unwrap(), Flushed::default());
    let visible = table.rows();
    assert_eq!(
        visible,
        [(1, 2, "as of 2".to_owned()), (2, 1, "as of 1".to_owned())]
    );
}

#[test]
fn enough_rows_are_written_without_a_barrier() {
    let table = MemoryTable::new();
    let mut writer = writer(&table, 3);
    block_on(writer.write(Time::ZERO, &mut vec![row(1, 1), row(2, 1)])).unwrap();
    assert_eq!(table.rows().len(), 0);
    block_on(writer.write(Time::ZERO, &mut vec![row(3, 1), row(4, 1)])).unwrap();
    assert_eq!(table.rows().len(), 4);
}

/// The operator's part of the bargain: a version that falls, or has two values, would be refused by the
/// table in silence.
#[test]
fn versions_that_do_not_rise_are_an_error() {
    for (second, told) in [
        (row(1, 4), "version 4 comes after version 5"),
        (
            Upsert::new(1, 5, "other".to_owned()),
            "version 5 has two values",
        ),
    ] {
        let mut writer = writer(&MemoryTable::new(), 100);
        let written = block_on(writer.write(Time::ZERO, &mut vec![row(1, 5), second]));
        let error = written.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(told), "{source}");
    }
}

/// A uid that was a transactional sink's: its transactions are not forgotten in silence.
#[test]
fn transactions_of_another_sink_stop_the_job() {
    let sink = UpsertSink::<_, (u64, u64, String)>::new(MemoryTable::new());
    assert_eq!(sink.guarantee(), Guarantee::Idempotent);
    let named = vec![Prepared::new(CheckpointId::new(1), vec![1])];
    let context = CommitterContext::new("job", "rows", Generation::new(2));
    let restored = Some((CheckpointId::new(1), named));
    let driver = Driver::open(&sink, context, Retry::default(), restored);
    let mut driver = block_on(driver).unwrap();
    let settled = block_on(driver.settle(&|| Time::ZERO, async |_| {}));
    assert!(matches!(settled, Err(Failure::Lost { .. })), "{settled:?}");

    let context = CommitterContext::new("job", "rows", Generation::new(2));
    let mut committer = block_on(sink.committer(context)).unwrap();
    block_on(committer.sweep()).unwrap();
}
