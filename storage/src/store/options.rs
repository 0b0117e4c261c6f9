//! How checkpoints are kept.

use std::path::PathBuf;

/// How checkpoints are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// So many of the newest checkpoints are kept, at least 1; savepoints come on top. Default 3.
    pub keep: usize,
    /// A state file of at most so many bytes is stored within the metadata instead of as an object.
    /// Default 16 KiB, about as long as it takes to make one more object durable.
    pub inline_max_bytes: usize,
    /// The block of a state file that has a checksum of its own; the least that is read. Default
    /// 64 KiB.
    pub block_bytes: u32,
    /// A decision of the log that is still needed is said again when it is so many entries back, so
    /// that those before it can be deleted. A recovery reads about that many. Default 256.
    pub log_entries: u64,
    /// A directory on a local disk for second copies of the state files that are not inline, those of the
    /// newest completed checkpoint. A restore reads a copy instead of the store if it is there and intact.
    /// One directory for one job. None by default.
    pub local_copies: Option<PathBuf>,
    /// Makes all random numbers follow from this one, for tests. Two processes with the same seed
    /// take each other's log entries for their own.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep: 3,
            inline_max_bytes: 16 << 10,
            block_bytes: 64 << 10,
            log_entries: 256,
            local_copies: None,
            seed: None,
        }
    }
}
