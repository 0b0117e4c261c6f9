//! The slow half of a snapshot: writing a frozen view, on any thread, with bounded memory.

use std::{fmt, mem};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use serde::Serialize;

use crate::{
    Error, ErrorKind, NewFile, Result, Store,
    encoded::RowsTask,
    format::{self, File, MAGIC, Manifest, Section, State},
};

/// A file ends with the entry that reaches this size; larger ones would need more memory while
/// they are written, smaller ones more requests to a store.
const FILE_BYTES: usize = 4 << 20;

/// A frozen view of one operator subtask's keyed state, still to be written.
///
/// It may be run on any thread, at any later time, several of them at once; what the task does in
/// the meantime is not visible here. Dropping it cancels the snapshot and costs nothing else.
pub struct SnapshotTask(Work);

/// What is frozen.
enum Work {
    /// All entries.
    Sections {
        manifest: Manifest,
        states: Vec<Box<dyn Frozen>>,
    },
    /// What is not in the byte backend yet.
    Rows(RowsTask),
}

/// The frozen entries of one state.
pub(crate) trait Frozen: Send {
    /// Writes all entries, by rising key group.
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()>;
}

/// A snapshot that has been written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The checkpoint it was taken for.
    pub checkpoint: CheckpointId,
    /// The key groups inside.
    pub groups: KeyGroupRange,
    /// What a restore needs to find its way in the files; opaque to the driver, which keeps it in the
    /// checkpoint's metadata.
    pub manifest: Vec<u8>,
    /// The names of all files that the manifest refers to.
    pub files: Vec<String>,
    /// Bytes in files written for this checkpoint.
    pub bytes_new: u64,
    /// Bytes in all files that the manifest refers to.
    pub bytes_full: u64,
}

impl SnapshotTask {
    pub(crate) fn of_entries(manifest: Manifest, states: Vec<Box<dyn Frozen>>) -> Self {
        Self(Work::Sections { manifest, states })
    }

    pub(crate) fn of_rows(task: RowsTask) -> Self {
        Self(Work::Rows(task))
    }

    /// Writes the snapshot: gives `store` one file after the other and returns what refers to them.
    /// Needs memory for one file.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) with the error of `store` as source; the files stored so far are then of no use. [`Invalid`](ErrorKind::Invalid) if a
    /// value refuses to be serialised.
    pub fn run(self, store: &mut dyn Store) -> Result<Snapshot> {
        let (manifest, states) = match self.0 {
            Work::Rows(task) => return task.run(store),
            Work::Sections { manifest, states } => (manifest, states),
        };
        let mut writer = Writer::new(manifest, store);
        for (number, state) in states.into_iter().enumerate() {
            writer.state = number;
            state.write(&mut writer)?;
            writer.finish_section();
        }
        writer.finish()
    }
}

impl fmt::Debug for SnapshotTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (checkpoint, form) = match &self.0 {
            Work::Sections { manifest, .. } => (manifest.checkpoint, "entries"),
            Work::Rows(RowsTask { manifest, .. }) => (manifest.checkpoint, "rows"),
        };
        f.debug_struct("SnapshotTask")
            .field("checkpoint", &checkpoint)
            .field("of", &form)
            .finish_non_exhaustive()
    }
}

/// Cuts entries into sections and files.
pub(crate) struct Writer<'a> {
    manifest: Manifest,
    store: &'a mut dyn Store,
    /// The file being filled; empty if none is.
    bytes: Vec<u8>,
    /// Which of the manifest's states is being written.
    state: usize,
    /// The section being filled: its group, offset, entries.
    section: Option<(u16, usize, u64)>,
}

impl<'a> Writer<'a> {
    fn new(manifest: Manifest, store: &'a mut dyn Store) -> Self {
        Self {
            manifest,
            store,
            bytes: Vec::new(),
            state: 0,
            section: None,
        }
    }

    /// Appends entries: of each, what `encode` writes, unless it says that there is nothing to write.
    pub(crate) fn entries<E>(
        &mut self,
        group: u16,
        entries: &[E],
        mut encode: impl FnMut(&E, &mut Vec<u8>) -> Result<bool, postcard::Error>,
    ) -> Result<()> {
        let mut written = 0;
        for entry in entries {
            if written == 0 {
                self.start_section(group);
            }
            let is_written =
                encode(entry, &mut self.bytes).map_err(|e| self.not_serialisable(e))?;
            written += u64::from(is_written);
            if self.bytes.len() >= FILE_BYTES {
                self.add_to_section(mem::take(&mut written));
                self.finish_file()?;
            }
        }
        self.add_to_section(written);
        Ok(())
    }

    /// Makes the section being filled one of `group`.
    fn start_section(&mut self, group: u16) {
        if self.section.is_none_or(|(current, ..)| current != group) {
            self.finish_section();
            if self.bytes.is_empty() {
                self.bytes.reserve_exact(FILE_BYTES + FILE_BYTES / 64);
                self.bytes.extend(MAGIC);
            }
            self.section = Some((group, self.bytes.len(), 0));
        }
    }

    fn add_to_section(&mut self, written: u64) {
        if let Some((.., entries)) = &mut self.section {
            *entries += written;
        }
    }

    fn finish_section(&mut self) {
        let Some((group, start, entries)) = self.section.take() else {
            return;
        };
        let section = Section {
            group,
            file: u32::try_from(self.manifest.files.len()).expect("fewer than 2^32 files"),
            offset: start as u64,
            length: (self.bytes.len() - start) as u64,
            entries,
            crc32c: crc32c::crc32c(&self.bytes[start..]),
        };
        self.manifest.states[self.state].sections.push(section);
    }

    fn finish_file(&mut self) -> Result<()> {
        self.finish_section();
        if self.bytes.is_empty() {
            return Ok(());
        }
        let Manifest {
            checkpoint, files, ..
        } = &mut self.manifest;
        let name = format!("keyed-{checkpoint}-{}", files.len());
        files.push(File {
            name: name.clone(),
            length: self.bytes.len() as u64,
        });
        let bytes = mem::take(&mut self.bytes);
        let stored = self.store.store(NewFile::new(name.clone(), bytes));
        stored.map_err(|e| {
            let message = format!("operator `{}`: storing `{name}`", self.manifest.uid);
            Error::new(ErrorKind::Io, message).with_source(e)
        })
    }

    fn finish(mut self) -> Result<Snapshot> {
        self.finish_file()?;
        let Self { manifest, .. } = self;
        let bytes = manifest.files.iter().map(|file| file.length).sum();
        Ok(Snapshot {
            checkpoint: CheckpointId::new(manifest.checkpoint),
            groups: KeyGroupRange::new(manifest.groups.0, manifest.groups.1),
            manifest: format::sealed(MAGIC, &manifest)?,
            files: manifest.files.into_iter().map(|file| file.name).collect(),
            bytes_new: bytes,
            bytes_full: bytes,
        })
    }

    fn not_serialisable(&self, error: postcard::Error) -> Error {
        let State { name, .. } = &self.manifest.states[self.state];
        let message = format!(
            "operator `{}`, state `{name}`: a value refuses to be serialised",
            self.manifest.uid
        );
        Error::new(ErrorKind::Invalid, message).with_source(error)
    }
}

/// Appends `value` as postcard.
#[inline]
pub(crate) fn append(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    // Most values are small, and into a slice they are written faster than byte by byte onto a `Vec`.
    const SMALL: usize = 64;
    let start = out.len();
    out.resize(start + SMALL, 0);
    let written = postcard::to_slice(value, &mut out[start..]).map(|bytes| bytes.len());
    out.truncate(start + written.as_ref().map_or(0, |written| *written));
    match written {
        Ok(_) => {}
        Err(postcard::Error::SerializeBufferFull) => {
            *out = postcard::to_extend(value, mem::take(out))?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
