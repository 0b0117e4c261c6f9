//! One error for every source. Its kind says what the reader of the message can do.

use std::{error, fmt};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reading failed. The message names the object, the reason and the remedy.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// What can be done about an [`Error`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The outside failed. Trying again can succeed.
    Io,
    /// The input could not be understood. It fails again on every attempt until it is repaired, or
    /// until the source is told to skip bad records.
    BadInput,
    /// The input is not what the checkpoint recorded. Going on would lose or double records.
    Changed,
    /// The bytes to restore are not what this source wrote.
    Corrupt,
    /// The source was set up wrongly.
    Invalid,
}

impl Error {
    /// An error of `kind`. `message` is one line: the object, the reason, the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    /// What can be done.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    /// One line without the source: whoever reports the error walks `source()`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn error::Error + 'static))
    }
}
