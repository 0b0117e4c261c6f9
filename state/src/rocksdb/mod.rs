//! State in RocksDB: larger than memory, with checkpoints that share their files.
//!
//! ```text
//! RocksDb        set up once, for all operators: options, block cache, folder
//!   └ Parts      one operator subtask's rows: databases side by side, each for a range of key groups
//!       └ Part   one database
//! ```
//!
//! RocksDB has little to do here. It is read where the row cache misses, sorted batches at a time. It is
//! written sorted files only, as whole flushes of the row cache, which it takes over as they are: there
//! is no log, and nothing ever stands in its memtables. A checkpoint is hard links to its files.
//!
//! **After a rescale** a subtask's key groups come from several old databases. They are opened side by
//! side, as they are, and each answers for the groups that it was restored for; a compaction drops what else
//! is in it. So a rescale rewrites nothing. Only when there would be more than a few databases are
//! the smallest neighbours copied together.
//!
//! **A file's identity** is the session that wrote it, its number there, and its size. A session is drawn
//! at random each time a database is opened; within one RocksDB never gives a number twice. Files that were
//! restored keep the names they had.
//!
//! The crate's C++ part takes libclang to build, and many minutes, or seconds with ccache.

mod checkpoint;
mod folder;
mod ingest;
mod options;
mod part;
mod parts;
mod restore;

use std::{path::PathBuf, sync::Arc};

use cutwater_keygroups::KeyGroupRange;

use self::{folder::Folder, options::Shared, part::Scope, parts::Parts};
use crate::{BoxError, ByteBackend, Error, ErrorKind, IsExpired, OldRows, Result, Rows};

pub use options::{Compression, RocksOptions};

/// State in RocksDB databases under one folder. Clones share block cache and folder.
///
/// ```no_run
/// use cutwater_state::{Backend, rocksdb::{RocksDb, RocksOptions}};
///
/// let mut options = RocksOptions::default();
/// options.memory = 2 << 30;
/// let backend = Backend::rows(RocksDb::new("/var/tmp/state", options)?);
/// # Ok::<(), cutwater_state::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RocksDb {
    shared: Arc<Shared>,
    folder: Arc<Folder>,
}

impl RocksDb {
    /// Databases under `path`, which is made if it is missing. Processes may share it.
    ///
    /// What processes left there that are gone by now is removed: it is of no use to anybody, as
    /// a restore starts from a checkpoint.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if the folder cannot be made or written to.
    pub fn new(path: impl Into<PathBuf>, options: RocksOptions) -> Result<Self> {
        let path = path.into();
        let folder = Folder::of_process(&path).map_err(|error| {
            let message = format!("the folder for RocksDB, {}", path.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Self {
            shared: Arc::new(Shared::new(options)),
            folder: Arc::new(folder),
        })
    }
}

impl ByteBackend for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn memory(&self) -> u64 {
        self.shared.options().row_cache()
    }

    fn open(
        &self,
        uid: &str,
        groups: KeyGroupRange,
        old: &[OldRows],
        is_expired: IsExpired,
    ) -> Result<Box<dyn Rows>, BoxError> {
        let folder = self.folder.store(uid)?;
        let scope = Scope {
            shared: &self.shared,
            is_expired: &is_expired,
        };
        let parts = restore::parts(scope, &folder, groups, old)?;
        Ok(Box::new(Parts::new(parts, folder)))
    }
}

/// An error of RocksDB, with what can be done.
fn failed(what: &str, error: rocksdb::Error) -> BoxError {
    let kind = match error.kind() {
        rocksdb::ErrorKind::Corruption => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    let remedy = match kind {
        ErrorKind::Corrupt => "; restore from a checkpoint",
        _ => "",
    };
    let message = format!("RocksDB: {what}{remedy}");
    Error::new(kind, message).with_source(error).into()
}
