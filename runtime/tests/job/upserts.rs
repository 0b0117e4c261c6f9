//! A job whose sink is a table without transactions: rows are written again after a failure, and no
//! reader sees one go back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use cutwater_runtime::Job;
use cutwater_sink_2pc::{
    Result, WriterContext,
    testkit::MemoryTable,
    upsert::{Row, UpsertSink, UpsertTable, UpsertTarget},
};

use crate::common::{Count, KEYS, numbers, settings, start};

const RECORDS: u64 = 20_000;

/// A table that remembers in which order its rows became visible.
#[derive(Clone, Default)]
struct Watched {
    table: MemoryTable,
    history: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>,
}

impl UpsertTarget for Watched {
    type Table = Self;

    async fn open(&self, _: WriterContext) -> Result<Self> {
        Ok(self.clone())
    }
}

impl UpsertTable for Watched {
    type Key = u64;
    type Value = String;

    async fn upsert(&mut self, rows: &[Row<Self>]) -> Result<u64> {
        let written = self.table.upsert(rows).await?;
        let mut history = self.history.lock().unwrap();
        for (key, version, _) in self.table.rows() {
            history.entry(key).or_default().push(version);
        }
        Ok(written)
    }
}

/// SPEC 5.7.
#[test]
fn rows_written_again_after_a_failure_stay_as_they_are() {
    for at in [5_000, 29_000, 55_000] {
        let directory = tempfile::tempdir().unwrap();
        let target = Watched::default();
        let left = Arc::new(AtomicU64::new(at));
        let job = Job::new("totals");
        job.source("numbers", numbers(RECORDS))
            .map(move |number| {
                assert!(
                    left.fetch_sub(1, Ordering::Relaxed) != 1,
                    "as this test wants it"
                );
                number
            })
            .key_by(|number| number % KEYS)
            .process("count", Count::open)
            .map(|(key, count)| (key, count, format!("{count} times")))
            .sink("totals", UpsertSink::new(target.clone()).with_rows_max(10));
        let outcome = start(job, directory.path(), settings(3)).wait().unwrap();
        assert!(outcome.is_finished && outcome.restarts == 1, "{outcome:?}");

        let mut expected = BTreeMap::new();
        for number in (0..3).flat_map(|part| part..part + RECORDS) {
            *expected.entry(number % KEYS).or_insert(0_u64) += 1;
        }
        let rows = target.table.rows();
        let seen: Vec<_> = rows
            .iter()
            .map(|(key, version, _)| (*key, *version))
            .collect();
        assert_eq!(
            seen,
            expected.into_iter().collect::<Vec<_>>(),
            "failed at {at}"
        );
        let is_whole =
            |(_, version, value): &(u64, u64, String)| *value == format!("{version} times");
        assert!(rows.iter().all(is_whole));
        for (key, versions) in &*target.history.lock().unwrap() {
            assert!(versions.is_sorted(), "row {key} went back: {versions:?}");
        }
    }
}
