//! Records in memory as a source: for tests, examples and benches.

use std::{collections::BTreeSet, fmt, sync::Arc};

use cutwater_barrier::CheckpointId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Assignment, Discovery, Enumerator, Error, ErrorKind, Reader, ReaderContext, Result, Source,
    Split, Status,
};

/// A bounded source over vectors, one split each. Replays after a restart because the same program
/// makes the same vectors again.
pub struct VecSource<T> {
    parts: Arc<Vec<Vec<T>>>,
}

impl<T> VecSource<T> {
    /// One split per part.
    pub fn new(parts: Vec<Vec<T>>) -> Self {
        Self {
            parts: Arc::new(parts),
        }
    }
}

impl<T> Clone for VecSource<T> {
    fn clone(&self) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
        }
    }
}

impl<T> fmt::Debug for VecSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<usize> = self.parts.iter().map(Vec::len).collect();
        f.debug_struct("VecSource")
            .field("lengths", &lengths)
            .finish_non_exhaustive()
    }
}

/// One of the vectors.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VecSplit {
    /// `part-<index>`.
    pub id: String,
    /// Which vector.
    pub part: usize,
    /// Index of the next record.
    pub next: usize,
    /// Number of records.
    pub length: usize,
}

impl Split for VecSplit {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_finished(&self) -> bool {
        self.next == self.length
    }
}

impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Source for VecSource<T> {
    type Record = T;
    type Split = VecSplit;
    type Enumerator = VecEnumerator;
    type Reader = VecReader<T>;

    fn assignment(&self) -> Assignment {
        Assignment::UpFront
    }

    fn enumerator(&self, _: Option<&[u8]>) -> Result<VecEnumerator> {
        Ok(VecEnumerator {
            lengths: self.parts.iter().map(Vec::len).collect(),
        })
    }

    fn reader(&self, _: ReaderContext) -> Result<VecReader<T>> {
        Ok(VecReader {
            parts: Arc::clone(&self.parts),
            splits: Vec::new(),
            turn: 0,
            no_more: false,
        })
    }
}

/// Knows the vectors' lengths.
#[derive(Debug)]
pub struct VecEnumerator {
    lengths: Vec<usize>,
}

impl Enumerator for VecEnumerator {
    type Split = VecSplit;

    fn discover(&mut self, known: &BTreeSet<String>) -> Result<Discovery<VecSplit>> {
        let splits = self
            .lengths
            .iter()
            .enumerate()
            .map(|(part, &length)| VecSplit {
                id: format!("part-{part}"),
                part,
                next: 0,
                length,
            });
        Ok(Discovery::complete(
            splits.filter(|split| !known.contains(&split.id)).collect(),
        ))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Reads its vectors in turn, one batch of each.
#[derive(Debug)]
pub struct VecReader<T> {
    parts: Arc<Vec<Vec<T>>>,
    splits: Vec<VecSplit>,
    turn: usize,
    no_more: bool,
}

impl<T: Clone + Send + Sync + 'static> Reader for VecReader<T> {
    type Record = T;
    type Split = VecSplit;

    fn add_splits(&mut self, splits: Vec<VecSplit>) -> Result<()> {
        for split in &splits {
            let found = self.parts.get(split.part).map(Vec::len);
            if found != Some(split.length) || split.next > split.length {
                return Err(Error::new(
                    ErrorKind::Changed,
                    format!(
                        "{} had {} records at the checkpoint and has {found:?} now; start with the \
                         same vectors or fresh",
                        split.id, split.length
                    ),
                ));
            }
        }
        self.splits.extend(splits);
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more = true;
    }

    fn poll_batch(&mut self, out: &mut Vec<T>, max: usize) -> Result<Status> {
        let count = self.splits.len();
        let open = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|&index| !self.splits[index].is_finished());
        if let Some(index) = open {
            let split = &mut self.splits[index];
            let end = split.length.min(split.next.saturating_add(max));
            out.extend_from_slice(&self.parts[split.part][split.next..end]);
            split.next = end;
            self.turn = index + 1;
        }
        Ok(if self.splits.iter().any(|split| !split.is_finished()) {
            Status::More
        } else if self.no_more {
            Status::Finished
        } else {
            Status::Drained
        })
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<VecSplit>> {
        Ok(self.splits.clone())
    }

    fn notify_complete(&mut self, _: CheckpointId) -> Result<()> {
        Ok(())
    }
}
