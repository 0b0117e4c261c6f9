//! What a byte backend is: sorted rows of bytes on disk, or wherever, for one operator subtask.
//!
//! The contract is small because the [cache](super::cache) in front does the rest. A backend never
//! sees a single write: rows come sorted, in large batches. It sees few single reads: the misses of a
//! batch of records come sorted and distinct.

use std::{fmt, io, ops::ControlFlow, sync::Arc};

use cutwater_keygroups::KeyGroupRange;

use crate::{BoxError, ReadFiles};

/// A kind of store for rows, and how it is set up. One serves all operators of a job.
///
/// A backend of somebody else proves itself with
/// [`testkit::byte_backend_conforms`](crate::testkit::byte_backend_conforms). It promises:
///
/// - stores that it opens share nothing, whatever their uids and groups, also while old ones of the
///   same uid are still open;
/// - what a store holds besides its checkpoints is gone when it is dropped, or when the backend is set up
///   again after the process was killed;
/// - nothing needs to survive a crash but what the caller copied out of a checkpoint.
pub trait ByteBackend: fmt::Debug + Send + Sync + 'static {
    /// Names the format of checkpoints. They are given back to backends of this name only.
    fn name(&self) -> &'static str;

    /// Bytes of memory for the row caches in front of all its stores together. What it needs itself, for
    /// caches of its own, is not in this.
    fn memory(&self) -> u64;

    /// Opens a store for the rows of `groups` of the operator `uid`, and puts those of `old` into it.
    /// Rows for which `is_expired` may go whenever it suits.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being opened, or `old` from being read. Nothing is left behind then.
    fn open(
        &self,
        uid: &str,
        groups: KeyGroupRange,
        old: &[OldRows],
        is_expired: IsExpired,
    ) -> Result<Box<dyn Rows>, BoxError>;
}

/// Tells from its key and value whether a row has expired. Once it has, it stays so, and nobody expects the
/// row to be there, or to be gone. May be asked from any thread, as long as there is the store.
pub type IsExpired = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// A checkpoint to be put into a new store, or a part of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct OldRows {
    /// The key groups to take; those of several `OldRows` do not overlap. Rows of other groups may be in
    /// the files: they are not to be seen again.
    pub groups: KeyGroupRange,
    /// The files, under the names that they were stored with.
    pub files: Vec<RowsFile>,
    /// What [`RowsCheckpoint::description`] returned.
    pub description: Vec<u8>,
    /// Reads the files.
    pub read: Arc<dyn ReadFiles>,
}

impl OldRows {
    pub(crate) fn new(
        groups: KeyGroupRange,
        files: Vec<RowsFile>,
        description: Vec<u8>,
        read: Arc<dyn ReadFiles>,
    ) -> Self {
        Self {
            groups,
            files,
            description,
            read,
        }
    }
}

impl fmt::Debug for OldRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldRows")
            .field("groups", &self.groups)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// The rows of one operator subtask, sorted by their keys as bytes.
///
/// A key starts with its key group, two bytes big-endian, which is one of those that the store was opened for.
/// Values may be empty. The task reads while another thread ingests, scans or takes a checkpoint, but there is never more than one that
/// does the latter.
pub trait Rows: Send + Sync {
    /// Looks up `keys`, which are sorted and distinct. Calls `found` with the number and the value of
    /// those that are there, in order.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being read.
    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8]))
    -> Result<(), BoxError>;

    /// Starts a batch of changes. If it is dropped unfinished nothing has happened.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being started.
    fn ingest(&self) -> Result<Box<dyn Ingest + '_>, BoxError>;

    /// Calls `each` with the rows whose keys are in `from..to`, in order, until it breaks. Of each key group
    /// it sees what was there when it came to that, whatever is ingested meanwhile.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being read.
    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError>;

    /// Fixes a view of all rows as of now: of all finished batches.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being fixed.
    fn checkpoint(&self) -> Result<Box<dyn RowsCheckpoint>, BoxError>;
}

/// What a scan does with a row: its key and value.
pub type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A batch of changes, to be written in strictly rising order of keys.
pub trait Ingest {
    /// Sets a row.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being written. The batch is of no use then.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoxError>;

    /// Removes a row, whether it is there or not.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    fn delete(&mut self, key: &[u8]) -> Result<(), BoxError>;

    /// Makes the batch visible.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being visible. It may be in part, then: the caller comes again with all of it.
    fn finish(self: Box<Self>) -> Result<(), BoxError>;
}

/// A view of a store as of one moment. Dropping it frees what it holds; the store may be gone by then.
pub trait RowsCheckpoint: Send + Sync {
    /// Its files.
    fn files(&self) -> &[RowsFile];

    /// The content of the file with this number.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being opened.
    fn open(&self, number: usize) -> Result<Box<dyn io::Read + Send>, BoxError>;

    /// What [`ByteBackend::open`] needs to know besides the files. Kept in the checkpoint's metadata, so
    /// it should be small.
    fn description(&self) -> Vec<u8>;

    /// As [`Rows::scan`].
    ///
    /// # Errors
    ///
    /// As [`Rows::scan`].
    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError>;
}

/// An immutable file of a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[non_exhaustive]
pub struct RowsFile {
    /// Its identity, without separators: no two files that differ ever have the same name, whichever store they
    /// are of. A later checkpoint that has the file again names it so again, and it is not stored twice.
    pub name: String,
    /// Bytes.
    pub length: u64,
}

impl RowsFile {
    /// A file.
    pub fn new(name: impl Into<String>, length: u64) -> Self {
        Self {
            name: name.into(),
            length,
        }
    }
}
