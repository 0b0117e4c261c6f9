//! New databases with the rows of old ones.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

use cutwater_keygroups::KeyGroupRange;

use super::{
    checkpoint::{Database, Description},
    folder::Folder,
    ingest::SortedFiles,
    part::{self, Part, Scope},
};
use crate::{BoxError, Error, ErrorKind, OldRows};

/// So much of a file is read at once.
const READ_BYTES: u64 = 8 << 20;

/// Databases for `groups`, without gaps, with the rows of `old`.
pub(super) fn parts(
    scope: Scope<'_>,
    folder: &Arc<Folder>,
    groups: KeyGroupRange,
    old: &[OldRows],
) -> Result<Vec<Part>, BoxError> {
    let mut parts = Vec::new();
    for old in old {
        let description: Description = postcard::from_bytes(&old.description).map_err(|error| {
            let message = "the description of a RocksDB checkpoint does not decode; restore from an \
                older checkpoint";
            Error::new(ErrorKind::Corrupt, message).with_source(error)
        })?;
        for database in description.databases {
            let (start, end) = database.groups;
            let groups = KeyGroupRange::new(start, end).intersection(old.groups);
            if groups.is_empty() {
                continue;
            }
            parts.push(restored(scope, folder, groups, &database, old)?);
        }
    }
    parts.sort_by_key(|part| part.groups.start());
    let mut whole: Vec<Part> = Vec::new();
    let mut next = groups.start();
    for part in parts {
        if next < part.groups.start() {
            let gap = KeyGroupRange::new(next, part.groups.start());
            whole.push(empty(scope, folder, gap)?);
        }
        next = part.groups.end();
        whole.push(part);
    }
    if next < groups.end() {
        let gap = KeyGroupRange::new(next, groups.end());
        whole.push(empty(scope, folder, gap)?);
    }
    merge(scope, folder, whole)
}

fn empty(scope: Scope<'_>, folder: &Folder, groups: KeyGroupRange) -> Result<Part, BoxError> {
    Part::open(scope, &folder.path("db"), groups, BTreeMap::new())
}

/// Opens an old database for some of its key groups.
fn restored(
    scope: Scope<'_>,
    folder: &Folder,
    groups: KeyGroupRange,
    database: &Database,
    old: &OldRows,
) -> Result<Part, BoxError> {
    let path = folder.path("db");
    fs::create_dir(&path)?;
    let mut names = BTreeMap::new();
    for (local, number) in &database.files {
        let number = usize::try_from(*number)?;
        let file = old.files.get(number).ok_or("a file is not in the list")?;
        fetch(old, &file.name, file.length, &path.join(local))?;
        if local.starts_with("MANIFEST-") {
            fs::write(path.join("CURRENT"), format!("{local}\n"))?;
        } else {
            names.insert(local.clone(), file.name.clone());
        }
    }
    let part = Part::open(scope, &path, groups, names)?;
    part.drop_other_groups()?;
    Ok(part)
}

/// Copies a stored file to `path`.
fn fetch(old: &OldRows, name: &str, length: u64, path: &Path) -> Result<(), BoxError> {
    let mut file = File::create_new(path)?;
    let mut at = 0;
    while at < length {
        let next = length.min(at + READ_BYTES);
        let bytes = old.read.read(name, at..next)?;
        if bytes.len() as u64 != next - at {
            let message = format!("`{name}` is too short; restore from an older checkpoint");
            return Err(Error::new(ErrorKind::Corrupt, message).into());
        }
        file.write_all(&bytes)?;
        at = next;
    }
    Ok(())
}

/// Copies neighbours together, the smallest first, until there are few enough databases.
fn merge(
    scope: Scope<'_>,
    folder: &Arc<Folder>,
    mut parts: Vec<Part>,
) -> Result<Vec<Part>, BoxError> {
    let most = usize::from(scope.shared.options().databases_max.max(1));
    while parts.len() > most {
        let sizes: Vec<u64> = parts.iter().map(Part::bytes).collect();
        let pairs = sizes.windows(2).map(|pair| pair[0] + pair[1]);
        let smallest = pairs.enumerate().min_by_key(|&(_, bytes)| bytes);
        let (first, _) = smallest.expect("more than one");
        let pair: Vec<Part> = parts.splice(first..first + 2, []).collect();
        parts.insert(first, copied(scope, folder, &pair)?);
    }
    Ok(parts)
}

/// A database with the rows of neighbours.
fn copied(scope: Scope<'_>, folder: &Folder, from: &[Part]) -> Result<Part, BoxError> {
    let (first, last) = (&from[0], &from[from.len() - 1]);
    let groups = KeyGroupRange::new(first.groups.start(), last.groups.end());
    let part = empty(scope, folder, groups)?;
    let mut files = SortedFiles::new(&part, folder);
    for Part { db, groups, .. } in from {
        let (from, to) = (groups.start().to_be_bytes(), groups.end().to_be_bytes());
        let mut result = Ok(());
        let mut copy = |key: &[u8], value: &[u8]| {
            result = files.put(key, value);
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let _to_the_end_or_error = part::scan(db, &from, &to, &mut copy)?;
        result?;
    }
    files.take_over()?;
    drop(files);
    Ok(part)
}
