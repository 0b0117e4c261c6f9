//! Everything the sink changes on disk, one method per step that a crash can come before.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

/// The file system. In tests it can stop at a chosen step and refuse everything after, as a process
/// that was killed there, or a full disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    #[cfg(test)]
    pub(super) faults: super::tests::Faults,
}

impl Disk {
    #[cfg(test)]
    fn step(&self) -> io::Result<()> {
        self.faults.step()
    }

    #[cfg(not(test))]
    #[expect(clippy::unnecessary_wraps, reason = "under test it fails")]
    fn step(&self) -> io::Result<()> {
        let _ = self;
        Ok(())
    }

    /// The unit tests stop thousands of times and never by power cut, so they need not wait for disks.
    fn durably(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _ = self;
        if cfg!(test) { Ok(()) } else { sync() }
    }

    /// Creates a file that must not exist.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.step()?;
        File::create_new(path)
    }

    pub(super) fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        file.write_all(bytes)
    }

    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        self.step()?;
        self.durably(|| file.sync_all())
    }

    /// Makes what happened to the names in a directory durable.
    pub(super) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let directory = File::open(path)?;
        self.durably(|| directory.sync_all())
    }

    pub(super) fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        fs::create_dir_all(path)
    }

    /// Gives a file a second name, which must not exist.
    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        fs::hard_link(from, to)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        fs::rename(from, to)
    }

    /// Removes a file. False if there was none.
    pub(super) fn remove(&self, path: &Path) -> io::Result<bool> {
        self.step()?;
        found(fs::remove_file(path))
    }

    /// Removes a directory if it is empty. False if there was none.
    pub(super) fn remove_directory(&self, path: &Path) -> io::Result<bool> {
        self.step()?;
        found(fs::remove_dir(path))
    }
}

fn found(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
