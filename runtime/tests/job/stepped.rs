//! A source that gives only as many records as it is allowed, so that a test decides how far a job
//! has come when something happens.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cutwater_barrier::CheckpointId;
use cutwater_source::{Assignment, Reader, ReaderContext, Result, Source, Status};

/// `S`, at most as many records as the counter says, all readers together.
pub(crate) struct Stepped<S> {
    source: S,
    allowed: Arc<AtomicU64>,
    given: Arc<AtomicU64>,
}

impl<S> Stepped<S> {
    pub(crate) fn new(source: S, allowed: Arc<AtomicU64>) -> Self {
        Self {
            source,
            allowed,
            given: Arc::default(),
        }
    }
}

impl<S: Source> Source for Stepped<S> {
    type Record = S::Record;
    type Split = S::Split;
    type Enumerator = S::Enumerator;
    type Reader = SteppedReader<S::Reader>;

    fn assignment(&self) -> Assignment {
        self.source.assignment()
    }

    fn enumerator(&self, state: Option<&[u8]>) -> Result<S::Enumerator> {
        self.source.enumerator(state)
    }

    fn reader(&self, context: ReaderContext) -> Result<Self::Reader> {
        Ok(SteppedReader {
            reader: self.source.reader(context)?,
            allowed: Arc::clone(&self.allowed),
            given: Arc::clone(&self.given),
        })
    }
}

pub(crate) struct SteppedReader<R> {
    reader: R,
    allowed: Arc<AtomicU64>,
    given: Arc<AtomicU64>,
}

impl<R: Reader> Reader for SteppedReader<R> {
    type Record = R::Record;
    type Split = R::Split;

    fn add_splits(&mut self, splits: Vec<R::Split>) -> Result<()> {
        self.reader.add_splits(splits)
    }

    fn no_more_splits(&mut self) {
        self.reader.no_more_splits();
    }

    fn poll_batch(&mut self, out: &mut Vec<R::Record>, max: usize) -> Result<Status> {
        let given = self.given.load(Ordering::Relaxed);
        let left = self.allowed.load(Ordering::Relaxed).saturating_sub(given);
        if left == 0 {
            return Ok(Status::Idle);
        }
        let before = out.len();
        let status = self.reader.poll_batch(out, max.min(left as usize))?;
        self.given
            .fetch_add((out.len() - before) as u64, Ordering::Relaxed);
        Ok(status)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<R::Split>> {
        self.reader.snapshot(checkpoint)
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.reader.notify_complete(checkpoint)
    }
}
