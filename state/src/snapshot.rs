//! The slow half of a snapshot: writing a frozen view, on any thread, with bounded memory.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;

use crate::{
    BoxError, Error, ErrorKind, NewFile, Result, Store,
    encoded::RowsTask,
    format::{self, File, MAGIC, Manifest, Section},
    images::{Images, writer::ImageWriter},
    lineage::Lineage,
    table::BlockId,
};

/// A file ends with the entry, or image of a block, that reaches this size; larger ones would need more memory while
/// they are written, smaller ones more requests to a store.
pub(crate) const FILE_BYTES: usize = 4 << 20;

/// A frozen view of one operator subtask's keyed state, still to be written.
///
/// It may be run on any thread, at any later time, several of them at once; what the task does in
/// the meantime is not visible here. Dropping it cancels the snapshot and costs nothing else.
pub struct SnapshotTask(pub(crate) Work);

/// What is frozen.
pub(crate) enum Work {
    /// Entries.
    Typed(TypedTask),
    /// What a byte backend does not have yet.
    Rows(RowsTask),
}

/// A frozen view of entries.
pub(crate) struct TypedTask {
    pub(crate) manifest: Manifest,
    pub(crate) form: Form,
}

/// What a snapshot is written as.
pub(crate) enum Form {
    /// Sections by state and key group.
    Canonical(Vec<Box<dyn Frozen>>),
    /// Images of the blocks that have changed since the base.
    Images {
        states: Vec<Box<dyn FrozenBlocks>>,
        base: Option<Arc<Images>>,
        history: History,
    },
}

/// The snapshots in images of one registry, shared with those that write them.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Lineage<Arc<Images>>>>);

impl History {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lineage<Arc<Images>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frozen entries of one state.
pub(crate) trait Frozen: Send {
    /// Writes all entries, by rising key group.
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()>;
}

/// The frozen blocks of one state in memory.
pub(crate) trait FrozenBlocks: Frozen {
    /// The epoch of the table that ended with this.
    fn epoch(&self) -> u64;

    /// The blocks that have changed since the base.
    fn wanted(&self) -> Vec<BlockId>;

    /// Writes the images of these blocks; of those that are not wanted, only if the task is not changing
    /// them at the moment.
    fn write_images(self: Box<Self>, blocks: Vec<BlockId>, out: &mut ImageWriter<'_>)
    -> Result<()>;
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
    /// Writes the snapshot: gives `store` one file after the other and returns what refers to them.
    /// Needs memory for one file.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) with the error of `store` as source; the files stored so far are then of no use.
    /// [`Outdated`](ErrorKind::Outdated) if a file that was to be reused is not there any more.
    /// [`Invalid`](ErrorKind::Invalid) if a value refuses to be serialised.
    pub fn run(self, store: &mut dyn Store) -> Result<Snapshot> {
        match self.0 {
            Work::Typed(task) => task.run(store),
            Work::Rows(task) => task.run(store),
        }
    }
}

impl TypedTask {
    fn run(self, store: &mut dyn Store) -> Result<Snapshot> {
        match self.form {
            Form::Canonical(states) => run_canonical(self.manifest, states, store),
            Form::Images {
                states,
                base,
                history,
            } => {
                let checkpoint = self.manifest.head.checkpoint();
                let base = base.map_or_else(Images::default, |base| (*base).clone());
                let written = ImageWriter::new(self.manifest, base, store).run(states);
                if written
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::Outdated)
                {
                    history.lock().lost();
                }
                let (snapshot, images) = written?;
                history.lock().written(checkpoint, Arc::new(images));
                Ok(snapshot)
            }
        }
    }
}

fn run_canonical(
    manifest: Manifest,
    states: Vec<Box<dyn Frozen>>,
    store: &mut dyn Store,
) -> Result<Snapshot> {
    let mut writer = Writer::new(manifest, store);
    for (number, state) in states.into_iter().enumerate() {
        writer.state = number;
        state.write(&mut writer)?;
        writer.finish_section();
    }
    writer.finish()
}

impl fmt::Debug for SnapshotTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkpoint = match &self.0 {
            Work::Typed(task) => task.manifest.head.checkpoint,
            Work::Rows(task) => task.manifest.head.checkpoint,
        };
        f.debug_struct("SnapshotTask")
            .field("checkpoint", &checkpoint)
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
            let is_written = encode(entry, &mut self.bytes)
                .map_err(|e| not_serialisable(&self.manifest, self.state, e))?;
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
        let Manifest { head, files, .. } = &mut self.manifest;
        let name = format!("keyed-{}-{}", head.checkpoint, files.len());
        files.push(File {
            name: name.clone(),
            length: self.bytes.len() as u64,
        });
        let bytes = mem::take(&mut self.bytes);
        let file = NewFile::new(name.clone(), bytes);
        stored(&self.manifest, &name, self.store.store(file))
    }

    fn finish(mut self) -> Result<Snapshot> {
        self.finish_file()?;
        let Self { manifest, .. } = self;
        let bytes = manifest.files.iter().map(|file| file.length).sum();
        Ok(Snapshot {
            checkpoint: manifest.head.checkpoint(),
            groups: manifest.head.groups(),
            manifest: format::sealed(MAGIC, &manifest)?,
            files: manifest.files.into_iter().map(|file| file.name).collect(),
            bytes_new: bytes,
            bytes_full: bytes,
        })
    }
}

/// The outcome of storing or reusing the file `name`.
pub(crate) fn stored<T>(
    manifest: &Manifest,
    name: &str,
    outcome: Result<T, BoxError>,
) -> Result<T> {
    outcome.map_err(|e| {
        let message = format!("operator `{}`: storing `{name}`", manifest.head.uid);
        Error::new(ErrorKind::Io, message).with_source(e)
    })
}

/// A value of the state of this number cannot be written.
pub(crate) fn not_serialisable(manifest: &Manifest, state: usize, error: postcard::Error) -> Error {
    let (uid, name) = (&manifest.head.uid, &manifest.states[state].name);
    let message = format!("operator `{uid}`, state `{name}`: a value refuses to be serialised");
    Error::new(ErrorKind::Invalid, message).with_source(error)
}
