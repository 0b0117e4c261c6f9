//! One error for everything that touches a store: what the caller can do, and which object it is about.

use std::{error, fmt};

use cutwater_barrier::Generation;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A storage operation failed. `Display` names the object, the reason and, where there is one, the
/// remedy, in one line; the cause underneath is in [`source`](error::Error::source).
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    object: String,
    reason: String,
    offset: Option<u64>,
    without_effect: bool,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// What the caller can do. Two errors that are handled alike have the same kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store failed or is full. Fail the checkpoint or the attempt; a later try may succeed.
    Io,
    /// Stored bytes are not what was written, or are gone. Retrying does not help; see
    /// [`fallback`](crate::CheckpointStore::fallback).
    Corrupt,
    /// The object was written by a release or with a layout that this one cannot read.
    Incompatible,
    /// The store cannot keep a promise that [`Blobs`](crate::Blobs) makes. Choose another store.
    Unsupported,
    /// Another process has taken over. Stop; commit and delete nothing more.
    Fenced {
        /// The generation that took over.
        newer: Generation,
    },
    /// The checkpoint asked for is not there: it was never completed, or retention has dropped it.
    NotFound,
    /// The call is against the rules of this crate, e.g. a checkpoint completed twice.
    Misuse,
}

impl Error {
    /// An error of `kind` about `object` (a path or a checkpoint), for the `reason`.
    pub fn new(kind: ErrorKind, object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kind,
            object: object.into(),
            reason: reason.into(),
            offset: None,
            without_effect: false,
            source: None,
        }
    }

    pub(crate) fn corrupt(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, object, reason)
    }

    /// Says at which byte of the object the fault is.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self {
            offset: Some(offset),
            ..self
        }
    }

    /// Promises that the failed call changed nothing and never will. Without this, a failed
    /// `create` may still have taken effect, and the checkpoint log has to find out.
    #[must_use]
    pub fn without_effect(self) -> Self {
        Self {
            without_effect: true,
            ..self
        }
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    /// Whether a newer generation has taken over: step down.
    pub fn is_fenced(&self) -> bool {
        matches!(self.kind, ErrorKind::Fenced { .. })
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The path of the object, or the name of the checkpoint, that the error is about.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// The byte of the object at which the fault is, where one is known. A checksum covers a block
    /// (or a whole small object), so this is where that block starts.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Whether the failed call surely changed nothing.
    pub fn is_without_effect(&self) -> bool {
        self.without_effect
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object)?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}
