//! A bounded source over files: one split per file.

mod decode;
mod fingerprint;
mod frame;
mod input;
mod reader;
mod split;

use std::{
    collections::BTreeSet,
    fmt,
    marker::PhantomData,
    path::{Path, PathBuf},
};

use cutwater_source::{
    Assignment, Discovery, Enumerator, Error, ErrorKind, ReaderContext, Result, Source,
};
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    fingerprint::Fingerprint, input::Compression, reader::FileReader, split::FileSplit,
};

/// Reads files of CSV rows or JSON lines as records of type `T`, one split per file.
///
/// A position is a number of records and an offset in the *uncompressed* bytes. A plain file is
/// resumed by seeking; a compressed one by decompressing from its start, without parsing, up to the
/// offset.
///
/// A file must stay as it is until the job has read it: its [`Fingerprint`] is taken when it is
/// discovered and compared when reading starts, at every restore, and at its end.
///
/// In CSV the first row is the header; `T` is deserialized by its names. A `T` of
/// `BTreeMap<String, String>` takes any header. A quoted field may span lines. Blank lines are
/// passed over in both formats.
pub struct FileSource<T> {
    options: Options,
    paths: Vec<PathBuf>,
    record: PhantomData<fn() -> T>,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    format: Format,
    compression: Option<Compression>,
    on_bad_record: OnBadRecord,
    record_bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Csv { delimiter: u8 },
    JsonLines,
}

/// What to do with a record that cannot be understood.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnBadRecord {
    /// Fail the attempt with file, line and reason. The position stays before the record.
    #[default]
    Fail,
    /// Report file, line and reason as a `tracing` warning, count it in [`FileSplit::skipped`], and
    /// go on. The count is part of the position, so a replayed record counts once.
    Skip,
}

/// The longest record unless [`FileSource::record_bytes_max`] says otherwise.
const RECORD_BYTES_MAX: usize = 16 << 20;

impl<T> FileSource<T> {
    /// CSV files with a header row.
    pub fn csv<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::new(Format::Csv { delimiter: b',' }, paths)
    }

    /// Files with one JSON value per line.
    pub fn json_lines<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::new(Format::JsonLines, paths)
    }

    fn new<P: Into<PathBuf>>(format: Format, paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            options: Options {
                format,
                compression: None,
                on_bad_record: OnBadRecord::default(),
                record_bytes_max: RECORD_BYTES_MAX,
            },
            paths: paths.into_iter().map(Into::into).collect(),
            record: PhantomData,
        }
    }

    /// What separates the fields of a CSV row; a comma by default. JSON lines have none.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        if let Format::Csv { delimiter: current } = &mut self.options.format {
            *current = delimiter;
        }
        self
    }

    /// How all files are compressed. By default the extension says it: `.gz`, `.zst`, else plain.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.options.compression = Some(compression);
        self
    }

    /// What to do with a bad record; [`OnBadRecord::Fail`] by default.
    #[must_use]
    pub fn on_bad_record(mut self, on_bad_record: OnBadRecord) -> Self {
        self.options.on_bad_record = on_bad_record;
        self
    }

    /// The longest record, in bytes; 16 MiB by default. A longer one is bad: without a bound a quote
    /// that is never closed would take the rest of the file into memory.
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.options.record_bytes_max = bytes;
        self
    }
}

impl<T> fmt::Debug for FileSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("options", &self.options)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl<T> Clone for FileSource<T> {
    fn clone(&self) -> Self {
        Self {
            options: self.options.clone(),
            paths: self.paths.clone(),
            record: PhantomData,
        }
    }
}

impl<T: Clone + Send + Serialize + DeserializeOwned + 'static> Source for FileSource<T> {
    type Record = T;
    type Split = FileSplit;
    type Enumerator = FileEnumerator;
    type Reader = FileReader<T>;

    fn assignment(&self) -> Assignment {
        Assignment::OnRequest
    }

    fn enumerator(&self, _: Option<&[u8]>) -> Result<FileEnumerator> {
        let ids = self
            .paths
            .iter()
            .map(|path| id_of(path))
            .collect::<Result<_>>()?;
        Ok(FileEnumerator { ids })
    }

    fn reader(&self, _: ReaderContext) -> Result<FileReader<T>> {
        Ok(FileReader::new(self.options.clone()))
    }
}

/// A split's id is its path as the program wrote it.
fn id_of(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(id) => Ok(id.to_owned()),
        None => Err(Error::new(
            ErrorKind::Invalid,
            format!("the path {path:?} is not UTF-8; rename the file"),
        )),
    }
}

/// Takes the fingerprints of the files it was given.
#[derive(Debug)]
pub struct FileEnumerator {
    ids: Vec<String>,
}

impl Enumerator for FileEnumerator {
    type Split = FileSplit;

    fn discover(&mut self, known: &BTreeSet<String>) -> Result<Discovery<FileSplit>> {
        let mut splits: Vec<FileSplit> = Vec::new();
        for id in &self.ids {
            if known.contains(id) {
                continue;
            }
            if splits.iter().any(|split| split.path == *id) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("the file {id} is given twice; name each file once"),
                ));
            }
            let fingerprint = Fingerprint::take(Path::new(id)).map_err(|error| {
                let kind = match error.kind() {
                    std::io::ErrorKind::InvalidInput => ErrorKind::Invalid,
                    _ => ErrorKind::Io,
                };
                Error::new(
                    kind,
                    format!(
                        "cannot read the input file {id}: {error}; check its path and permissions"
                    ),
                )
                .with_source(error)
            })?;
            splits.push(FileSplit::new(id.clone(), fingerprint));
        }
        Ok(Discovery::complete(splits))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}
