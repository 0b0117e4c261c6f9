//! A table of a map: the reference that passes the upsert exam, and what tests build on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use super::UpsertExam;
use crate::{
    Result, WriterContext,
    upsert::{Row, Upsert, UpsertTable, UpsertTarget},
};

/// A table that outlives the jobs that write to it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct MemoryTable(Arc<Mutex<BTreeMap<u64, (u64, String)>>>);

impl MemoryTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a reader sees: key, version and value of each row.
    pub fn rows(&self) -> Vec<(u64, u64, String)> {
        let rows = self.lock();
        let rows = rows
            .iter()
            .map(|(key, (version, value))| (*key, *version, value.clone()));
        rows.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, String)>> {
        self.0.lock().expect("no holder panics")
    }
}

impl UpsertTarget for MemoryTable {
    type Table = Self;

    async fn open(&self, _: WriterContext) -> Result<Self> {
        Ok(self.clone())
    }
}

impl UpsertTable for MemoryTable {
    type Key = u64;
    type Value = String;

    async fn upsert(&mut self, rows: &[Upsert<u64, String>]) -> Result<u64> {
        let mut table = self.lock();
        let mut written = 0;
        for row in rows {
            if table
                .get(&row.key)
                .is_none_or(|(version, _)| *version < row.version)
            {
                table.insert(row.key, (row.version, row.value.clone()));
                written += 1;
            }
        }
        Ok(written)
    }
}

impl UpsertExam for MemoryTable {
    type Target = Self;

    fn target(&self) -> Self {
        self.clone()
    }

    fn row(&self, key: u64, version: u64) -> Row<Self> {
        Upsert::new(key, version, format!("as of {version}"))
    }

    async fn visible(&self) -> Vec<(u64, u64, u64)> {
        let rows = self.rows().into_iter().map(|(key, version, value)| {
            let of_value = value
                .rsplit(' ')
                .next()
                .and_then(|number| number.parse().ok());
            (key, version, of_value.expect("written by `row`"))
        });
        rows.collect()
    }
}
