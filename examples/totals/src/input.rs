//! The files to read, and whether they have the columns at all.

use std::{collections::BTreeSet, path::PathBuf};

use cutwater_file::{FileSource, OnBadRecord};
use cutwater_runtime::BoxError;
use cutwater_source::{Enumerator, Reader, ReaderContext, Source};

use crate::row::{Columns, Header};

/// How the files are written, and what to do with bad rows.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// Absolute, so that a file is the same split wherever the program is started.
    files: Vec<PathBuf>,
    delimiter: u8,
    on_bad_record: OnBadRecord,
}

impl Input {
    /// # Errors
    ///
    /// If a file is not there.
    pub(crate) fn new(files: &[PathBuf], delimiter: u8, skip_bad: bool) -> Result<Self, BoxError> {
        let absolute = |file: &PathBuf| {
            let failed = |error| format!("cannot read {}: {error}", file.display());
            file.canonicalize().map_err(failed)
        };
        Ok(Self {
            files: files.iter().map(absolute).collect::<Result<_, _>>()?,
            delimiter,
            on_bad_record: if skip_bad {
                OnBadRecord::Skip
            } else {
                OnBadRecord::Fail
            },
        })
    }

    /// Reads them as records of type `T`.
    pub(crate) fn source<T>(&self) -> FileSource<T> {
        FileSource::csv(self.files.clone())
            .delimiter(self.delimiter)
            .on_bad_record(self.on_bad_record)
    }

    /// Looks at the first row of each file. A missing column is a mistake of the command, and no bad
    /// row that could be skipped.
    pub(crate) fn check(&self, columns: &Columns) -> Result<(), BoxError> {
        let source = self.source::<Header>();
        let splits = source.enumerator(None)?.discover(&BTreeSet::new())?.splits;
        for split in splits {
            let path = split.path.clone();
            let mut reader = source.reader(ReaderContext::new(0, 1))?;
            reader.add_splits(vec![split])?;
            let mut first = Vec::new();
            reader.poll_batch(&mut first, 1)?;
            let Some(Header(names)) = first.first() else {
                continue; // No rows, so nothing to sum.
            };
            if let Some(missing) = columns.missing(names) {
                let names = names.join("`, `");
                return Err(format!("{path} has no column `{missing}`; it has `{names}`").into());
            }
        }
        Ok(())
    }
}
