//! Flushes as sorted files, which databases take over as they are.

use std::{fs, path::PathBuf};

use rocksdb::{IngestExternalFileOptions, SstFileWriter};

use super::{failed, folder::Folder, part::Part};
use crate::{BoxError, Ingest};

/// Rows are asked for their file's size once in so many.
const OFTEN: u32 = 1024;

/// A batch of changes that is being written, to files for each of the databases.
pub(super) struct Ingesting<'a> {
    parts: &'a [Part],
    folder: &'a Folder,
    /// The files being written, and for which of the databases.
    open: Option<(usize, SortedFiles<'a>)>,
    finished: Vec<SortedFiles<'a>>,
}

impl<'a> Ingesting<'a> {
    pub(super) fn new(parts: &'a [Part], folder: &'a Folder) -> Self {
        Self {
            parts,
            folder,
            open: None,
            finished: Vec::new(),
        }
    }

    /// The files for a key, which comes after all keys before.
    fn files(&mut self, key: &[u8]) -> Result<&mut SortedFiles<'a>, BoxError> {
        let is_past = |number: usize| *key >= self.parts[number].groups.end().to_be_bytes()[..];
        if self
            .open
            .as_ref()
            .is_none_or(|&(number, _)| is_past(number))
        {
            let number = (0..self.parts.len()).find(|&number| !is_past(number));
            let number = number.ok_or("a row of a key group that is not owned")?;
            let files = SortedFiles::new(&self.parts[number], self.folder);
            let before = self.open.replace((number, files));
            self.finished.extend(before.map(|(_, files)| files));
        }
        let (_, files) = self.open.as_mut().expect("opened above if missing");
        Ok(files)
    }
}

impl Ingest for Ingesting<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoxError> {
        self.files(key)?.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), BoxError> {
        self.files(key)?.delete(key)
    }

    fn finish(mut self: Box<Self>) -> Result<(), BoxError> {
        self.finished
            .extend(self.open.take().map(|(_, files)| files));
        // All files are whole before any of them is taken over.
        self.finished.iter_mut().try_for_each(SortedFiles::finish)?;
        self.finished
            .iter_mut()
            .try_for_each(SortedFiles::take_over)
    }
}

/// Sorted files for one database. What is not taken over is removed.
pub(super) struct SortedFiles<'a> {
    part: &'a Part,
    folder: &'a Folder,
    /// The one being written.
    writer: Option<SstFileWriter<'a>>,
    /// Rows until it is asked for its size.
    until: u32,
    paths: Vec<PathBuf>,
}

impl<'a> SortedFiles<'a> {
    pub(super) fn new(part: &'a Part, folder: &'a Folder) -> Self {
        Self {
            part,
            folder,
            writer: None,
            until: 0,
            paths: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoxError> {
        let put = self.writer()?.put(key, value);
        put.map_err(|error| failed("writing a sorted file", error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), BoxError> {
        let deleted = self.writer()?.delete(key);
        deleted.map_err(|error| failed("writing a sorted file", error))
    }

    /// What the next row is to be written to.
    fn writer(&mut self) -> Result<&mut SstFileWriter<'a>, BoxError> {
        self.until = self.until.saturating_sub(1);
        if self.until == 0 {
            self.until = OFTEN;
            let file_size = self.part.shared.options().file_size;
            let is_full = |writer: &SstFileWriter<'_>| writer.file_size() >= file_size;
            if self.writer.as_ref().is_some_and(is_full) {
                self.finish()?;
            }
        }
        if self.writer.is_none() {
            let path = self.folder.path("flush");
            let writer = SstFileWriter::create(self.part.shared.sorted_files());
            self.paths.push(path.clone());
            let opened = writer.open(&path);
            opened.map_err(|error| failed("starting a sorted file", error))?;
            self.writer = Some(writer);
        }
        Ok(self.writer.as_mut().expect("opened above if missing"))
    }

    /// Ends the file that is being written.
    fn finish(&mut self) -> Result<(), BoxError> {
        let finished = self.writer.take().map_or(Ok(()), |mut file| file.finish());
        finished.map_err(|error| failed("finishing a sorted file", error))
    }

    /// Makes the rows in the files those of the database.
    pub(super) fn take_over(&mut self) -> Result<(), BoxError> {
        self.finish()?;
        if self.paths.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let ingested = self
            .part
            .db
            .ingest_external_file_opts(&options, self.paths.clone());
        ingested.map_err(|error| failed("ingesting sorted files", error))
    }
}

impl Drop for SortedFiles<'_> {
    fn drop(&mut self) {
        self.writer = None;
        for path in &self.paths {
            let _it_was_taken_over = fs::remove_file(path);
        }
    }
}
