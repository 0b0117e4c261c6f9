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
use crate::{BoxError, Error, ErrorKind, OldRows, RowsFile};

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

/// Opens an old database for some of its key groups, with the files that may have rows of them.
///
/// In the place of each of the others it finds a file of the same length with nothing in it, and lets go of that
/// before anybody reads it.
fn restored(
    scope: Scope<'_>,
    folder: &Folder,
    groups: KeyGroupRange,
    database: &Database,
    old: &OldRows,
) -> Result<Part, BoxError> {
    let path = folder.path("db");
    fs::create_dir(&path)?;
    let (mut names, mut hollow) = (BTreeMap::new(), Vec::new());
    for (local, file) in &database.files {
        let stored = old.files.get(usize::try_from(file.number)?);
        let stored = stored.ok_or("a file is not in the list")?;
        let has_none = |(first, last): (u16, u16)| last < groups.start() || groups.end() <= first;
        if file.groups.is_some_and(has_none) {
            File::create_new(path.join(local))?.set_len(stored.length)?;
            hollow.push((local, stored));
        } else {
            fetch(old, stored, &path.join(local))?;
        }
        if local.starts_with("MANIFEST-") {
            fs::write(path.join("CURRENT"), format!("{local}\n"))?;
        } else {
            names.insert(local.clone(), stored.name.clone());
        }
    }
    if !hollow.is_empty() {
        let live = part::drop_other_groups(scope, &path, groups)?;
        for (local, stored) in hollow {
            if live.contains(local) {
                fs::remove_file(path.join(local))?;
                fetch(old, stored, &path.join(local))?;
            }
        }
    }
    Part::open(scope, &path, groups, names)
}

/// Copies a stored file to `path`.
fn fetch(old: &OldRows, stored: &RowsFile, path: &Path) -> Result<(), BoxError> {
    let RowsFile { name, length } = stored;
    let mut file = File::create_new(path)?;
    let mut at = 0;
    while at < *length {
        let next = (at + READ_BYTES).min(*length);
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read, ops::ControlFlow, sync::Arc};

    use cutwater_keygroups::KeyGroupRange;

    use super::parts;
    use crate::{
        BoxError, IsExpired, OldRows, Rows,
        rocksdb::{
            RocksOptions, checkpoint::Description, folder::Folder, options::Shared, part::Scope,
            parts::Parts,
        },
    };

    const ROWS: [([u8; 3], &[u8]); 2] = [([0, 1, 7], b"one"), ([0, 3, 7], b"three")];

    /// A compaction may move a file between the checkpoint and the look at where it is. Whatever is said of a file,
    /// the database decides whether it is needed, and then it is read.
    #[test]
    fn a_file_that_is_needed_after_all_is_read() -> Result<(), BoxError> {
        let temporary = tempfile::tempdir()?;
        let folder = Arc::new(Folder::of_process(temporary.path())?);
        let shared = Arc::new(Shared::new(RocksOptions::default()));
        let never: IsExpired = Arc::new(|_, _| false);
        let scope = Scope {
            shared: &shared,
            is_expired: &never,
        };
        let groups = KeyGroupRange::new(0, 4);
        let store = |old: &[OldRows]| -> Result<Parts, BoxError> {
            let folder = folder.store("op")?;
            let parts = parts(scope, &folder, groups, old)?;
            Ok(Parts::new(parts, folder))
        };

        let first = store(&[])?;
        let mut ingest = first.ingest()?;
        for (key, value) in ROWS {
            ingest.put(&key, value)?;
        }
        ingest.finish()?;
        let checkpoint = first.checkpoint()?;
        let mut files = BTreeMap::new();
        for (number, file) in checkpoint.files().iter().enumerate() {
            let mut bytes = Vec::new();
            checkpoint.open(number)?.read_to_end(&mut bytes)?;
            files.insert(file.name.clone(), bytes);
        }
        let mut description: Description = postcard::from_bytes(&checkpoint.description())?;
        let described = description.databases[0].files.values_mut();
        let with_groups: Vec<_> = described.filter(|file| file.groups.is_some()).collect();
        assert_eq!(with_groups.len(), 1);
        for file in with_groups {
            assert_eq!(file.groups, Some((1, 3)));
            file.groups = Some((9, 9));
        }

        let description = postcard::to_stdvec(&description)?;
        let files_of = checkpoint.files().to_vec();
        let old = OldRows::new(groups, files_of, description, Arc::new(files));
        let mut found = Vec::new();
        store(&[old])?.scan(&[], &[0xff], &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        let expected = ROWS.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found, expected);
        Ok(())
    }
}
