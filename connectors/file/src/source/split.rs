//! A file and how far it has been read, as it stands in a checkpoint.

use cutwater_source::Split;
use serde::{Deserialize, Serialize};

use super::Fingerprint;

/// One file. All counts are as of the position: a replay does not count twice.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileSplit {
    /// The path as the program gave it; also the split's id.
    pub path: String,
    /// What the file was when it was discovered.
    pub fingerprint: Fingerprint,
    /// Offset of the next record, in uncompressed bytes.
    pub offset: u64,
    /// Lines before `offset`.
    pub lines: u64,
    /// Records given out.
    pub records: u64,
    /// Bad records skipped.
    pub skipped: u64,
    /// Whether the end was reached and the fingerprint found unchanged there.
    pub finished: bool,
}

impl FileSplit {
    pub(crate) fn new(path: String, fingerprint: Fingerprint) -> Self {
        Self {
            path,
            fingerprint,
            offset: 0,
            lines: 0,
            records: 0,
            skipped: 0,
            finished: false,
        }
    }
}

impl Split for FileSplit {
    fn id(&self) -> &str {
        &self.path
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
