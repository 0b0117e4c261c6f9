//! Reading snapshots back: finding the sections of a state for the owned key groups.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use cutwater_keygroups::{KeyGroup, KeyGroupRange};

use crate::{
    BoxError, Error, ErrorKind, Result,
    format::{self, Manifest, Section, State},
    keyed_table::AnyTable,
    names::Names,
    place::Place,
};

/// Adjacent sections are read at once up to this size.
const READ_BYTES: u64 = 8 << 20;

/// Reads the files of a snapshot, by the names they were stored under.
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
        let what = format!("operator `{}`: a snapshot's manifest", expected.uid);
        let manifest = format::manifest(&restored.manifest, &what)?;
        expected.check(&Identity::of(&manifest))?;
        let overlaps = overlap(manifest.groups, (groups.start(), groups.end()));
        Ok(overlaps.then_some(Self {
            manifest,
            files: restored.files,
        }))
    }

    pub(crate) fn groups(&self) -> KeyGroupRange {
        KeyGroupRange::new(self.manifest.groups.0, self.manifest.groups.1)
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
        let together = |run: &&[&Section]| !run.is_empty();
        for run in runs(&needed).filter(together) {
            self.load_run(place, run, state)?;
        }
        Ok(())
    }

    fn load_run<K>(
        &self,
        place: &Place,
        run: &[&Section],
        state: &mut dyn AnyTable<K>,
    ) -> Result<()> {
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
        let mut rest = &bytes[..];
        for section in run {
            let length = usize::try_from(section.length).unwrap_or(usize::MAX);
            let Some((mut entries, after)) = rest.split_at_checked(length) else {
                return Err(place.corrupt(file, "it is too short"));
            };
            rest = after;
            if crc32c::crc32c(entries) != section.crc32c {
                return Err(place.corrupt(file, "a checksum does not match"));
            }
            for _ in 0..section.entries {
                state
                    .load(KeyGroup::new(section.group), &mut entries)
                    .map_err(|reason| self.unreadable(place, file, reason))?;
            }
            if !entries.is_empty() {
                return Err(self.unreadable(place, file, Unreadable::Key));
            }
        }
        Ok(())
    }

    fn unreadable(&self, place: &Place, file: &str, reason: Unreadable) -> Error {
        let stored = &self.manifest.key_type;
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
    pub(crate) fn check(&self, found: &Identity<'_>) -> Result<()> {
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

/// Whose states a snapshot is of.
pub(crate) struct Identity<'a> {
    pub(crate) uid: &'a str,
    pub(crate) max_parallelism: u16,
    pub(crate) grouping: &'a str,
    pub(crate) key: &'a str,
}

impl<'a> Identity<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        Self {
            uid: &manifest.uid,
            max_parallelism: manifest.max_parallelism,
            grouping: &manifest.grouping,
            key: &manifest.key,
        }
    }
}

/// Splits `sections` into runs that lie one after the other in one file.
fn runs<'a, 'b>(sections: &'b [&'a Section]) -> impl Iterator<Item = &'b [&'a Section]> {
    let mut run_start = sections.first().map_or(0, |section| section.offset);
    sections.chunk_by(move |before, next| {
        let end = next.offset.saturating_add(next.length);
        let adjacent = before.file == next.file && before.offset + before.length == next.offset;
        let joined = adjacent && end - run_start <= READ_BYTES;
        if !joined {
            run_start = next.offset;
        }
        joined
    })
}
