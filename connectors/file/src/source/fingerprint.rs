//! Whether a file is still the one that was discovered.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use cutwater_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::Xxh64;

/// A file's length and a hash of its bytes, as they are on disk (compressed, if it is).
///
/// Up to 64 MiB every byte is hashed. Of a longer file 64 blocks of 1 MiB are, spread evenly from the
/// first byte to the last. So any change of a file up to 64 MiB is seen, of a longer one any change of
/// its length or within a block; an edit in place elsewhere is not. Times and inode numbers do not
/// count: a file may be copied back from a backup.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fingerprint {
    /// Length in bytes.
    pub length: u64,
    /// XXH64, seed 0, of the hashed bytes.
    pub hash: u64,
}

const BLOCK_BYTES: u64 = 1 << 20;
const BLOCKS: u64 = 64;

impl Fingerprint {
    /// The fingerprint of the regular file at `path`.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file, so it could not be read again after a failure",
            ));
        }
        let length = metadata.len();
        let mut hash = Xxh64::new(0);
        let mut buffer = vec![0; 64 << 10];
        for (start, bytes) in blocks(length) {
            file.seek(SeekFrom::Start(start))?;
            let mut block = (&mut file).take(bytes);
            loop {
                let read = block.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                hash.update(&buffer[..read]);
            }
        }
        Ok(Self {
            length,
            hash: hash.digest(),
        })
    }

    /// Refuses a file that is missing or another one. `when` says at what point it was looked at.
    pub(crate) fn check(&self, path: &str, when: &str) -> Result<()> {
        let changed = |found: String| {
            Error::new(
                ErrorKind::Changed,
                format!(
                    "the input file {path} {found} {when}, but had {} bytes with hash {:016x} when it \
                     was discovered; put the original back and restart, or start the job fresh",
                    self.length, self.hash
                ),
            )
        };
        match Self::take(Path::new(path)) {
            Ok(found) if found == *self => Ok(()),
            Ok(found) if found.length < self.length => {
                Err(changed(format!("is shorter, {} bytes,", found.length)))
            }
            Ok(found) if found.length > self.length => {
                Err(changed(format!("is longer, {} bytes,", found.length)))
            }
            Ok(found) => Err(changed(format!(
                "has other content, with hash {:016x},",
                found.hash
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(changed("is missing".to_owned()).with_source(error))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(changed("is no regular file".to_owned()).with_source(error))
            }
            Err(error) => Err(Error::new(
                ErrorKind::Io,
                format!("cannot read the input file {path} {when}; check it and try again"),
            )
            .with_source(error)),
        }
    }
}

/// Start and length of each hashed block.
fn blocks(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let whole = length <= BLOCKS * BLOCK_BYTES;
    let count = if whole { 1 } else { BLOCKS };
    (0..count).map(move |index| {
        if whole {
            (0, length)
        } else {
            let last = u128::from(length - BLOCK_BYTES);
            let start = last * u128::from(index) / u128::from(BLOCKS - 1);
            (u64::try_from(start).expect("at most length"), BLOCK_BYTES)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_reach_from_the_first_byte_to_the_last() {
        for length in [64 * BLOCK_BYTES + 1, 65 * BLOCK_BYTES, 1 << 40] {
            let blocks: Vec<_> = blocks(length).collect();
            assert_eq!(blocks.len(), 64);
            assert_eq!(blocks[0].0, 0);
            assert_eq!(blocks[63].0 + blocks[63].1, length);
            assert!(blocks.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        assert_eq!(blocks(5).collect::<Vec<_>>(), [(0, 5)]);
        assert_eq!(blocks(0).collect::<Vec<_>>(), [(0, 0)]);
    }
}
