//! Files as a split source and as an exactly-once sink.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod sink;
mod source;

pub use sink::{Csv, Encode, FileCommitter, FileSink, FileWriter, JsonLines, Rolling};
pub use source::{
    Compression, FileEnumerator, FileReader, FileSource, FileSplit, Fingerprint, OnBadRecord,
};
