//! Blobs as files of a local directory, durable and with an honest `create`.
//!
//! ```text
//! upload:  .unfinished/…  ── write* ──▶ rename to path                    … sync: fsync file, directories
//! create:  .unfinished/…  ── write, fsync ──▶ hard link to path ──▶ fsync directories
//! ```
//!
//! `link(2)` fails if the name exists, so it decides a race, and it makes a complete file appear.
//! `open(O_EXCL)` would decide the race but show a file that is still being written; `rename`
//! shows a complete file but does not decide (CASES B48). A name is only durable when its directory
//! is fsynced, and that one's name in turn when its parent is, up to the root (B46d).
//!
//! Invariant: a name that is visible belongs to a complete file.
//!
//! The futures are ready at once: the calls block for as long as the disk takes, a few milliseconds
//! for a durable write. That needs no runtime, and on one it takes a thread that may block.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;

use super::names::{Names, Unfinished};
use crate::{
    Blobs, Create, Error, ErrorKind, Listed, Result, Upload,
    path::{self, UNFINISHED},
};

/// Blobs below a local directory. Cloning is cheap; all clones are one handle.
#[derive(Clone, Debug)]
pub struct LocalBlobs {
    names: Arc<Names>,
}

impl LocalBlobs {
    /// The blobs below `root`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// `Io` if the directory cannot be made.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        Names::make_root(root)
            .map_err(|e| failed(&root.to_string_lossy(), "make the directory", e))?;
        Self::open_existing(root)
    }

    /// The blobs below `root`, which must be there. Nothing is written until a method is asked to.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such directory.
    pub fn open_existing(root: impl AsRef<Path>) -> Result<Self> {
        let name = root.as_ref().to_string_lossy();
        // Resolved now, so that a later change of the working directory does not move the store.
        match fs::canonicalize(root.as_ref()) {
            Ok(root) if root.is_dir() => Ok(Self {
                names: Arc::new(Names::new(root)),
            }),
            Ok(_) => Err(Error::new(ErrorKind::NotFound, name, "not a directory")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::NotFound, name, "no such directory"))
            }
            Err(e) => Err(failed(&name, "open the directory", e)),
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        self.names.root()
    }
}

impl Blobs for LocalBlobs {
    type Upload = LocalUpload;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        path::check(path)?;
        get(&self.names.file(path)).map_err(|e| failed(path, "read", e))
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        path::check(path)?;
        let read = || {
            let mut file = File::open(self.names.file(path))?;
            file.seek(SeekFrom::Start(range.start))?;
            let length = range.end.saturating_sub(range.start);
            let there = file.metadata()?.len().saturating_sub(range.start);
            let room = usize::try_from(length.min(there)).unwrap_or(0); // or it grows and copies
            let mut bytes = Vec::with_capacity(room);
            file.take(length).read_to_end(&mut bytes)?;
            Ok(Bytes::from(bytes))
        };
        if_there(read()).map_err(|e| failed(path, "read", e))
    }

    async fn upload(&self, path: &str) -> Result<LocalUpload> {
        path::check(path)?;
        let file = Unfinished::new(&self.names)
            .map_err(|e| failed(path, "begin to write", e).without_effect())?;
        Ok(LocalUpload {
            file,
            path: path.to_owned(),
        })
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        self.names
            .sync(prefix)
            .map_err(|(path, e)| failed(&path, "sync", e))
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        path::check(path)?;
        // Spares the loser of an old race the write. The winner may not have got as far as to sync
        // the directory, and whoever acts on these bytes needs them to stay.
        let exists = |there| match self.names.sync_name(path) {
            Ok(()) => Ok(Create::Exists(there)),
            Err(e) => Err(failed(path, "sync the directory of", e)),
        };
        let before_link = |e| failed(path, "create", e).without_effect();
        let file = self.names.file(path);
        if let Some(there) = get(&file).map_err(before_link)? {
            return exists(there);
        }
        let mut unfinished = Unfinished::new(&self.names).map_err(before_link)?;
        unfinished.write(&bytes).map_err(before_link)?;
        unfinished.sync().map_err(before_link)?;
        loop {
            match self
                .names
                .within(&file, || fs::hard_link(unfinished.name(), &file))
            {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) if is_unsupported(&e) => {
                    let reason = "cannot create a hard link, which decides races between processes: \
                                  choose a file system that has them";
                    let error = Error::new(ErrorKind::Unsupported, path, reason);
                    return Err(error.with_source(e).without_effect());
                }
                Err(e) => return Err(before_link(e)),
            }
            if let Some(there) = get(&file).map_err(before_link)? {
                return exists(there);
            }
            // Deleted between the two calls, so the path is free again.
        }
        match self.names.sync_name(path) {
            Ok(()) => Ok(Create::Created),
            Err(e) => Err(failed(path, "sync the directory of", e)),
        }
    }

    async fn delete(&self, path: &str) -> Result<()> {
        path::check(path)?;
        if_there(fs::remove_file(self.names.file(path))).map_err(|e| failed(path, "delete", e))?;
        self.names.forget(path);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let directory = prefix
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        if !directory.is_empty() {
            path::check(directory)?;
        }
        let mut found = Vec::new();
        list(self.root(), directory, prefix, &mut found).map_err(|e| failed(prefix, "list", e))?;
        found.sort_unstable();
        Ok(found)
    }

    async fn sweep(&self) -> Result<()> {
        let sweep = || {
            for entry in fs::read_dir(self.names.file(UNFINISHED))? {
                if_there(fs::remove_file(entry?.path()))?;
            }
            Ok(())
        };
        if_there(sweep())
            .map(drop)
            .map_err(|e| failed(UNFINISHED, "sweep", e))
    }
}

/// An upload to a [`LocalBlobs`].
#[derive(Debug)]
pub struct LocalUpload {
    file: Unfinished,
    path: String,
}

impl Upload for LocalUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.file
            .write(&chunk)
            .map_err(|e| failed(&self.path, "write", e))
    }

    async fn finish(self) -> Result<()> {
        self.file
            .finish(&self.path)
            .map_err(|e| failed(&self.path, "finish", e))
    }
}

fn get(file: &Path) -> io::Result<Option<Bytes>> {
    if_there(fs::read(file).map(Bytes::from))
}

/// Adds the files of `directory` whose path starts with `prefix`. What vanishes meanwhile is left out.
fn list(root: &Path, directory: &str, prefix: &str, found: &mut Vec<Listed>) -> io::Result<()> {
    let Some(entries) = if_there(fs::read_dir(root.join(directory)))? else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        // A name that is not UTF-8 was not written here.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = match directory {
            "" => name,
            _ => format!("{directory}/{name}"),
        };
        let Some(about) = if_there(entry.metadata())? else {
            continue;
        };
        if about.is_dir() && path != UNFINISHED {
            let inside = format!("{path}/");
            if inside.starts_with(prefix) || prefix.starts_with(&inside) {
                list(root, &path, prefix, found)?;
            }
        } else if about.is_file() && path.starts_with(prefix) {
            let bytes = about.len();
            found.push(Listed { path, bytes });
        }
    }
    Ok(())
}

/// `None` instead of the error that there is no such file.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    // `link(2)` answers EPERM, which is 1 on every Unix, where the file system has no hard links.
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(1)
}

fn failed(object: &str, doing: &str, error: io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull => {
            format!("could not {doing}: the disk is full; free some space")
        }
        io::ErrorKind::PermissionDenied => format!("could not {doing}: permission denied"),
        _ => format!("could not {doing}: {error}"),
    };
    Error::new(ErrorKind::Io, object, reason).with_source(error)
}
