//! A source in a job: its readers at the head of tasks, its split coordinator beside the job's.
//!
//! The types of a source end here: the rest of the runtime passes assignments on as [`SplitMessage`]s
//! and positions as bytes.

use std::any::Any;

use cutwater_barrier::CheckpointId;
use cutwater_source::{
    Effect, Event, Reader, ReaderContext, Source, SplitCoordinator, Status, encode_splits,
};

use crate::{
    Error, ErrorKind, Result,
    stage::{AnyStage, OperatorSnapshot, Stage, TaskError, TaskResult, Visit},
    task::TaskContext,
};

/// A source of any type.
pub(crate) trait SourceNode: Send + Sync {
    /// The head of one subtask's task.
    fn make(&self, context: &mut TaskContext, downstream: AnyStage) -> Result<Box<dyn SourceHead>>;

    /// The half beside the job's coordinator. `restored`: its bytes in the checkpoint, and those of
    /// all readers of the old attempt.
    fn coordinator(
        &self,
        parallelism: u16,
        restored: Option<(&[u8], &[Vec<u8>])>,
    ) -> Result<Box<dyn Splits>>;
}

/// A reader of any type, and the chain behind it.
pub(crate) trait SourceHead {
    fn tell(&mut self, message: SplitMessage) -> TaskResult;

    /// Reads at most `most` records and sends them down the chain. Also says how many they were.
    fn poll(&mut self, most: usize) -> TaskResult<(Status, usize)>;

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult;
}

/// What the split coordinator tells a reader.
pub(crate) enum SplitMessage {
    /// A `Vec` of the source's split type.
    Assign(Box<dyn Any + Send>),
    NoMore,
}

/// A [`SplitCoordinator`] of any type.
pub(crate) trait Splits: Send {
    /// Looks for splits; blocks. True once there will never be more.
    fn discover(&mut self) -> Result<bool>;
    fn requested(&mut self, subtask: usize);
    fn completed(&mut self, checkpoint: CheckpointId);
    /// The next message, and the subtask it is for.
    fn poll(&mut self) -> Option<(usize, SplitMessage)>;
    fn snapshot(&mut self, checkpoint: CheckpointId) -> Vec<u8>;
}

/// A source of a known type.
pub(crate) struct TypedSource<S> {
    pub(crate) uid: String,
    pub(crate) source: S,
}

impl<S: Source> SourceNode for TypedSource<S> {
    fn make(&self, context: &mut TaskContext, downstream: AnyStage) -> Result<Box<dyn SourceHead>> {
        let (subtask, parallelism) = (context.subtask, context.parallelism);
        let who = ReaderContext::new(usize::from(subtask), usize::from(parallelism));
        let reader = self.source.reader(who).map_err(|error| {
            let message = format!("source `{}` could not open its reader {subtask}", self.uid);
            Error::new(kind_of(&error), message).with_source(error)
        })?;
        Ok(Box::new(Head::<S> {
            uid: self.uid.clone(),
            subtask,
            reader,
            batch: Vec::new(),
            downstream: downstream.typed(),
        }))
    }

    fn coordinator(
        &self,
        parallelism: u16,
        restored: Option<(&[u8], &[Vec<u8>])>,
    ) -> Result<Box<dyn Splits>> {
        let parallelism = usize::from(parallelism);
        let opened = match restored {
            None => SplitCoordinator::fresh(&self.source, parallelism),
            Some((state, readers)) => {
                let readers = readers.iter().map(Vec::as_slice);
                SplitCoordinator::restore(&self.source, parallelism, state, readers)
            }
        };
        let splits = opened.map_err(|error| {
            let message = format!("source `{}` could not be opened", self.uid);
            Error::new(kind_of(&error), message).with_source(error)
        })?;
        Ok(Box::new(splits))
    }
}

/// Whether reading again could help.
fn kind_of(error: &cutwater_source::Error) -> ErrorKind {
    match error.kind() {
        cutwater_source::ErrorKind::BadInput | cutwater_source::ErrorKind::Changed => {
            ErrorKind::BadInput
        }
        cutwater_source::ErrorKind::Corrupt | cutwater_source::ErrorKind::Invalid => {
            ErrorKind::Restore
        }
        _ => ErrorKind::Failed,
    }
}

struct Head<S: Source> {
    uid: String,
    subtask: u16,
    reader: S::Reader,
    batch: Vec<S::Record>,
    downstream: Box<dyn Stage<S::Record>>,
}

impl<S: Source> Head<S> {
    fn failed(&self, doing: &str, error: cutwater_source::Error) -> TaskError {
        let message = format!(
            "source `{}` failed {doing} in subtask {}",
            self.uid, self.subtask
        );
        Error::new(ErrorKind::Failed, message)
            .with_source(error)
            .into()
    }
}

impl<S: Source> SourceHead for Head<S> {
    fn tell(&mut self, message: SplitMessage) -> TaskResult {
        match message {
            SplitMessage::NoMore => self.reader.no_more_splits(),
            SplitMessage::Assign(splits) => {
                let splits: Box<Vec<S::Split>> = splits
                    .downcast()
                    .expect("a source's coordinator and readers have one split type");
                self.reader
                    .add_splits(*splits)
                    .map_err(|error| self.failed("to take over splits", error))?;
            }
        }
        Ok(())
    }

    fn poll(&mut self, most: usize) -> TaskResult<(Status, usize)> {
        let polled = self.reader.poll_batch(&mut self.batch, most);
        // On an error the records before it count as read, but so does the attempt as failed.
        let status = polled.map_err(|error| self.failed("to read", error))?;
        let records = self.batch.len();
        if records > 0 {
            self.downstream.process(&mut self.batch)?;
            self.batch.clear();
        }
        Ok((status, records))
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match visit {
            Visit::Snapshot(snapshots) => {
                let splits = self
                    .reader
                    .snapshot(snapshots.checkpoint)
                    .map_err(|error| self.failed("to record its positions", error))?;
                snapshots.operators.push(OperatorSnapshot {
                    uid: self.uid.clone(),
                    splits: Some(encode_splits(&splits)),
                    ..OperatorSnapshot::default()
                });
            }
            Visit::Completed(checkpoint) => self
                .reader
                .notify_complete(*checkpoint)
                .map_err(|error| self.failed("to acknowledge a checkpoint", error))?,
            Visit::Flush
            | Visit::Barrier(_)
            | Visit::Cancel(_)
            | Visit::EndOfData
            | Visit::Probe(_)
            | Visit::Timers(_)
            | Visit::Aborted(_)
            | Visit::Released(_) => {}
        }
        self.downstream.visit(visit)
    }
}

impl<S: Source> Splits for SplitCoordinator<S> {
    fn discover(&mut self) -> Result<bool> {
        Self::discover(self).map_err(|error| {
            let message = "a source could not look for its splits";
            Error::new(kind_of(&error), message).with_source(error)
        })
    }

    fn requested(&mut self, subtask: usize) {
        self.handle(Event::Requested { subtask });
    }

    fn completed(&mut self, checkpoint: CheckpointId) {
        self.handle(Event::Completed(checkpoint));
    }

    fn poll(&mut self) -> Option<(usize, SplitMessage)> {
        Self::poll(self).map(|effect| match effect {
            Effect::Assign { subtask, splits } => (subtask, SplitMessage::Assign(Box::new(splits))),
            Effect::NoMore { subtask } => (subtask, SplitMessage::NoMore),
        })
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Vec<u8> {
        Self::snapshot(self, checkpoint)
    }
}
