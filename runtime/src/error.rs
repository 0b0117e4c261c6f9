//! One error for the runtime: whether a restart can help, and what went wrong where.

use std::{error, fmt};

use cutwater_storage::ErrorKind as StoreErrorKind;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of a user function.
pub type BoxError = Box<dyn error::Error + Send + Sync>;

/// A job could not be built, started or kept running.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<BoxError>,
}

/// What the caller can do. The supervisor asks the same: it restarts after [`Failed`](Self::Failed)
/// and nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The job's program is wrong: two operators with one uid, for example. Change the program.
    Build,
    /// The checkpoint and the job do not fit. Change the job, the settings or the checkpoint named.
    Restore,
    /// A newer generation has taken over. Leave it the field: do not restart.
    Fenced,
    /// The sink's target no longer has a transaction that the checkpoint promised. Data is missing
    /// there: somebody has to look before the job goes on.
    Lost,
    /// The input is not what it should be: a malformed record, a file that is gone or another. It
    /// would be no better the next time. Mend the input, or have the source skip bad records.
    BadInput,
    /// Something failed that may work when tried again: an operator, the store, a sink.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Error {
    /// An error of `kind`; `message` names the object, the reason and the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(self, source: impl Into<BoxError>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_worth_a_restart(&self) -> bool {
        self.kind == ErrorKind::Failed
    }

    /// The whole chain in one line, for a log or a terminal.
    pub fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut source = error::Error::source(self);
        while let Some(error) = source {
            line += &format!(": {error}");
            source = error.source();
        }
        line
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
        Some(&**self.source.as_ref()?)
    }
}

/// A failure of the checkpoint store in the runtime's words.
pub(crate) fn store_error(what: &'static str) -> impl Fn(cutwater_storage::Error) -> Error {
    move |error| {
        let kind = match error.kind() {
            StoreErrorKind::Fenced { .. } => ErrorKind::Fenced,
            StoreErrorKind::Io => ErrorKind::Failed,
            _ => ErrorKind::Restore,
        };
        let message = match error.kind() {
            StoreErrorKind::Fenced { newer } => format!(
                "generation {newer} has taken over this checkpoint directory; this process stops \
                 and leaves it the field"
            ),
            _ => format!("the checkpoint store {what}"),
        };
        Error::new(kind, message).with_source(error)
    }
}

/// States are declared in `open`, where `?` should do: what does not fit or is damaged is a failed
/// restore, the rest may work another time.
impl From<cutwater_state::Error> for Error {
    fn from(error: cutwater_state::Error) -> Self {
        let kind = match error.kind() {
            cutwater_state::ErrorKind::Io if !is_damaged(&error) => ErrorKind::Failed,
            _ => ErrorKind::Restore,
        };
        Self::new(kind, "a state could not be opened").with_source(error)
    }
}

/// Whether the store has found an object that is not what was written.
fn is_damaged(error: &(dyn error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let stored = error.downcast_ref::<cutwater_storage::Error>();
        if stored.is_some_and(|stored| stored.kind() == StoreErrorKind::Corrupt) {
            return true;
        }
        next = error.source();
    }
    false
}
