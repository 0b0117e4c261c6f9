//! A source held to a rate, for demos and load tests. The clock comes in as an argument.

use std::{
    fmt,
    num::NonZeroU64,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Time};

use crate::{Assignment, Reader, ReaderContext, Result, Source, Status};

/// How many records may be read by when: `rate` per second since the first question, and none saved up
/// for longer than a tenth of a second, so that a pause is not followed by a burst.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: NonZeroU64,
    /// When the next record is due.
    due: Option<Time>,
}

impl Pace {
    const SAVED_MAX: Duration = Duration::from_millis(100);

    /// `rate` records per second.
    pub fn new(rate: NonZeroU64) -> Self {
        Self { rate, due: None }
    }

    /// How many records may be read at `now`.
    pub fn allowance(&mut self, now: Time) -> u64 {
        let due = *self.due.get_or_insert(now);
        if due > now {
            return 0;
        }
        let saved = (now - due).min(Self::SAVED_MAX);
        self.due = Some(Time::new(now.since_start().saturating_sub(saved)));
        let records = saved.as_nanos() * u128::from(self.rate.get()) / 1_000_000_000;
        u64::try_from(records).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// `records` were read.
    pub fn took(&mut self, records: u64) {
        if let Some(due) = self.due {
            let nanos = u128::from(records) * 1_000_000_000 / u128::from(self.rate.get());
            self.due = Some(due + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        }
    }
}

/// `S`, at no more than a number of records per second, all readers of this process together.
///
/// When the rate is used up a poll gives nothing and says [`Status::Idle`].
pub struct Paced<S> {
    source: S,
    gate: Gate,
}

#[derive(Clone)]
struct Gate {
    pace: Arc<Mutex<Pace>>,
    clock: Arc<dyn Fn() -> Time + Send + Sync>,
}

impl<S> Paced<S> {
    /// `source`, at `rate` records per second by `clock`.
    pub fn new(
        source: S,
        rate: NonZeroU64,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Self {
        Self {
            source,
            gate: Gate {
                pace: Arc::new(Mutex::new(Pace::new(rate))),
                clock: Arc::new(clock),
            },
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Paced<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced")
            .field("source", &self.source)
            .field("pace", &self.gate.pace)
            .finish_non_exhaustive()
    }
}

impl<S: Source> Source for Paced<S> {
    type Record = S::Record;
    type Split = S::Split;
    type Enumerator = S::Enumerator;
    type Reader = PacedReader<S::Reader>;

    fn assignment(&self) -> Assignment {
        self.source.assignment()
    }

    fn enumerator(&self, state: Option<&[u8]>) -> Result<S::Enumerator> {
        self.source.enumerator(state)
    }

    fn reader(&self, context: ReaderContext) -> Result<Self::Reader> {
        Ok(PacedReader {
            reader: self.source.reader(context)?,
            gate: self.gate.clone(),
        })
    }
}

/// A reader that asks the pace before it reads.
pub struct PacedReader<R> {
    reader: R,
    gate: Gate,
}

impl<R: fmt::Debug> fmt::Debug for PacedReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedReader")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl<R: Reader> Reader for PacedReader<R> {
    type Record = R::Record;
    type Split = R::Split;

    fn add_splits(&mut self, splits: Vec<R::Split>) -> Result<()> {
        self.reader.add_splits(splits)
    }

    fn no_more_splits(&mut self) {
        self.reader.no_more_splits();
    }

    fn poll_batch(&mut self, out: &mut Vec<R::Record>, max: usize) -> Result<Status> {
        let now = (self.gate.clock)();
        // Held over the read: what one reader was allowed, another must not take too.
        let mut pace = self
            .gate
            .pace
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let allowed = usize::try_from(pace.allowance(now)).unwrap_or(usize::MAX);
        if allowed == 0 {
            return Ok(Status::Idle);
        }
        let before = out.len();
        let status = self.reader.poll_batch(out, max.min(allowed))?;
        pace.took((out.len() - before) as u64);
        Ok(status)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<R::Split>> {
        self.reader.snapshot(checkpoint)
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.reader.notify_complete(checkpoint)
    }
}
