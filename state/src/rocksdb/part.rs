//! One database, and the key groups that it answers for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use cutwater_keygroups::KeyGroupRange;
use rocksdb::{
    ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, LiveFile, Options, ReadOptions,
    properties,
};

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
        let db = open(&shared.database(groups, Arc::clone(is_expired)), path)?;
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

    /// The first and the last key group of the rows in its files; not of those in level 0, which cannot be
    /// let go of by their rows.
    pub(super) fn groups_of_files(&self) -> Result<BTreeMap<String, (u16, u16)>, BoxError> {
        let group = |key: Option<Vec<u8>>| {
            let key = key?;
            key.first_chunk().map(|group| u16::from_be_bytes(*group))
        };
        let files = live_files(&self.db)?.into_iter();
        let files = files.filter(|file| file.level > 0).filter_map(|file| {
            let groups = (group(file.start_key)?, group(file.end_key)?);
            Some((local_name(&file.name), groups))
        });
        Ok(files.collect())
    }

    /// About how many bytes its files have.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.db.property_int_value(properties::TOTAL_SST_FILES_SIZE);
        bytes.ok().flatten().unwrap_or(0)
    }
}

/// Has the database in the folder `path` let go of files that have rows of key groups outside `groups` only, without a
/// look at what is in them. Returns the names of the files that it still has.
pub(super) fn drop_other_groups(
    Scope { shared, is_expired }: Scope<'_>,
    path: &Path,
    groups: KeyGroupRange,
) -> Result<BTreeSet<String>, BoxError> {
    let mut options = shared.database(groups, Arc::clone(is_expired));
    options.set_paranoid_checks(false); // or it would be opened only if it can read all files
    options.set_disable_auto_compactions(true);
    let db = open(&options, path)?;
    // Bounds are included, and no row has a key of two bytes.
    for (from, to) in [(0, groups.start()), (groups.end(), u16::MAX)] {
        let dropped = db.delete_file_in_range(from.to_be_bytes(), to.to_be_bytes());
        dropped.map_err(|error| failed("dropping files of other key groups", error))?;
    }
    let files = live_files(&db)?.into_iter();
    Ok(files.map(|file| local_name(&file.name)).collect())
}

fn open(options: &Options, path: &Path) -> Result<DB, BoxError> {
    let default = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
    let db = DB::open_cf_descriptors(options, path, [default]);
    db.map_err(|error| failed("opening a database", error))
}

fn live_files(db: &DB) -> Result<Vec<LiveFile>, BoxError> {
    db.live_files()
        .map_err(|error| failed("listing files", error))
}

/// The name of a file in the folder of its database.
fn local_name(live: &str) -> String {
    live.trim_start_matches('/').to_owned()
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
