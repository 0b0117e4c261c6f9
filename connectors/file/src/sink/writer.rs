//! The half in the task: files that grow in the staging directory of this generation.
//!
//! ```text
//!            write              prepare: old or large, or the input ended
//!   nothing ───────▶ open ────────────────────────────────────▶ closed, a token
//!                    │  ▲
//!                    └──┘ prepare: neither; a piece of state says how far it counts
//! ```
//!
//! Invariant: after `prepare`, each record written is durable below the length in a token or a piece.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{Error, Flushed, Input, Prepared, Result, Writer, WriterContext};
use xxhash_rust::xxh64::Xxh64;

use super::{Encode, Rolling, disk::Disk, layout::Layout, part::Part};

/// Writes the files of one subtask.
pub struct FileWriter<E> {
    disk: Disk,
    layout: Layout,
    /// Of this generation.
    staging: PathBuf,
    generation: Generation,
    subtask: u16,
    encode: E,
    rolling: Rolling,
    /// Of the next file.
    number: u64,
    open: Option<Open>,
    /// Closed since the last checkpoint because they were full.
    full: Vec<Part>,
}

struct Open {
    name: String,
    file: File,
    /// `None` for one taken over, until the first write tells the time.
    since: Option<Time>,
    /// Encoded and not yet written.
    buffer: Vec<u8>,
    /// Written.
    length: u64,
    hash: Xxh64,
}

const BUFFER_BYTES: usize = 64 << 10;

impl<E: Encode> FileWriter<E> {
    pub(super) fn open(
        disk: Disk,
        layout: Layout,
        context: &WriterContext,
        encode: E,
        rolling: Rolling,
        restored: Vec<Vec<u8>>,
    ) -> Result<Self> {
        let staging = layout.staging(context.generation);
        let mut this = Self {
            disk,
            layout,
            staging,
            generation: context.generation,
            subtask: context.subtask,
            encode,
            rolling,
            number: 0,
            open: None,
            full: Vec::new(),
        };
        const DOING: &str = "opening a writer";
        this.check_fence(DOING)?;
        if !this.staging.is_dir() {
            let reason = format!(
                "{}: missing; the committer makes it when it fences, so open it first",
                this.staging.display()
            );
            return Err(Error::new(DOING, reason));
        }
        for piece in restored {
            let part = Part::decode(&piece)?;
            this.take_over(&part)?;
        }
        Ok(this)
    }

    fn check_fence(&self, doing: &'static str) -> Result<()> {
        match self.layout.newer_fence(self.generation) {
            Ok(None) => Ok(()),
            Ok(Some(newer)) => Err(Error::fenced(doing, newer)),
            Err(error) => Err(Error::new(doing, error)),
        }
    }

    /// An error on disk, or the reason behind it: a directory that a successor has taken away.
    fn explain(&self, doing: &'static str, error: io::Error) -> Error {
        match self.layout.newer_fence(self.generation) {
            Ok(Some(newer)) => Error::fenced(doing, newer),
            _ => Error::new(doing, error),
        }
    }

    /// Copies what counts of an older writer's open file into the one open here. The older writer may
    /// still append to its own, never change what it wrote.
    fn take_over(&mut self, part: &Part) -> Result<()> {
        const DOING: &str = "taking over an open file";
        let path = self.layout.fenced(part.generation).join(&part.name);
        let refused = |reason: String| {
            Error::new(
                DOING,
                format!(
                    "{}: {reason}; its records are in no other place, so restore a checkpoint that \
                     does not name it, or start fresh",
                    path.display()
                ),
            )
        };
        let mut old = File::open(&path).map_err(|error| refused(error.to_string()))?;
        let header = self.encode.header();
        let mut open = self
            .create(None)
            .map_err(|error| self.explain(DOING, error))?;

        let mut hash = Xxh64::new(0);
        let mut old_header = vec![0; header.len()];
        old.read_exact(&mut old_header)
            .map_err(|error| refused(error.to_string()))?;
        if old_header != header {
            return Err(refused("its header is not that of the sink now".to_owned()));
        }
        hash.update(&old_header);
        let mut left = part.length.saturating_sub(header.len() as u64);
        let mut piece = vec![0; BUFFER_BYTES];
        while left > 0 {
            let most = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            let read = match old.read(&mut piece[..most]) {
                Ok(0) => {
                    return Err(refused(format!(
                        "{left} of {} bytes are missing",
                        part.length
                    )));
                }
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::new(DOING, error)),
            };
            left -= read as u64;
            hash.update(&piece[..read]);
            open.buffer.extend_from_slice(&piece[..read]);
            open.flush(&self.disk)
                .map_err(|error| self.explain(DOING, error))?;
        }
        if hash.digest() != part.hash {
            return Err(refused(
                "its bytes are not those that were written".to_owned(),
            ));
        }
        self.open = Some(open);
        Ok(())
    }

    /// The open file, or a new one with its header.
    fn create(&mut self, now: Option<Time>) -> io::Result<Open> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let name = self
            .layout
            .file_name(self.generation, self.subtask, self.number);
        let file = self.disk.create(&self.staging.join(&name))?;
        self.number += 1;
        Ok(Open {
            name,
            file,
            since: now,
            buffer: self.encode.header(),
            length: 0,
            hash: Xxh64::new(0),
        })
    }

    fn part(&self, open: &Open) -> Part {
        Part {
            generation: self.generation,
            name: open.name.clone(),
            length: open.length,
            hash: open.hash.digest(),
        }
    }

    fn is_old(&self, open: &Open, now: Time) -> bool {
        let since = open.since.unwrap_or(now);
        now - since >= self.rolling.age_max
    }

    fn flush_at_barrier(&mut self, now: Time, input: Input) -> io::Result<Vec<Vec<u8>>> {
        let Some(mut open) = self.open.take() else {
            return Ok(Vec::new());
        };
        open.since.get_or_insert(now);
        open.flush(&self.disk)?;
        self.disk.sync(&open.file)?;
        let part = self.part(&open);
        if input == Input::Ended || self.is_old(&open, now) || self.is_full(&open) {
            self.full.push(part);
            return Ok(Vec::new());
        }
        self.open = Some(open);
        Ok(vec![part.encode()])
    }

    fn is_full(&self, open: &Open) -> bool {
        open.length + open.buffer.len() as u64 >= self.rolling.bytes_max
    }
}

impl<E: Encode> Writer for FileWriter<E> {
    type Record = E::Record;

    async fn write(&mut self, now: Time, batch: &mut Vec<E::Record>) -> Result<()> {
        const DOING: &str = "writing to a staged file";
        if batch.is_empty() {
            return Ok(());
        }
        let mut open = self
            .create(Some(now))
            .map_err(|error| self.explain(DOING, error))?;
        open.since.get_or_insert(now);
        self.encode.encode(batch, &mut open.buffer)?;
        batch.clear();
        let is_full = self.is_full(&open);
        if is_full || open.buffer.len() >= BUFFER_BYTES {
            open.flush(&self.disk)
                .map_err(|error| self.explain(DOING, error))?;
        }
        if is_full {
            self.disk
                .sync(&open.file)
                .map_err(|error| self.explain(DOING, error))?;
            self.full.push(self.part(&open));
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    async fn prepare(
        &mut self,
        now: Time,
        checkpoint: CheckpointId,
        input: Input,
    ) -> Result<Flushed> {
        const DOING: &str = "preparing staged files";
        if self.open.is_none() && self.full.is_empty() {
            return Ok(Flushed::default());
        }
        let state = self
            .flush_at_barrier(now, input)
            .and_then(|state| self.disk.sync_directory(&self.staging).map(|()| state))
            .map_err(|error| self.explain(DOING, error))?;
        // A successor that came meanwhile has moved the directory: nothing here can become visible.
        self.check_fence(DOING)?;
        let full = std::mem::take(&mut self.full);
        let tokens = full
            .iter()
            .map(|part| Prepared::new(checkpoint, part.encode()));
        Ok(Flushed::new(tokens.collect()).with_state(state))
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(()) // Names are not used twice, so nothing waits for this.
    }
}

impl Open {
    fn flush(&mut self, disk: &Disk) -> io::Result<()> {
        if !self.buffer.is_empty() {
            disk.write(&mut self.file, &self.buffer)?;
            self.hash.update(&self.buffer);
            self.length += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl<E> fmt::Debug for FileWriter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWriter")
            .field("staging", &Path::new(&self.staging))
            .field("subtask", &self.subtask)
            .field("number", &self.number)
            .field("open", &self.open.as_ref().map(|open| &open.name))
            .finish_non_exhaustive()
    }
}
