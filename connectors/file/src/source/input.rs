//! The uncompressed bytes of a file from an offset on.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use flate2::read::MultiGzDecoder;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, also of several members, as concatenated or appended files have.
    Gzip,
    /// Zstandard, also of several frames.
    Zstd,
}

impl Compression {
    /// By the extension: `.gz`, `.zst` or `.zstd`, else plain.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Opens `path` at `offset` of its uncompressed bytes. Of a plain file no more than `length` bytes are
/// read: what was appended since its discovery is not input.
pub(crate) fn open(
    path: &Path,
    compression: Compression,
    offset: u64,
    length: u64,
) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    if compression == Compression::Plain {
        file.seek(SeekFrom::Start(offset))?;
        return Ok(Box::new(file.take(length.saturating_sub(offset))));
    }
    let file = BufReader::with_capacity(64 << 10, file);
    let mut bytes: Box<dyn Read + Send> = match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        _ => Box::new(zstd::Decoder::with_buffer(file)?),
    };
    let skipped = io::copy(&mut (&mut bytes).take(offset), &mut io::sink())?;
    if skipped < offset {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("it ends after {skipped} uncompressed bytes, before the position {offset}"),
        ));
    }
    Ok(bytes)
}
