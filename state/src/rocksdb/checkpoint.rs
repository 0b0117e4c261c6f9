//! Checkpoints of databases: hard links to their files, and the list of them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, OnceLock, atomic::Ordering},
};

use rocksdb::{DB, checkpoint::Checkpoint};
use serde::{Deserialize, Serialize};

use super::{failed, folder::Folder, options::Shared, part, part::Part};
use crate::{BoxError, EachRow, RowsCheckpoint, RowsFile};

/// What a restore needs to know besides the files.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Description {
    pub(super) databases: Vec<Database>,
}

/// One of the databases that stood side by side.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Database {
    /// The key groups that it answers for, `start..end`. Rows of others may be in it.
    pub(super) groups: (u16, u16),
    /// Its files, by their names in the folder of the database.
    pub(super) files: BTreeMap<String, DatabaseFile>,
}

/// A file of a database.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct DatabaseFile {
    /// In the list of files.
    pub(super) number: u32,
    /// The first and the last key group of its rows, if a restore of others need not read it.
    pub(super) groups: Option<(u16, u16)>,
}

/// A checkpoint of several databases, in a folder of its own that goes with it.
pub(super) struct Taken {
    path: PathBuf,
    files: Vec<RowsFile>,
    paths: Vec<PathBuf>,
    description: Description,
    /// The databases, opened when they are first scanned.
    opened: Vec<OnceLock<DB>>,
    shared: Arc<Shared>,
    /// Is not removed before this one.
    _within: Arc<Folder>,
}

/// Fixes all databases as of now: nothing is ingested meanwhile.
pub(super) fn take(parts: &[Part], folder: &Arc<Folder>) -> Result<Taken, BoxError> {
    let path = folder.path("checkpoint");
    fs::create_dir(&path)?;
    let mut taken = Taken {
        path,
        files: Vec::new(),
        paths: Vec::new(),
        description: Description {
            databases: Vec::new(),
        },
        opened: parts.iter().map(|_| OnceLock::new()).collect(),
        shared: Arc::clone(&parts[0].shared),
        _within: Arc::clone(folder),
    };
    for part in parts {
        taken.add(part)?;
    }
    Ok(taken)
}

impl Taken {
    fn add(&mut self, part: &Part) -> Result<(), BoxError> {
        let number = self.description.databases.len();
        let path = self.database(number);
        // Files may come and go by compactions. One of which nothing is known here is read by whoever restores.
        let mut groups = part.groups_of_files()?;
        let taken = Checkpoint::new(&part.db).and_then(|new| new.create_checkpoint(&path));
        taken.map_err(|error| failed("taking a checkpoint", error))?;
        groups.extend(part.groups_of_files()?);
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let local = entry.file_name().to_string_lossy().into_owned();
            let length = entry.metadata()?.len();
            let Some(name) = name(part, &local, length) else {
                continue;
            };
            let number = u32::try_from(self.files.len())?;
            let groups = groups.remove(&local);
            files.insert(local, DatabaseFile { number, groups });
            self.files.push(RowsFile::new(name, length));
            self.paths.push(entry.path());
        }
        self.description.databases.push(Database {
            groups: (part.groups.start(), part.groups.end()),
            files,
        });
        Ok(())
    }

    fn opened(&self, number: usize) -> Result<&DB, BoxError> {
        let opened = &self.opened[number];
        if opened.get().is_none() {
            let path = self.database(number);
            let db = DB::open_for_read_only(self.shared.sorted_files(), path, false);
            let db = db.map_err(|error| failed("opening a checkpoint", error))?;
            let _another_was_first = opened.set(db);
        }
        Ok(opened.get().expect("set above"))
    }

    fn database(&self, number: usize) -> PathBuf {
        self.path.join(number.to_string())
    }
}

/// The identity of a file, or `None` if a restore does not need it.
fn name(part: &Part, local: &str, length: u64) -> Option<String> {
    let session = &part.session;
    if let Some(number) = local.strip_suffix(".sst") {
        let restored = part.restored.get(local).cloned();
        return Some(restored.unwrap_or_else(|| format!("{session}-{number}-{length}.sst")));
    }
    // The list of its files as of now. The same number and length may come again with other bytes.
    let number = local.strip_prefix("MANIFEST-")?;
    let checkpoint = part.checkpoints.fetch_add(1, Ordering::Relaxed);
    Some(format!("{session}-{number}-manifest-{checkpoint}"))
}

impl RowsCheckpoint for Taken {
    fn files(&self) -> &[RowsFile] {
        &self.files
    }

    fn open(&self, number: usize) -> Result<Box<dyn io::Read + Send>, BoxError> {
        Ok(Box::new(File::open(&self.paths[number])?))
    }

    fn description(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.description).expect("numbers and names can be serialised")
    }

    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError> {
        for (number, database) in self.description.databases.iter().enumerate() {
            let (start, end) = database.groups;
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let (from, to) = (from.max(&start), to.min(&end));
            if from >= to {
                continue;
            }
            if let ControlFlow::Break(()) = part::scan(self.opened(number)?, from, to, each)? {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.opened.clear();
        let _goes_with_the_store = fs::remove_dir_all(&self.path);
    }
}
