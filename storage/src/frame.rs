//! The frame around everything that is stored: what it is, how long, and whether it is intact.
//!
//! ```text
//! 0     4      5         7        15           15 + length
//! "CTWR" kind  version   length   payload …    xxh64 of all before, seed 0
//!        u8    u16       u64                   u64
//! ```
//!
//! Numbers are little-endian. The frame itself has no version: a later release may change what is
//! inside, under a higher `version`, and an older one still tells "newer" from "corrupt".

use bytes::Bytes;
use xxhash_rust::xxh64::xxh64;

use crate::{Error, ErrorKind, Result};

const MAGIC: [u8; 4] = *b"CTWR";
const HEADER: usize = 15;
const CHECKSUM: usize = 8;

/// What is in a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Metadata = 1,
    LogEntry = 2,
}

/// Frames `payload`.
pub(crate) fn encode(kind: Kind, version: u16, payload: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(HEADER + payload.len() + CHECKSUM);
    frame.extend(MAGIC);
    frame.push(kind as u8);
    frame.extend(version.to_le_bytes());
    frame.extend((payload.len() as u64).to_le_bytes());
    frame.extend(payload);
    frame.extend(xxh64(&frame, 0).to_le_bytes());
    frame.into()
}

/// The version and payload of the frame that is the object `path`.
///
/// # Errors
///
/// `Corrupt` if it is not exactly one intact frame of `kind`; `Incompatible` if it is one of a
/// version above `newest`.
pub(crate) fn decode(kind: Kind, newest: u16, frame: &Bytes, path: &str) -> Result<(u16, Bytes)> {
    let corrupt = |offset, reason| Err(Error::corrupt(path, reason).at(offset));
    if frame.len() < HEADER + CHECKSUM {
        return corrupt(frame.len() as u64, "ends too early to be anything of ours");
    }
    if frame[..4] != MAGIC {
        return corrupt(0, "does not begin as everything of ours does");
    }
    let (body, checksum) = frame.split_at(frame.len() - CHECKSUM);
    if u64::from_le_bytes(array(&body[7..HEADER])) != (body.len() - HEADER) as u64 {
        return corrupt(7, "is not as long as it says");
    }
    if xxh64(body, 0) != u64::from_le_bytes(array(checksum)) {
        return corrupt(0, "its bytes do not match their checksum");
    }
    if body[4] != kind as u8 {
        return corrupt(4, "is intact, but something else than its name says");
    }
    let version = u16::from_le_bytes(array(&body[5..7]));
    if version == 0 || version > newest {
        let reason = format!(
            "has format version {version}, and this release reads up to {newest}: use a newer one"
        );
        return Err(Error::new(ErrorKind::Incompatible, path, reason));
    }
    Ok((version, frame.slice(HEADER..body.len())))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("sliced to this length")
}
