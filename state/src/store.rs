//! Where the files of a snapshot go: what a driver implements.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
};

use crate::BoxError;

/// A file is read in pieces of so many bytes.
const PIECE: usize = 1 << 20;

/// Takes the files that a snapshot consists of: new ones, and some of earlier snapshots again.
///
/// A `BTreeMap` from name to bytes will do for a test: one for all snapshots of a subtask.
///
/// # Contract
///
/// - Names are unique among all checkpoints of an operator: a name stands for the same bytes for ever.
/// - A snapshot consists of the files that were stored or reused for it; all of them are there as long as
///   the checkpoint can be restored from.
/// - If the snapshot fails, what was stored for it may be deleted, and what was reused may not.
pub trait Store {
    /// Stores a new file.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being stored; the snapshot fails with it.
    fn store(&mut self, file: NewFile) -> Result<(), BoxError>;

    /// Makes a file that a confirmed snapshot consists of one of this snapshot too; `false` if there is
    /// no such file, as its checkpoint may no longer be retained if later confirmations were lost.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store).
    fn reuse(&mut self, name: &str) -> Result<bool, BoxError>;
}

impl Store for BTreeMap<String, Vec<u8>> {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        self.insert(file.name, file.content.into_bytes()?);
        Ok(())
    }

    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        Ok(self.contains_key(name))
    }
}

/// A function that stores a file, and has none to reuse: for states that are not told of confirmations
/// ([`confirmed`](crate::KeyedStates::confirmed)), and so store each snapshot whole. Of others, a snapshot that is to
/// name files again fails as [`Outdated`](crate::ErrorKind::Outdated).
impl<F: FnMut(NewFile) -> Result<(), BoxError>> Store for F {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        self(file)
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }
}

/// A file to store.
#[derive(Debug)]
#[non_exhaustive]
pub struct NewFile {
    /// A name without separators, such as `keyed-42-0`.
    pub name: String,
    /// How many bytes it has.
    pub length: u64,
    /// The bytes.
    pub content: Content,
}

impl NewFile {
    pub(crate) fn new(name: String, bytes: Vec<u8>) -> Self {
        Self {
            name,
            length: bytes.len() as u64,
            content: Content(Source::Bytes(bytes)),
        }
    }

    /// A file whose bytes are read while it is stored, such as one on a local disk.
    pub fn read_from(name: String, length: u64, reader: impl Read + Send + 'static) -> Self {
        Self {
            name,
            length,
            content: Content(Source::Reader(Box::new(reader))),
        }
    }
}

/// The bytes of a new file, piece by piece: all at once if they are in memory, or else a mebibyte at a time.
pub struct Content(Source);

enum Source {
    /// All that is left.
    Bytes(Vec<u8>),
    Reader(Box<dyn Read + Send>),
}

impl Content {
    /// All of them at once.
    ///
    /// # Errors
    ///
    /// Those of reading them.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Source::Bytes(bytes) => Ok(bytes),
            Source::Reader(mut reader) => {
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Iterator for Content {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = match &mut self.0 {
            Source::Bytes(bytes) => Ok(std::mem::take(bytes)),
            Source::Reader(reader) => {
                let mut piece = Vec::with_capacity(PIECE);
                let read = reader.by_ref().take(PIECE as u64).read_to_end(&mut piece);
                read.map(|_| piece)
            }
        };
        match piece {
            Ok(piece) if piece.is_empty() => None,
            piece => Some(piece),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_comes_in_pieces_and_a_small_one_whole() {
        let bytes = b"0123456".repeat(PIECE * 2 / 7 + 1);
        let lengths = |file: NewFile| {
            let pieces: Vec<Vec<u8>> = file.content.collect::<io::Result<_>>().unwrap();
            assert_eq!(pieces.concat(), bytes);
            pieces.iter().map(Vec::len).collect::<Vec<_>>()
        };
        let reader = io::Cursor::new(bytes.clone());
        let read = NewFile::read_from("a".to_owned(), bytes.len() as u64, reader);
        assert_eq!(lengths(read), [PIECE, PIECE, bytes.len() - 2 * PIECE]);
        let whole = NewFile::new("a".to_owned(), bytes.clone());
        assert_eq!(lengths(whole), [bytes.len()]);
    }
}
