//! A source that gives only as many records as it is allowed, so that a test decides how far a job
//! has come when something happens.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cutwater_barrier::CheckpointId;
use cutwater_source::{Assignment, Reader, ReaderContext, Result, Source, Status};

/// How far the readers of a source may go, and have gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    allowed: Arc<AtomicU64>,
    /// At least what was given: a reader reserves before it reads.
    reserved: Arc<AtomicU64>,
    given: Arc<AtomicU64>,
    snapshots: Arc<AtomicU64>,
}

impl Steps {
    pub(crate) fn up_to(allowed: u64) -> Self {
        let steps = Self::default();
        steps.allowed.store(allowed, Ordering::Relaxed);
        steps
    }

    /// How many of `max` records a reader may give.
    fn reserve(&self, max: u64) -> u64 {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let may = |reserved: u64| max.min(allowed.saturating_sub(reserved));
        let reserved =
            self.reserved
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                    Some(reserved + may(reserved))
                });
        reserved.map_or(0, may)
    }

    /// Records that the readers have given.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Snapshots that the readers have taken. Their barriers were sent before.
    pub(crate) fn snapshots(&self) -> u64 {
        self.snapshots.load(Ordering::Relaxed)
    }
}

/// `S`, at most as many records as the counter says, all readers together.
pub(crate) struct Stepped<S> {
    source: S,
    steps: Steps,
}

impl<S> Stepped<S> {
    pub(crate) fn new(source: S, allowed: Arc<AtomicU64>) -> Self {
        let steps = Steps {
            allowed,
            ..Steps::default()
        };
        Self::watched(source, &steps)
    }

    pub(crate) fn watched(source: S, steps: &Steps) -> Self {
        Self {
            source,
            steps: steps.clone(),
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
            steps: self.steps.clone(),
        })
    }
}

pub(crate) struct SteppedReader<R> {
    reader: R,
    steps: Steps,
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
        let max = self.steps.reserve(max as u64);
        if max == 0 {
            return Ok(Status::Idle);
        }
        let before = out.len();
        let status = self.reader.poll_batch(out, max as usize)?;
        let given = (out.len() - before) as u64;
        self.steps
            .reserved
            .fetch_sub(max - given, Ordering::Relaxed);
        self.steps.given.fetch_add(given, Ordering::Relaxed);
        Ok(status)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<R::Split>> {
        let positions = self.reader.snapshot(checkpoint);
        self.steps.snapshots.fetch_add(1, Ordering::Relaxed);
        positions
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.reader.notify_complete(checkpoint)
    }
}
