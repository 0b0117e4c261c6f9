//! A source and its readers on one thread, step by step: the smallest driver.

use std::fmt;

use cutwater_barrier::CheckpointId;

use crate::{
    Effect, Event, Reader, ReaderContext, Result, Source, SplitCoordinator, Status, encode_splits,
};

/// One attempt of a job that only reads.
pub struct Run<S: Source> {
    coordinator: SplitCoordinator<S>,
    readers: Vec<S::Reader>,
    finished: Vec<bool>,
}

/// What a checkpoint keeps of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The state of the coordinator.
    pub coordinator: Vec<u8>,
    /// The splits of each reader.
    pub readers: Vec<Vec<u8>>,
}

impl<S: Source> Run<S> {
    /// A job that starts from nothing.
    pub fn fresh(source: S, parallelism: usize) -> Result<Self> {
        let coordinator = SplitCoordinator::fresh(&source, parallelism)?;
        Self::start(&source, parallelism, coordinator)
    }

    /// A job restored from `checkpoint`.
    pub fn restore(source: S, parallelism: usize, checkpoint: &Checkpoint) -> Result<Self> {
        let coordinator = SplitCoordinator::restore(
            &source,
            parallelism,
            &checkpoint.coordinator,
            checkpoint.readers.iter().map(Vec::as_slice),
        )?;
        Self::start(&source, parallelism, coordinator)
    }

    fn start(source: &S, parallelism: usize, mut coordinator: SplitCoordinator<S>) -> Result<Self> {
        coordinator.discover()?;
        let readers = (0..parallelism)
            .map(|subtask| source.reader(ReaderContext::new(subtask, parallelism)))
            .collect::<Result<_>>()?;
        let mut this = Self {
            coordinator,
            readers,
            finished: vec![false; parallelism],
        };
        this.carry_out()?;
        Ok(this)
    }

    /// One batch of one reader.
    pub fn step(&mut self, subtask: usize, max: usize) -> Result<Vec<S::Record>> {
        let mut records = Vec::new();
        match self.readers[subtask].poll_batch(&mut records, max)? {
            Status::More | Status::Idle => {}
            Status::Drained => {
                self.coordinator.handle(Event::Requested { subtask });
                self.carry_out()?;
            }
            Status::Finished => self.finished[subtask] = true,
        }
        Ok(records)
    }

    /// Everything that is left.
    ///
    /// # Panics
    ///
    /// If the readers do not come to an end: 100,000 rounds without a record.
    pub fn to_end(&mut self, max: usize) -> Result<Vec<S::Record>> {
        let mut records = Vec::new();
        let mut without = 0;
        while !self.is_finished() {
            let before = records.len();
            for subtask in 0..self.readers.len() {
                records.extend(self.step(subtask, max)?);
            }
            without = if records.len() == before {
                without + 1
            } else {
                0
            };
            assert!(without < 100_000, "the readers give nothing and do not end");
        }
        Ok(records)
    }

    /// A checkpoint of coordinator and readers, as if its barrier were injected right now.
    pub fn checkpoint(&mut self, checkpoint: CheckpointId) -> Result<Checkpoint> {
        let coordinator = self.coordinator.snapshot(checkpoint);
        let readers = self
            .readers
            .iter_mut()
            .map(|reader| Ok(encode_splits(&reader.snapshot(checkpoint)?)))
            .collect::<Result<_>>()?;
        Ok(Checkpoint {
            coordinator,
            readers,
        })
    }

    /// Tells everybody that `checkpoint` is complete.
    pub fn complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.coordinator.handle(Event::Completed(checkpoint));
        self.carry_out()?;
        for reader in &mut self.readers {
            reader.notify_complete(checkpoint)?;
        }
        Ok(())
    }

    /// Whether all readers are finished.
    pub fn is_finished(&self) -> bool {
        self.finished.iter().all(|finished| *finished)
    }

    /// The coordinator, to look at.
    pub fn coordinator(&self) -> &SplitCoordinator<S> {
        &self.coordinator
    }

    fn carry_out(&mut self) -> Result<()> {
        while let Some(effect) = self.coordinator.poll() {
            match effect {
                Effect::Assign { subtask, splits } => self.readers[subtask].add_splits(splits)?,
                Effect::NoMore { subtask } => self.readers[subtask].no_more_splits(),
            }
        }
        Ok(())
    }
}

impl<S: Source> fmt::Debug for Run<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}
