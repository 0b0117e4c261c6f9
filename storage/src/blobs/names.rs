//! When the name of a file is durable: once its directory is synced, and that one's name as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{nonce::Nonces, path::UNFINISHED};

/// Finished files that are not synced yet stay open, up to so many. The usual limit of a process is
/// 1024 open files, and it has other uses for them. Beyond, a file is synced as it is finished.
const OPEN_MAX: usize = 128;

/// So many directories are remembered as durable; beyond, all are forgotten and synced once more.
const DURABLE_MAX: usize = 4096;

/// So often an operation is repeated when somebody deletes its directory, empty, in between.
const ATTEMPTS_MAX: usize = 16;

/// The names below a root directory, and which of them a power cut may still take.
#[derive(Debug)]
pub(crate) struct Names {
    root: PathBuf,
    nonces: Nonces,
    known: Mutex<Known>,
    /// Held while syncing: a second `sync` must not return before what the first one took is safe.
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// Directories whose own name is durable.
    durable: BTreeSet<PathBuf>,
    /// Files that were finished and are not synced. Kept open: the kernel reports a failed
    /// write-back to those who had the file open at the time, and once.
    unsynced: BTreeMap<String, Option<File>>,
    /// Files whose sync failed. The kernel may have dropped their bytes, and would call a second
    /// sync a success.
    lost: BTreeSet<String>,
}

impl Names {
    /// Makes the root directory and its parents, durably.
    pub(crate) fn make_root(root: &Path) -> io::Result<()> {
        match fs::create_dir(root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // An empty parent is the working directory, which is there.
                Self::make_root(root.parent().ok_or(e)?)?;
                return Self::make_root(root);
            }
            Err(_) if root.is_dir() => return Ok(()),
            made => made?,
        }
        match root.parent() {
            Some(parent) if parent != Path::new("") => sync_directory(parent),
            _ => sync_directory(Path::new(".")),
        }
    }

    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            nonces: Nonces::random(),
            known: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Does what needs the directory of `file`, and makes that if it is missing.
    pub(crate) fn within<T>(
        &self,
        file: &Path,
        operation: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        let directory = file.parent().expect("a file below the root");
        for _ in 1..ATTEMPTS_MAX {
            match operation() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => self.make(directory)?,
                done => return done,
            }
        }
        operation()
    }

    fn make(&self, directory: &Path) -> io::Result<()> {
        match fs::create_dir(directory) {
            Ok(()) => {
                self.known().durable.remove(directory);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && directory != self.root => {
                self.make(directory.parent().expect("below the root"))?;
                self.make(directory)
            }
            Err(e) => Err(e),
        }
    }

    /// Makes the name of `path` durable.
    pub(crate) fn sync_name(&self, path: &str) -> io::Result<()> {
        let file = self.file(path);
        let mut synced = Vec::new();
        for directory in file.ancestors().skip(1) {
            sync_directory(directory)?;
            if directory == self.root || self.known().durable.contains(directory) {
                break;
            }
            synced.push(directory.to_owned());
        }
        // Only now, as a name is as durable as the least durable one above it.
        let mut known = self.known();
        if known.durable.len() >= DURABLE_MAX {
            known.durable.clear();
        }
        known.durable.extend(synced);
        Ok(())
    }

    /// Makes every finished file below `prefix` durable, bytes and name.
    pub(crate) fn sync(&self, prefix: &str) -> Result<(), (String, io::Error)> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let unsynced: BTreeMap<_, _> = {
            let mut known = self.known();
            if let Some(lost) = known.lost.iter().find(|path| path.starts_with(prefix)) {
                return Err((
                    lost.clone(),
                    io::Error::other("an earlier sync of it failed"),
                ));
            }
            let all = mem::take(&mut known.unsynced);
            let (taken, rest) = all
                .into_iter()
                .partition(|(path, _)| path.starts_with(prefix));
            known.unsynced = rest;
            taken
        };
        let mut synced = BTreeSet::new();
        let mut result = Ok(());
        for (path, file) in unsynced {
            let directory = path
                .rsplit_once('/')
                .map(|(directory, _)| directory.to_owned());
            let done = file.map_or(Ok(()), |file| file.sync_all()).and_then(|()| {
                if synced.contains(&directory) {
                    return Ok(());
                }
                self.sync_name(&path)?;
                synced.insert(directory);
                Ok(())
            });
            if let Err(e) = done {
                self.known().lost.insert(path.clone());
                result = result.and(Err((path, e)));
            }
        }
        result
    }

    /// Forgets a file that was deleted, and deletes the directories that this left empty.
    pub(crate) fn forget(&self, path: &str) {
        let mut known = self.known();
        known.unsynced.remove(path);
        known.lost.remove(path);
        let file = self.file(path);
        for directory in file.ancestors().skip(1) {
            if directory == self.root {
                break;
            }
            known.durable.remove(directory);
            // Fails if it is not empty, which is how a directory in use stays.
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that no listing shows, until it gets its name. Dropped before, it is deleted.
#[derive(Debug)]
pub(crate) struct Unfinished {
    names: Arc<Names>,
    name: PathBuf,
    file: Option<File>,
}

impl Unfinished {
    pub(crate) fn new(names: &Arc<Names>) -> io::Result<Self> {
        let name = names.file(&format!("{UNFINISHED}/{:016x}", names.nonces.draw()));
        let file = names.within(&name, || {
            OpenOptions::new().write(true).create_new(true).open(&name)
        })?;
        Ok(Self {
            names: names.clone(),
            name,
            file: Some(file),
        })
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    fn open(&mut self) -> &mut File {
        self.file.as_mut().expect("open until it is finished")
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open().write_all(bytes)
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.open().sync_all()
    }

    /// Gives the file its name. Neither the name nor the bytes are durable yet.
    pub(crate) fn finish(mut self, path: &str) -> io::Result<()> {
        let names = self.names.clone();
        let full = names.known().unsynced.len() >= OPEN_MAX;
        if full {
            self.sync()?;
        }
        let target = names.file(path);
        names.within(&target, || fs::rename(&self.name, &target))?;
        let file = self.file.take().filter(|_| !full);
        let mut known = names.known();
        known.lost.remove(path);
        known.unsynced.insert(path.to_owned(), file);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` the name is gone already. Otherwise a sweep removes it if this fails.
        drop(fs::remove_file(&self.name));
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
