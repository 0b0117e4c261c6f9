//! Folders that are removed when they are of no use any more.
//!
//! ```text
//! given folder / cutwater-<process> / lock
//!                                   / <operator>-<number> / db-0, checkpoint-1, …    one store
//! ```

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const PREFIX: &str = "cutwater-";

/// A folder of ours, removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Numbers what is made in it.
    next: AtomicU64,
    /// The process that holds it locked is alive.
    _lock: Option<File>,
    /// Is not removed before this one.
    _within: Option<Arc<Self>>,
}

impl Folder {
    /// This process's folder in `path`. Removes those of processes that are gone.
    pub(super) fn of_process(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove_if_abandoned(&entry.path());
            }
        }
        let path = path.join(format!("{PREFIX}{}", random()));
        fs::create_dir(&path)?;
        let lock = File::create(path.join("lock"))?;
        lock.lock()?;
        Ok(Self {
            path,
            next: AtomicU64::new(0),
            _lock: Some(lock),
            _within: None,
        })
    }

    /// A new folder in this one, for a store of the operator `uid`.
    pub(super) fn store(self: &Arc<Self>, uid: &str) -> io::Result<Arc<Self>> {
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let uid: String = uid.chars().take(40).map(safe).collect();
        let path = self.path(&uid);
        fs::create_dir(&path)?;
        Ok(Arc::new(Self {
            path,
            next: AtomicU64::new(0),
            _lock: None,
            _within: Some(Arc::clone(self)),
        }))
    }

    /// A path for something new in it.
    pub(super) fn path(&self, what: &str) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{what}-{number}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _whoever_comes_next_tries_again = fs::remove_dir_all(&self.path);
    }
}

/// Removes a folder if the process that made it is gone.
fn remove_if_abandoned(path: &Path) {
    // A process that has made its folder but not yet its lock looks abandoned for a moment; so
    // without a lock nothing is removed but an empty folder.
    let Ok(lock) = File::open(path.join("lock")) else {
        let _not_empty = fs::remove_dir(path);
        return;
    };
    if lock.try_lock().is_ok() {
        let _another_tries_too = fs::remove_dir_all(path);
    }
}

/// A word that nobody has drawn before.
pub(super) fn random() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
