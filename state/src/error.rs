//! One error for the crate: what the caller can do about it, then what went wrong and the remedy.

use std::{borrow::Cow, error, fmt};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of somebody else: of the driver's file access, of serde.
pub type BoxError = Box<dyn error::Error + Send + Sync>;

/// A state operation failed. The message names the operator, the state, the reason and the remedy.
///
/// One pointer wide, since it is the rare half of what every access to a state returns.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<BoxError>,
}

/// What the caller can do. Two errors that are handled alike have the same kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stored bytes are not what was written. Restore from an older checkpoint.
    Corrupt,
    /// The files under a snapshot could not be written or read. Fail the task; a restart may succeed.
    Io,
    /// The snapshot holds another operator, kind, key type, schema or format version. Do not retry;
    /// restore with the program that wrote it, or leave this state out.
    Incompatible,
    /// The program declares its states wrongly. Do not retry; mend the program.
    Invalid,
    /// The snapshot was to name files of an earlier one that is no longer retained, as several checkpoints
    /// were under way. Decline the checkpoint; the next snapshot stores everything.
    Outdated,
    /// The key belongs to another task: its hash is not stable, or the record was misrouted.
    WrongGroup,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    #[must_use]
    pub(crate) fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    /// One line without the source: whoever reports the error walks `source()`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.kind {
            ErrorKind::Corrupt => "corrupt state",
            ErrorKind::Io => "state files failed",
            ErrorKind::Incompatible => "incompatible snapshot",
            ErrorKind::Invalid => "invalid declaration",
            ErrorKind::Outdated => "outdated snapshot",
            ErrorKind::WrongGroup => "key of another task",
        };
        write!(f, "{kind}: {}", self.0.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&**self.0.source.as_ref()?)
    }
}
