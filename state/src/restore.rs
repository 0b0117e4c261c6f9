//! Reading snapshots back: finding the sections of a state for the owned key groups.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use cutwater_keygroups::{KeyGroup, KeyGroupRange};

use crate::{
    BoxError, Error, ErrorKind, Result,
    format::{self, File, Head, Manifest, Section, State},
    images::index::{self, Indexed},
    keyed_table::AnyTable,
    names::Names,
    place::Place,
    read_ahead::read_ahead,
};

/// Adjacent sections are read at once up to this size.
const READ_BYTES: u64 = 2 << 20;

/// Reading so many bytes for nothing is faster than asking once more.
const GAP_BYTES: u64 = 32 << 10;

/// Reads the files of a snapshot, by the names they were stored under. A restore reads a few pieces ahead of what it
/// works on, in threads of its own.
///
/// Closures will do, whose bytes may be of any type that turns into a `Vec`, and so will a `BTreeMap`
/// from name to bytes.
pub trait ReadFiles: Send + Sync {
    /// The bytes `range` of the file called `name`, exactly as many.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being read; it becomes the source of an [`Io`](ErrorKind::Io).
    fn read(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, BoxError>;
}

impl<F, B> ReadFiles for F
where
    F: Fn(&str, Range<u64>) -> Result<B, BoxError> + Send + Sync,
    B: Into<Vec<u8>>,
{
    fn read(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, BoxError> {
        self(name, range).map(Into::into)
    }
}

impl ReadFiles for BTreeMap<String, Vec<u8>> {
    fn read(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, BoxError> {
        let file = self.get(name).ok_or_else(|| format!("no file `{name}`"))?;
        let range = usize::try_from(range.start)?..usize::try_from(range.end)?;
        Ok(file.get(range).ok_or("past the end of the file")?.to_vec())
    }
}

/// The snapshot of one old subtask: what [`run`](crate::SnapshotTask::run) returned and stored.
///
/// Clones are cheap: each new subtask gets one of every old subtask it shares key groups with.
#[derive(Clone)]
pub struct Restored {
    manifest: Arc<[u8]>,
    files: Arc<dyn ReadFiles>,
}

impl Restored {
    /// A snapshot's manifest, and access to its files, of which only the needed parts are read.
    pub fn new(manifest: impl AsRef<[u8]>, files: impl ReadFiles + 'static) -> Self {
        Self {
            manifest: manifest.as_ref().into(),
            files: Arc::new(files),
        }
    }
}

impl Restored {
    pub(crate) fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    pub(crate) fn files(&self) -> Arc<dyn ReadFiles> {
        Arc::clone(&self.files)
    }
}

impl fmt::Debug for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restored").finish_non_exhaustive()
    }
}

/// An old subtask's snapshot whose manifest has been read and checked against the operator.
pub(crate) struct Old {
    manifest: Manifest,
    files: Arc<dyn ReadFiles>,
}

impl Old {
    /// `None` if it has no key group of `groups`: its states are then none of ours (B23).
    pub(crate) fn open(
        restored: Restored,
        groups: KeyGroupRange,
        expected: &Expected<'_>,
    ) -> Result<Option<Self>> {
        let Restored { manifest, files } = restored;
        let what = format!("operator `{}`: a snapshot's manifest", expected.uid);
        let mut manifest = format::manifest(&manifest, &what)?;
        expected.check(&manifest.head)?;
        if !overlap(manifest.head.groups, (groups.start(), groups.end())) {
            return Ok(None);
        }
        index::resolve(&mut manifest, groups, |manifest, number| {
            read_index(manifest, number, &*files)
        })?;
        Ok(Some(Self { manifest, files }))
    }

    pub(crate) fn groups(&self) -> KeyGroupRange {
        self.manifest.head.groups()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.manifest.states.iter().map(|state| state.name.as_str())
    }

    /// The state that has one of `names`.
    pub(crate) fn state(&self, place: &Place, names: &Names) -> Result<Option<&State>> {
        names.find(place, &self.manifest.states, |state| &state.name)
    }

    /// Loads the sections of `found` that lie in the groups of `place` into `state`.
    pub(crate) fn load<K>(
        &self,
        place: &Place,
        found: &State,
        state: &mut dyn AnyTable<K>,
    ) -> Result<()> {
        let owned = |section: &&Section| place.groups().contains(KeyGroup::new(section.group));
        let needed: Vec<&Section> = found.sections.iter().filter(owned).collect();
        let mut entries = BTreeMap::new();
        for section in &needed {
            let at_least_a_byte_each = section.entries.min(section.length);
            *entries.entry(section.group).or_insert(0) += at_least_a_byte_each;
        }
        for (group, entries) in entries {
            state.expect(KeyGroup::new(group), entries);
        }
        let runs: Vec<_> = runs(&needed).filter(|run| !run.is_empty()).collect();
        let read = |run: &&[&Section]| self.read_run(place, run);
        read_ahead(&runs, read, |run, read| {
            let (file, bytes) = read?;
            self.load_run(place, run, file, &bytes, state)
        })
    }

    /// The bytes of sections that lie side by side, and the name of their file.
    fn read_run(&self, place: &Place, run: &[&Section]) -> Result<(&str, Vec<u8>)> {
        let (first, last) = (run[0], run[run.len() - 1]);
        let file = self.manifest.files.get(first.file as usize);
        let file = &file
            .ok_or_else(|| place.corrupt("the manifest", "it names no such file"))?
            .name;
        let range = first.offset..last.offset.saturating_add(last.length);
        let expected = range.end - range.start;
        let bytes = self.files.read(file, range).map_err(|e| {
            Error::new(ErrorKind::Io, format!("{place}: reading `{file}`")).with_source(e)
        })?;
        if bytes.len() as u64 != expected {
            return Err(place.corrupt(file, "it is too short"));
        }
        Ok((file, bytes))
    }

    fn load_run<K>(
        &self,
        place: &Place,
        run: &[&Section],
        file: &str,
        bytes: &[u8],
        state: &mut dyn AnyTable<K>,
    ) -> Result<()> {
        for section in run {
            let start = usize::try_from(section.offset - run[0].offset).unwrap_or(usize::MAX);
            let length = usize::try_from(section.length).unwrap_or(usize::MAX);
            let entries = bytes.get(start..).and_then(|rest| rest.get(..length));
            let Some(mut entries) = entries else {
                return Err(place.corrupt(file, "it is too short"));
            };
            if crc32c::crc32c(entries) != section.crc32c {
                return Err(place.corrupt(file, "a checksum does not match"));
            }
            state
                .load(KeyGroup::new(section.group), section.entries, &mut entries)
                .map_err(|reason| self.unreadable(place, file, reason))?;
            if !entries.is_empty() {
                return Err(self.unreadable(place, file, Unreadable::Key));
            }
        }
        Ok(())
    }

    fn unreadable(&self, place: &Place, file: &str, reason: Unreadable) -> Error {
        let stored = &self.manifest.head.key_type;
        match reason {
            // The checksum was right, so the bytes are those that were written: by another type.
            Unreadable::Key => Error::new(
                ErrorKind::Incompatible,
                format!(
                    "{place}: the keys in `{file}` are of type `{stored}`, not of the one given now"
                ),
            ),
            Unreadable::NotKept(error) => error,
            Unreadable::Value(e) => place
                .corrupt(
                    file,
                    "a value does not decode, though its schema is the same",
                )
                .with_source(e),
        }
    }
}

fn overlap(one: (u16, u16), other: (u16, u16)) -> bool {
    one.0.max(other.0) < one.1.min(other.1)
}

/// Why an entry cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The key does not decode, or its hash is not of the group it stands in.
    Key,
    Value(postcard::Error),
    /// It was read, and then could not be kept.
    NotKept(Error),
}

/// What an operator's snapshots must agree with.
pub(crate) struct Expected<'a> {
    pub(crate) uid: &'a str,
    pub(crate) max_parallelism: u16,
    pub(crate) grouping: &'a str,
    /// What keys are encoded like.
    pub(crate) key: &'a str,
}

impl Expected<'_> {
    pub(crate) fn check(&self, found: &Head) -> Result<()> {
        let uid = self.uid;
        let differs = |what: &str, found: &dyn fmt::Display, now: &dyn fmt::Display| {
            let message = format!(
                "operator `{uid}`: the snapshot was taken with {what} {found}, and now it is {now}; \
                 restore with the former"
            );
            Err(Error::new(ErrorKind::Incompatible, message))
        };
        if found.uid != uid {
            return differs("the operator uid", &found.uid, &uid);
        }
        if found.max_parallelism != self.max_parallelism {
            return differs(
                "max parallelism",
                &found.max_parallelism,
                &self.max_parallelism,
            );
        }
        if found.grouping != self.grouping {
            return differs("the key grouping", &found.grouping, &self.grouping);
        }
        if !found.key.is_empty() && found.key != self.key {
            return differs("keys encoded as", &found.key, &self.key);
        }
        Ok(())
    }
}

/// Reads the index of a file of images.
fn read_index(manifest: &Manifest, number: usize, files: &dyn ReadFiles) -> Result<Vec<Indexed>> {
    let corrupt = |object: &str, reason: &str| {
        let message = format!(
            "operator `{}`: `{object}`: {reason}; restore from an older checkpoint",
            manifest.head.uid
        );
        Error::new(ErrorKind::Corrupt, message)
    };
    let index = manifest.indexes[number];
    let Some(File { name, length }) = manifest.files.get(number) else {
        return Err(corrupt("the manifest", "it names no such file"));
    };
    if index.offset > *length {
        return Err(corrupt("the manifest", "an index begins behind its file"));
    }
    let bytes = files.read(name, index.offset..*length).map_err(|e| {
        let message = format!(
            "operator `{}`: reading the index of `{name}`",
            manifest.head.uid
        );
        Error::new(ErrorKind::Io, message).with_source(e)
    })?;
    if bytes.len() as u64 != *length - index.offset {
        return Err(corrupt(name, "it is too short"));
    }
    if crc32c::crc32c(&bytes) != index.crc32c {
        return Err(corrupt(name, "the checksum of its index does not match"));
    }
    postcard::from_bytes(&bytes)
        .map_err(|e| corrupt(name, "its index does not decode").with_source(e))
}

/// Splits `sections`, by rising place, into runs that lie side by side in one file, or nearly so: what lies
/// between them is read as well and passed over.
fn runs<'a, 'b>(sections: &'b [&'a Section]) -> impl Iterator<Item = &'b [&'a Section]> {
    let mut run_start = sections.first().map_or(0, |section| section.offset);
    sections.chunk_by(move |before, next| {
        let end = next.offset.saturating_add(next.length);
        let gap = next
            .offset
            .checked_sub(before.offset.saturating_add(before.length));
        let near = before.file == next.file && gap.is_some_and(|gap| gap <= GAP_BYTES);
        let joined = near && end - run_start <= READ_BYTES;
        if !joined {
            run_start = next.offset;
        }
        joined
    })
}
