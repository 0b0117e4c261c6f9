//! What is committed, as a table of the largest keys.

use std::{cmp::Reverse, collections::BTreeMap, fs, path::Path};

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use cutwater_runtime::BoxError;
use indicatif::HumanCount;

use crate::{
    job::{NAME, Totals},
    row::Columns,
};

/// The committed totals: of each key what its last update says.
#[derive(Debug, Default)]
pub(crate) struct Committed(BTreeMap<String, Totals>);

impl Committed {
    /// Reads the files that the job has committed in `output`; none if there is no such folder yet.
    pub(crate) fn read(output: &Path) -> Result<Self, BoxError> {
        let mut committed = Self::default();
        if !output.exists() {
            return Ok(committed);
        }
        let prefix = format!("{NAME}.");
        for entry in fs::read_dir(output)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&prefix) && name.ends_with(".csv") {
                let at = |error| format!("{}: {error}", path.display());
                committed.read_file(&path).map_err(at)?;
            }
        }
        Ok(committed)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), BoxError> {
        let mut updates = csv::Reader::from_path(path)?;
        for update in updates.deserialize() {
            let (key, rows, sums) = update?;
            let totals = self.0.entry(key).or_default();
            if rows > totals.rows {
                *totals = Totals { rows, sums };
            }
        }
        Ok(())
    }

    /// The rows of all keys.
    pub(crate) fn rows(&self) -> u64 {
        self.0.values().map(|totals| totals.rows).sum()
    }

    pub(crate) fn keys(&self) -> usize {
        self.0.len()
    }

    /// The `top` keys with the most rows.
    pub(crate) fn table(&self, columns: &Columns, top: usize) -> Table {
        let mut keys: Vec<_> = self.0.iter().collect();
        keys.sort_by_key(|(key, totals)| (Reverse(totals.rows), *key));
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        let names = [&columns.key, "rows"].into_iter();
        table.set_header(names.chain(columns.sums.iter().map(String::as_str)));
        for (key, totals) in keys.into_iter().take(top) {
            let mut cells = vec![key.clone(), HumanCount(totals.rows).to_string()];
            cells.extend(totals.sums.iter().map(ToString::to_string));
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}
