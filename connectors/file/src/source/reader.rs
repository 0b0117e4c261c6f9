//! Reads its files one after the other, and knows where it is.

use std::{collections::VecDeque, fmt, io, marker::PhantomData, path::Path};

use cutwater_barrier::CheckpointId;
use cutwater_source::{Error, ErrorKind, Reader, Result, Status};
use serde::de::DeserializeOwned;

use super::{
    Compression, FileSplit, Format, OnBadRecord, Options,
    decode::Decoder,
    frame::{Frame, Frames},
    input,
};

/// A reader of one subtask. One file is open at a time.
pub struct FileReader<T> {
    options: Options,
    open: Option<OpenFile>,
    waiting: VecDeque<FileSplit>,
    finished: Vec<FileSplit>,
    no_more: bool,
    record: PhantomData<fn() -> T>,
}

struct OpenFile {
    split: FileSplit,
    frames: Frames,
    /// `None` before the header of a CSV file.
    decoder: Option<Decoder>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<T> FileReader<T> {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            open: None,
            waiting: VecDeque::new(),
            finished: Vec::new(),
            no_more: false,
            record: PhantomData,
        }
    }

    /// Bad records skipped so far in the splits of this reader, restored ones included.
    pub fn skipped(&self) -> u64 {
        self.splits().map(|split| split.skipped).sum()
    }

    fn splits(&self) -> impl Iterator<Item = &FileSplit> {
        let open = self.open.iter().map(|open| &open.split);
        self.finished.iter().chain(open).chain(&self.waiting)
    }
}

impl<T: DeserializeOwned + 'static> Reader for FileReader<T> {
    type Record = T;
    type Split = FileSplit;

    fn add_splits(&mut self, splits: Vec<FileSplit>) -> Result<()> {
        for split in splits {
            split.fingerprint.check(&split.path, "before it is read")?;
            if split.finished {
                self.finished.push(split);
            } else {
                self.waiting.push_back(split);
            }
        }
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more = true;
    }

    fn poll_batch(&mut self, out: &mut Vec<T>, max: usize) -> Result<Status> {
        let full = out.len().saturating_add(max);
        while out.len() < full {
            let open = match &mut self.open {
                Some(open) => open,
                None => match self.waiting.pop_front() {
                    Some(split) => self.open.insert(OpenFile::open(split, &self.options)?),
                    None => break,
                },
            };
            if !open.read(out, full, self.options.on_bad_record)? {
                let open = self.open.take().expect("a file is open");
                self.finished.push(open.split);
            }
        }
        Ok(if self.open.is_some() || !self.waiting.is_empty() {
            Status::More
        } else if self.no_more {
            Status::Finished
        } else {
            Status::Drained
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<FileSplit>> {
        Ok(self.splits().cloned().collect())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> Result<()> {
        Ok(()) // Nobody outside waits for an acknowledgement.
    }
}

impl OpenFile {
    fn open(split: FileSplit, options: &Options) -> Result<Self> {
        let path = Path::new(&split.path);
        let compression = options.compression.unwrap_or_else(|| Compression::of(path));
        let open = |offset, csv| {
            input::open(path, compression, offset, split.fingerprint.length)
                .map(|bytes| Frames::new(bytes, csv, options.record_bytes_max))
        };
        let (frames, decoder) = match options.format {
            Format::JsonLines => (open(split.offset, None), Some(Decoder::JsonLines)),
            Format::Csv { delimiter } => {
                let csv = Some(delimiter);
                // On a restore the header is read once more; a position after it is recorded.
                let decoder = if split.offset == 0 {
                    None
                } else {
                    let header = open(0, csv).and_then(|mut frames| header(&mut frames, delimiter));
                    Some(header.map_err(|error| unreadable(&split, error))?.0)
                };
                (open(split.offset, csv), decoder)
            }
        };
        let frames = frames.map_err(|error| unreadable(&split, error))?;
        let mut this = Self {
            split,
            frames,
            decoder,
        };
        if let (None, Format::Csv { delimiter }) = (&this.decoder, options.format) {
            let (decoder, bytes, lines) = header(&mut this.frames, delimiter)
                .map_err(|error| unreadable(&this.split, error))?;
            this.decoder = Some(decoder);
            this.split.offset = bytes;
            this.split.lines = lines;
        }
        Ok(this)
    }

    /// Reads until `out` holds `full` records. False at the end of the file.
    fn read<T: DeserializeOwned>(
        &mut self,
        out: &mut Vec<T>,
        full: usize,
        on_bad_record: OnBadRecord,
    ) -> Result<bool> {
        let Self {
            split,
            frames,
            decoder,
        } = self;
        let decoder = decoder.as_mut().expect("opening reads the header");
        while out.len() < full {
            let Some(frame) = frames.next().map_err(|error| unreadable(split, error))? else {
                split.fingerprint.check(&split.path, "at its end")?;
                split.finished = true;
                return Ok(false);
            };
            if frame.is_cut {
                // A last line without an end may be half of one in a file that was truncated.
                split.fingerprint.check(&split.path, "at its end")?;
            }
            let content = match split.offset {
                0 => frame
                    .content
                    .strip_prefix(BYTE_ORDER_MARK)
                    .unwrap_or(frame.content),
                _ => frame.content,
            };
            let record = match frame.problem {
                Some(problem) => Err(problem.to_owned()),
                None if content.is_empty() => {
                    pass(split, &frame);
                    continue;
                }
                None => decoder.decode(content),
            };
            match record {
                Ok(record) => {
                    pass(split, &frame);
                    split.records += 1;
                    out.push(record);
                }
                Err(reason) => {
                    let (path, line) = (&split.path, split.lines + 1);
                    match on_bad_record {
                        OnBadRecord::Fail => {
                            return Err(Error::new(
                                ErrorKind::BadInput,
                                format!(
                                    "bad record in {path}, line {line}: {reason}; repair the file and \
                                     start fresh, or skip bad records"
                                ),
                            ));
                        }
                        OnBadRecord::Skip => {
                            tracing::warn!(file = %path, line, %reason, "skipped a bad record");
                        }
                    }
                    pass(split, &frame);
                    split.skipped += 1;
                }
            }
        }
        Ok(true)
    }
}

/// Moves the position behind `frame`.
fn pass(split: &mut FileSplit, frame: &Frame<'_>) {
    split.offset += frame.bytes;
    split.lines += frame.lines;
}

/// The decoder for the header that comes next, with the bytes and lines passed.
fn header(frames: &mut Frames, delimiter: u8) -> io::Result<(Decoder, u64, u64)> {
    let (mut bytes, mut lines) = (0, 0);
    while let Some(frame) = frames.next()? {
        let content = match bytes {
            0 => frame
                .content
                .strip_prefix(BYTE_ORDER_MARK)
                .unwrap_or(frame.content),
            _ => frame.content,
        };
        bytes += frame.bytes;
        lines += frame.lines;
        if let Some(problem) = frame.problem {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("header: {problem}"),
            ));
        }
        if !content.is_empty() {
            return Ok((Decoder::csv(delimiter, content), bytes, lines));
        }
    }
    Ok((Decoder::csv(delimiter, &[]), bytes, lines))
}

/// The file cannot be read on: because it is another one now, or because it was never whole.
fn unreadable(split: &FileSplit, error: io::Error) -> Error {
    if let Err(changed) = split.fingerprint.check(&split.path, "while it is read") {
        return changed;
    }
    let damaged = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
    );
    let (kind, remedy) = if damaged {
        (
            ErrorKind::BadInput,
            "replace the file by a whole one and start fresh",
        )
    } else {
        (ErrorKind::Io, "check the disk and try again")
    };
    Error::new(
        kind,
        format!(
            "cannot read {} after line {} (uncompressed byte {}): {error}; {remedy}",
            split.path, split.lines, split.offset
        ),
    )
    .with_source(error)
}

impl<T> fmt::Debug for FileReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("splits", &self.splits().collect::<Vec<_>>())
            .field("no_more", &self.no_more)
            .finish_non_exhaustive()
    }
}
