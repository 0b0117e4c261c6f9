//! Second copies of state files on a local disk, so that a restart on the same machine need not fetch them.
//!
//! ```text
//! written      every state file goes to the store, and beside it here, under the same path
//! completed    what the newest completed checkpoint does not name is deleted here
//! restored     a copy is read if it is there and its checksums are right; if they are not, it is deleted, and
//!              the store is asked
//! ```
//!
//! Invariant: nothing depends on a copy. It is written without being made durable, whatever fails with it fails
//! nothing else, and what is read from it is verified like everything, against checksums that come from the
//! store. A path says checkpoint, operator, subtask and generation, and a number that is drawn for each file, so
//! that no two files have the same (FLINK-12296).

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use cutwater_barrier::CheckpointId;

use crate::layout;

/// A directory with copies of state files. One directory for one job; several processes of it may share it.
#[derive(Clone, Debug)]
pub(crate) struct LocalCopies {
    directory: PathBuf,
}

impl LocalCopies {
    /// The copies below `directory`, which is made when there is something to put there.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Begins a copy of the object `path`.
    pub(crate) fn begin(&self, path: &str) -> Copying {
        Copying::begin(self.directory.join(path)).unwrap_or_else(Copying::failed)
    }

    /// The bytes `range` of the copy of `path`, as far as there are any; `None` if there is no copy.
    pub(crate) fn read(&self, path: &str, range: Range<u64>) -> Option<Bytes> {
        let mut file = File::open(self.directory.join(path)).ok()?;
        let length = usize::try_from(range.end - range.start).ok()?;
        file.seek(SeekFrom::Start(range.start)).ok()?;
        let mut bytes = Vec::with_capacity(length);
        let read = file.take(length as u64).read_to_end(&mut bytes);
        // What cannot be read is worth as little as what is wrong.
        Some(read.map_or_else(|_| Bytes::new(), |_| bytes.into()))
    }

    /// Deletes the copy of `path`.
    pub(crate) fn delete(&self, path: &str) {
        let _gone_or_useless = fs::remove_file(self.directory.join(path));
    }

    /// Deletes the copies of all objects of the checkpoints up to `completed` but those `named`, and what an
    /// earlier process left unfinished.
    pub(crate) fn keep(&self, named: &BTreeSet<String>, completed: CheckpointId) {
        let Ok(folders) = fs::read_dir(&self.directory) else {
            return;
        };
        for folder in folders.flatten() {
            let name = format!("{}/", folder.file_name().to_string_lossy());
            if layout::checkpoint_of(&name).is_none_or(|checkpoint| checkpoint > completed) {
                continue;
            }
            for copy in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let path = format!("{name}{}", copy.file_name().to_string_lossy());
                if !named.contains(&path) {
                    self.delete(&path);
                }
            }
            let _still_in_use = fs::remove_dir(folder.path());
        }
    }
}

/// A copy being written. Dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Copying {
    /// `None` once something has failed: there will be no copy.
    file: Option<File>,
    path: PathBuf,
}

impl Copying {
    fn begin(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(unfinished(&path))?;
        Ok(Self {
            file: Some(file),
            path,
        })
    }

    fn failed(_: io::Error) -> Self {
        Self {
            file: None,
            path: PathBuf::new(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file
            && file.write_all(bytes).is_err()
        {
            self.give_up();
        }
    }

    /// Makes the copy one that is read.
    pub(crate) fn finish(mut self) {
        if self.file.is_some() && fs::rename(unfinished(&self.path), &self.path).is_ok() {
            self.file = None;
        }
    }

    fn give_up(&mut self) {
        if self.file.take().is_some() {
            let _useless = fs::remove_file(unfinished(&self.path));
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Where the bytes of `path` are until all are there. No checkpoint names that.
fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("unfinished")
}
