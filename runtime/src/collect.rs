//! A sink into memory, for tests and first steps: exactly-once across restarts within a process.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};

/// Collects what the job has committed.
///
/// A clone is the same collection, so one stays with the test. Records become visible checkpoint by
/// checkpoint, as in any transactional sink.
pub struct Collect<T>(Arc<Mutex<Target<T>>>);

struct Target<T> {
    committed: Vec<T>,
    prepared: BTreeMap<Vec<u8>, Vec<T>>,
    /// Tokens of what is in `committed`.
    ended: Vec<Vec<u8>>,
    fence: Generation,
}

impl<T> Collect<T> {
    /// Nothing is collected yet.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Target {
            committed: Vec::new(),
            prepared: BTreeMap::new(),
            ended: Vec::new(),
            fence: Generation::new(0),
        })))
    }

    /// Takes what has been committed so far, in the order of commits.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.lock().committed)
    }

    /// How many records are committed and not taken.
    pub fn len(&self) -> usize {
        self.lock().committed.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Target<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Collect<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Collect<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Collect<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collect").field("len", &self.len()).finish()
    }
}

impl<T: Send + 'static> Sink for Collect<T> {
    type Record = T;
    type Writer = CollectWriter<T>;
    type Committer = CollectCommitter<T>;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, _: Vec<Vec<u8>>) -> Result<CollectWriter<T>> {
        Ok(CollectWriter {
            target: self.clone(),
            context,
            open: Vec::new(),
        })
    }

    async fn committer(&self, _: CommitterContext) -> Result<CollectCommitter<T>> {
        Ok(CollectCommitter(self.clone()))
    }
}

/// Holds back records until their checkpoint is complete.
#[derive(Debug)]
pub struct CollectWriter<T> {
    target: Collect<T>,
    context: WriterContext,
    open: Vec<T>,
}

impl<T: Send + 'static> Writer for CollectWriter<T> {
    type Record = T;

    async fn write(&mut self, _: Time, batch: &mut Vec<T>) -> Result<()> {
        self.open.append(batch);
        Ok(())
    }

    async fn prepare(&mut self, _: Time, checkpoint: CheckpointId, _: Input) -> Result<Flushed> {
        if self.open.is_empty() {
            return Ok(Flushed::default());
        }
        let WriterContext {
            generation,
            subtask,
            ..
        } = &self.context;
        let mut target = self.target.lock();
        if *generation < target.fence {
            return Err(Error::fenced("preparing records", target.fence));
        }
        // Unique, as a subtask prepares once for a checkpoint of a generation.
        let token = format!("{generation}/{subtask}/{checkpoint}").into_bytes();
        target
            .prepared
            .insert(token.clone(), std::mem::take(&mut self.open));
        Ok(Flushed::new(vec![Prepared::new(checkpoint, token)]))
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(())
    }
}

/// Makes prepared records visible.
#[derive(Debug)]
pub struct CollectCommitter<T>(Collect<T>);

impl<T: Send + 'static> Committer for CollectCommitter<T> {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let mut target = self.0.lock();
        let commit = |prepared: &Prepared| {
            if let Some(records) = target.prepared.remove(&prepared.token) {
                target.committed.extend(records);
                target.ended.push(prepared.token.clone());
                return Verdict::Committed;
            }
            target.verdict(&prepared.token)
        };
        prepared.iter().map(commit).collect()
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let target = self.0.lock();
        let probe = |prepared: &Prepared| target.verdict(&prepared.token);
        prepared.iter().map(probe).collect()
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        let mut target = self.0.lock();
        for prepared in prepared {
            target.prepared.remove(&prepared.token);
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        let mut target = self.0.lock();
        if target.fence > generation {
            return Err(Error::fenced("fencing older writers", target.fence));
        }
        target.fence = generation;
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        // All that the restored checkpoint names is committed; the rest is of older generations.
        self.0.lock().prepared.clear();
        Ok(())
    }
}

impl<T> Target<T> {
    fn verdict(&self, token: &[u8]) -> Verdict {
        if self.ended.iter().any(|ended| ended == token) {
            Verdict::AlreadyCommitted
        } else if self.prepared.contains_key(token) {
            Verdict::NotCommitted(Error::new(
                "asking for a transaction",
                "it is only prepared",
            ))
        } else {
            Verdict::Lost(Error::new(
                "asking for a transaction",
                "memory does not survive the process",
            ))
        }
    }
}
