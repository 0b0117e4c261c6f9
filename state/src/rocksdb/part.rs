//! One database, and the key groups that it answers for.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use cutwater_keygroups::KeyGroupRange;
use rocksdb::{ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, ReadOptions, properties};

use super::{failed, folder, options::Shared};
use crate::{BoxError, EachRow, IsExpired};

/// What the databases of one store have in common.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) is_expired: &'a IsExpired,
}

/// A database. Closed when it is dropped.
pub(super) struct Part {
    pub(super) db: DB,
    pub(super) groups: KeyGroupRange,
    /// Names the files that it writes, together with their numbers.
    pub(super) session: String,
    /// The names of files that were here before, by their names in the database's folder.
    pub(super) restored: BTreeMap<String, String>,
    /// Numbers its checkpoints.
    pub(super) checkpoints: AtomicU64,
    pub(super) shared: Arc<Shared>,
}

impl Part {
    /// Opens the database in the folder `path`, with the files that are in there.
    pub(super) fn open(
        Scope { shared, is_expired }: Scope<'_>,
        path: &Path,
        groups: KeyGroupRange,
        restored: BTreeMap<String, String>,
    ) -> Result<Self, BoxError> {
        let options = shared.database(groups, Arc::clone(is_expired));
        let default = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
        let db = DB::open_cf_descriptors(&options, path, [default]);
        let db = db.map_err(|error| failed("opening a database", error))?;
        let other = &shared.options().other;
        if !other.is_empty() {
            let other: Vec<_> = other.iter().map(|(k, v)| (&**k, &**v)).collect();
            db.set_options(&other)
                .map_err(|error| failed("setting other options", error))?;
        }
        Ok(Self {
            db,
            groups,
            session: folder::random(),
            restored,
            checkpoints: AtomicU64::new(0),
            shared: Arc::clone(shared),
        })
    }

    /// Looks up sorted keys, the first of which has this number.
    pub(super) fn get_many(
        &self,
        first: usize,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), BoxError> {
        let cf = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        let cf = cf.expect("every database has a default column family");
        let keys = keys.iter().copied();
        let read = ReadOptions::default();
        let values = self.db.batched_multi_get_cf_opt(cf, keys, true, &read);
        for (number, value) in (first..).zip(values) {
            let value = value.map_err(|error| failed("reading rows", error))?;
            if let Some(value) = value {
                found(number, &value);
            }
        }
        Ok(())
    }

    /// Lets go of files that have rows of other key groups only.
    pub(super) fn drop_other_groups(&self) -> Result<(), BoxError> {
        let (start, end) = (self.groups.start(), self.groups.end());
        // Bounds are included, and no row has a key of two bytes.
        for (from, to) in [(0, start), (end, u16::MAX)] {
            let dropped = self
                .db
                .delete_file_in_range(from.to_be_bytes(), to.to_be_bytes());
            dropped.map_err(|error| failed("dropping files of other key groups", error))?;
        }
        Ok(())
    }

    /// About how many bytes its files have.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.db.property_int_value(properties::TOTAL_SST_FILES_SIZE);
        bytes.ok().flatten().unwrap_or(0)
    }
}

/// Calls `each` with the rows of a database that are in `from..to`.
pub(super) fn scan(
    db: &DB,
    from: &[u8],
    to: &[u8],
    each: &mut EachRow<'_>,
) -> Result<ControlFlow<()>, BoxError> {
    let mut read = ReadOptions::default();
    read.set_iterate_lower_bound(from);
    read.set_iterate_upper_bound(to);
    read.fill_cache(false);
    read.set_readahead_size(2 << 20);
    let mut rows = db.raw_iterator_opt(read);
    rows.seek_to_first();
    while let Some((key, value)) = rows.item() {
        if each(key, value).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        rows.next();
    }
    let end = rows.status();
    end.map_err(|error| failed("scanning rows", error))?;
    Ok(ControlFlow::Continue(()))
}
