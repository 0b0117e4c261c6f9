//! An exactly-once sink of files that appear whole, each in one step, when their checkpoint is complete.

mod committer;
mod disk;
mod encode;
mod layout;
mod part;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::PathBuf, time::Duration};

use cutwater_sink_2pc::{CommitterContext, Error, Guarantee, Result, Sink, WriterContext};

pub use self::{
    committer::FileCommitter,
    encode::{Csv, Encode, JsonLines},
    writer::FileWriter,
};
use self::{disk::Disk, layout::Layout};

/// Writes files into one directory. A file is visible whole or not at all, and only once the
/// checkpoint that closed it is complete.
///
/// # Names
///
/// `<job>.<uid>-<generation>-<subtask>-<number>.<extension>`, with the numbers padded by zeros to 10,
/// 5 and 10 digits, for example `flights.totals-0000000003-00001-0000000042.jsonl`. Sorted by name,
/// the files of one subtask are in the order they were closed and committed, within a generation and
/// from one to the next. No two files of any generation or parallelism share a name, and several jobs
/// can share a directory. Characters of job and uid other than ASCII letters, digits, `_` and `-` are
/// written as `%` and two hexadecimal digits.
///
/// # What a reader of the directory must know
///
/// Names that begin with a dot are not output; everything in `.staging` is unfinished. Any other file
/// never changes. It may be moved away once a later checkpoint is complete; before that a restarted
/// job would miss it and stop. The directory and `.staging` are on one file system, which supports
/// hard links; the fence finds out.
///
/// # Limits
///
/// The files of one checkpoint become visible one after the other
/// ([`Guarantee::AtomicPerTransaction`]). Calls block on the disk.
#[derive(Clone, Debug)]
pub struct FileSink<E> {
    directory: PathBuf,
    encode: E,
    rolling: Rolling,
    disk: Disk,
}

/// When a file is closed, to become visible with the checkpoint after: the trade of latency for the
/// number of files.
///
/// A file stays open over checkpoints until it is old or large enough, so frequent checkpoints do not
/// make small files: a subtask makes at most one file per `age_max` beside full ones. A record is
/// visible at the latest one checkpoint after `age_max`. The end of the input closes everything.
/// After a restart the age counts anew and the open file is copied, up to `bytes_max` of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Rolling {
    /// A file is closed after the batch with which it reaches this length.
    pub bytes_max: u64,
    /// A file is closed at the first checkpoint at which it is this old.
    pub age_max: Duration,
}

impl Rolling {
    /// Closes by length and age.
    pub fn new(bytes_max: u64, age_max: Duration) -> Self {
        Self { bytes_max, age_max }
    }

    /// A file per checkpoint and subtask: visible as soon as can be, and as many files as that makes.
    pub fn every_checkpoint() -> Self {
        Self::new(u64::MAX, Duration::ZERO)
    }
}

impl Default for Rolling {
    /// 64 MiB or 10 seconds: with checkpoints every 50 ms one file instead of 200.
    fn default() -> Self {
        Self::new(64 << 20, Duration::from_secs(10))
    }
}

impl<E: Encode> FileSink<E> {
    /// A sink into `directory`, which is created if it is missing.
    pub fn new(directory: impl Into<PathBuf>, encode: E) -> Self {
        Self {
            directory: directory.into(),
            encode,
            rolling: Rolling::default(),
            disk: Disk::default(),
        }
    }

    /// When files are closed.
    #[must_use]
    pub fn rolling(mut self, rolling: Rolling) -> Self {
        self.rolling = rolling;
        self
    }

    fn layout(&self, job: &str, uid: &str) -> Result<Layout> {
        Layout::new(&self.directory, job, uid, self.encode.extension())
            .map_err(|reason| Error::new("naming the files of a sink", reason))
    }
}

impl<E: Encode> Sink for FileSink<E> {
    type Record = E::Record;
    type Writer = FileWriter<E>;
    type Committer = FileCommitter;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(
        &self,
        context: WriterContext,
        restored: Vec<Vec<u8>>,
    ) -> Result<FileWriter<E>> {
        let layout = self.layout(&context.job, &context.uid)?;
        let (encode, disk) = (self.encode.clone(), self.disk.clone());
        FileWriter::open(disk, layout, &context, encode, self.rolling, restored)
    }

    async fn committer(&self, context: CommitterContext) -> Result<FileCommitter> {
        let layout = self.layout(&context.job, &context.uid)?;
        FileCommitter::open(
            self.disk.clone(),
            layout,
            context.generation,
            &context.restored,
        )
    }
}
