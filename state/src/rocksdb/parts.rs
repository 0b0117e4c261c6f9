//! One operator subtask's rows, in databases side by side: each key group is in one of them.

use std::{ops::ControlFlow, sync::Arc};

use super::{checkpoint, folder::Folder, ingest::Ingesting, part, part::Part};
use crate::{BoxError, EachRow, Ingest, Rows, RowsCheckpoint};

/// Databases by rising key groups, without gaps.
pub(super) struct Parts {
    // In this order: closed, then removed.
    parts: Vec<Part>,
    folder: Arc<Folder>,
}

impl Parts {
    pub(super) fn new(parts: Vec<Part>, folder: Arc<Folder>) -> Self {
        Self { parts, folder }
    }
}

impl Rows for Parts {
    fn get_many(
        &self,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), BoxError> {
        let (mut first, mut rest) = (0, keys);
        for part in &self.parts {
            let end = part.groups.end().to_be_bytes();
            let (mine, others) = rest.split_at(rest.partition_point(|key| **key < end[..]));
            if !mine.is_empty() {
                part.get_many(first, mine, found)?;
            }
            (first, rest) = (first + mine.len(), others);
        }
        Ok(())
    }

    fn ingest(&self) -> Result<Box<dyn Ingest + '_>, BoxError> {
        Ok(Box::new(Ingesting::new(&self.parts, &self.folder)))
    }

    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError> {
        for Part { db, groups, .. } in &self.parts {
            let (start, end) = (groups.start().to_be_bytes(), groups.end().to_be_bytes());
            let (from, to) = (from.max(&start), to.min(&end));
            if from < to
                && let ControlFlow::Break(()) = part::scan(db, from, to, each)?
            {
                break;
            }
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<Box<dyn RowsCheckpoint>, BoxError> {
        Ok(Box::new(checkpoint::take(&self.parts, &self.folder)?))
    }
}
