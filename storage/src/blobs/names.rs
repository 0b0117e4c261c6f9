//! When the name of a file is durable: once its directory is synced, and that one's name as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{nonce::Nonces, path::UNFINISHED};

/// Finished files that are not synced yet stay open, up to so many. The usual limit of a process is
/// 1024 open files, and it has other uses for them. Beyond, a file is synced as it is finished.
const OPEN_MAX: usize = 128;

/// So many files are synced beside each other. A journaling file system then makes them durable by one
/// commit or two, in the time of one file.
const BESIDE_MAX: usize = 16;

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
        for (path, done) in sync_files(unsynced) {
            let directory = path
                .rsplit_once('/')
                .map(|(directory, _)| directory.to_owned());
            let done = done.and_then(|()| {
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
            match fs::remove_dir(directory) {
                // In use, and its name as durable as before.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => break,
                removed => {
                    known.durable.remove(directory);
                    if removed.is_err() {
                        break;
                    }
                }
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

/// Syncs the bytes of all `files` that are not synced yet.
fn sync_files(files: BTreeMap<String, Option<File>>) -> BTreeMap<String, io::Result<()>> {
    let threads = files.len().min(BESIDE_MAX);
    let left = Mutex::new(files.into_iter());
    let synced = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((path, file)) = next else { break };
            let done = file.map_or(Ok(()), |file| file.sync_all());
            let mut synced = synced.lock().unwrap_or_else(PoisonError::into_inner);
            synced.insert(path, done);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that cannot be started leaves its share to the others.
            drop(thread::Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    synced.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A file whose sync fails is named, now and ever after, and none of the others waits for it.
    #[test]
    fn a_file_that_cannot_be_synced_is_lost_and_no_other_is() {
        let directory = tempfile::tempdir().unwrap();
        let names = Arc::new(Names::new(directory.path().to_owned()));
        let write = |path: &str| {
            let mut file = Unfinished::new(&names).unwrap();
            file.write(b"bytes").unwrap();
            file.finish(path).unwrap();
        };
        for i in 0..3 * BESIDE_MAX {
            write(&format!("chk-1/{i:02}"));
        }
        // A device has nothing to sync, and says so.
        let device = File::open("/dev/null").unwrap();
        assert!(device.sync_all().is_err());
        let replaced = names
            .known()
            .unsynced
            .insert("chk-1/07".to_owned(), Some(device));
        assert!(replaced.is_some());
        for _ in 0..2 {
            let (path, _) = names.sync("chk-1/").unwrap_err();
            assert_eq!(path, "chk-1/07");
            assert!(names.known().unsynced.is_empty());
            assert_eq!(names.known().lost.len(), 1);
        }
        names.sync("chk-2/").unwrap();
        write("chk-1/07");
        names.sync("chk-1/").unwrap();
    }

    #[test]
    fn a_directory_in_use_stays_durable() {
        let directory = tempfile::tempdir().unwrap();
        let names = Arc::new(Names::new(directory.path().to_owned()));
        for path in ["log/1", "log/2"] {
            let file = Unfinished::new(&names).unwrap();
            file.finish(path).unwrap();
        }
        names.sync("log/").unwrap();
        let log = names.file("log");
        for (path, is_durable) in [("log/1", true), ("log/2", false)] {
            fs::remove_file(names.file(path)).unwrap();
            names.forget(path);
            assert_eq!(names.known().durable.contains(&log), is_durable);
            assert_eq!(log.exists(), is_durable);
        }
    }
}
