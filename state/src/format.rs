//! The snapshot format, version 2: what the manifest says and what stands in the files.
//!
//! ```text
//! manifest   "CWSTATE" 2 │ postcard(Manifest) │ crc32c of all before, 4 bytes little-endian
//! file       "CWSTATE" 2 │ section │ section │ …
//! section    entries of one state and one key group, back to back
//! entry      key, namespace (`Key::encode`) │ value (postcard; for list and map see their modules)
//! ```
//!
//! or, of an incremental snapshot,
//!
//! ```text
//! file       "CWSTATE" 2 │ image │ image │ … │ postcard(Vec<Indexed>)
//! image      entries of one block of a state's table; the one in the last file counts
//! ```
//!
//! Sections are listed in the manifest with place, length and checksum, state by state and by
//! rising group, so that a restore reads the ranges it needs and nothing else. Postcard's own
//! format is stable since its 1.0. The order of entries in a section is that of the table and
//! means nothing.
//!
//! Version 1 ([`v1`]) is still read.

mod v1;

use std::fmt;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result};

/// Starts each manifest and file; the last byte is the version.
pub(crate) const MAGIC: &[u8; 8] = b"CWSTATE\x02";

/// What the driver keeps in the checkpoint's metadata, opaque to it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Manifest {
    pub(crate) head: Head,
    pub(crate) files: Vec<File>,
    pub(crate) states: Vec<State>,
    /// Of a snapshot in images the index of each file, oldest file first; of one in sections none.
    pub(crate) indexes: Vec<Index>,
}

/// How each manifest begins, whatever its files are: whose states it is of, and when.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Head {
    pub(crate) checkpoint: u64,
    pub(crate) uid: String,
    pub(crate) max_parallelism: u16,
    /// The owned key groups, `start..end`.
    pub(crate) groups: (u16, u16),
    /// How hashes pick groups.
    pub(crate) grouping: String,
    /// What keys are encoded like (`Key::schema`); empty if it is not known.
    pub(crate) key: String,
    /// Rust's name for the key type, for messages; not compared, as it may change with the compiler.
    pub(crate) key_type: String,
}

impl Head {
    pub(crate) const fn checkpoint(&self) -> CheckpointId {
        CheckpointId::new(self.checkpoint)
    }

    pub(crate) fn groups(&self) -> KeyGroupRange {
        KeyGroupRange::new(self.groups.0, self.groups.1)
    }
}

/// Where the index of a file of images begins; it ends with the file.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Index {
    pub(crate) offset: u64,
    pub(crate) crc32c: u32,
}

/// A file of the snapshot.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) length: u64,
}

/// One declared state. Listed also when it is empty.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) sections: Vec<Section>,
}

/// What the entries of a state look like.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Of the value, or of each element of a list, or of key and value in a map.
    pub(crate) schema: String,
    /// What namespaces are encoded like (`Key::schema`): `()` if there are none.
    pub(crate) namespace: String,
    /// Whether before each element stands when it was last written.
    pub(crate) stamped: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} state of `{}`", self.kind.name(), self.schema)?;
        if self.namespace != "()" {
            write!(f, " in namespaces `{}`", self.namespace)?;
        }
        if self.stamped {
            write!(f, ", expiring")?;
        }
        Ok(())
    }
}

/// The kinds of state, in the order of their numbers in the format.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Kind {
    Value,
    List,
    Map,
    Reducing,
    Aggregating,
    Timers,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::List => "list",
            Self::Map => "map",
            Self::Reducing => "reducing",
            Self::Aggregating => "aggregating",
            Self::Timers => "timer",
        }
    }
}

/// Entries of one state and one key group.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Section {
    pub(crate) group: u16,
    /// Which of the files.
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) entries: u64,
    pub(crate) crc32c: u32,
}

/// `content` with magic, version and checksum around it.
pub(crate) fn sealed(magic: &[u8; 8], content: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(content, magic.to_vec()).map_err(|e| {
        Error::new(ErrorKind::Invalid, "a state cannot be serialised").with_source(e)
    })?;
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    Ok(bytes)
}

/// A manifest of any version that this release reads. `what` is for messages.
pub(crate) fn manifest(bytes: &[u8], what: &str) -> Result<Manifest> {
    if bytes.get(7) == Some(&v1::MAGIC[7]) {
        let manifest: v1::Manifest = unsealed(v1::MAGIC, bytes, what)?;
        return Ok(manifest.into());
    }
    unsealed(MAGIC, bytes, what)
}

/// Undoes [`sealed`]. `what` is for messages.
pub(crate) fn unsealed<T: DeserializeOwned>(
    magic: &[u8; 8],
    bytes: &[u8],
    what: &str,
) -> Result<T> {
    let corrupt = |reason: &str| {
        let message = format!("{what}: {reason}; restore from an older checkpoint");
        Error::new(ErrorKind::Corrupt, message)
    };
    let (content, crc) = bytes
        .split_last_chunk()
        .ok_or_else(|| corrupt("truncated"))?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*crc) {
        return Err(corrupt("the checksum does not match"));
    }
    let (found, content): (&[u8; 8], _) = content
        .split_first_chunk()
        .ok_or_else(|| corrupt("truncated"))?;
    if found[..7] != magic[..7] {
        return Err(corrupt("these are other bytes"));
    }
    if found[7] != magic[7] {
        let message = format!(
            "{what}: format version {}, and this release reads {}; restore with the newer release",
            found[7], magic[7]
        );
        return Err(Error::new(ErrorKind::Incompatible, message));
    }
    let (decoded, rest) = postcard::take_from_bytes(content)
        .map_err(|e| corrupt("it does not decode").with_source(e))?;
    if !rest.is_empty() {
        return Err(corrupt("it is too long"));
    }
    Ok(decoded)
}
