//! What a task is made of: stages, each of which takes batches and passes batches on.
//!
//! ```text
//!   port ─▶ Stage<In> ─▶ Stage<Mid> ─▶ Exchange (to other tasks) or Sink
//! ```
//!
//! Chained operators call each other directly. The types of a chain are known when the job is built
//! and erased where the graph stores it, so what is left at run time is one dynamic call per batch.
//! A [`Visit`] walks the chain from the head to its ends.

use std::any::Any;

use cutwater_barrier::{Barrier, CheckpointId};
use cutwater_sink_2pc::{Input, Prepared};
use cutwater_state::{SnapshotTask, Timestamp};

use crate::{
    Error,
    channel::{AnyBatch, Batch, Closed},
    in_flight::{Carried, Saved},
    probe::Probe,
};

/// Takes batches of `T` and reacts to what happens to the task.
pub(crate) trait Stage<T> {
    /// Processes and empties `batch`.
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult;

    /// Does this stage's part of `visit`, and passes it on downstream.
    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult;
}

/// What happens to all stages of a task.
pub(crate) enum Visit<'a> {
    /// Send half-filled batches: nothing more may come for a while.
    Flush,
    /// Send half-filled batches, then this barrier, on every outgoing channel.
    Barrier(Barrier),
    /// Tell every outgoing channel that the checkpoint was given up.
    Cancel(CheckpointId),
    /// Tell every outgoing channel that no more records will come.
    EndOfData,
    /// Send half-filled batches, then this probe, on every outgoing channel.
    Probe(Probe),
    /// Call what timers are due at this time, or some of them.
    Timers(Timestamp),
    /// Fix the state as of now.
    Snapshot(&'a mut Snapshots),
    /// The checkpoint is complete.
    Completed(CheckpointId),
    /// The checkpoint will never be complete.
    Aborted(CheckpointId),
    /// What sinks wrote for checkpoints before this one is committed and no longer named.
    Released(CheckpointId),
}

/// The synchronous parts of one task's snapshot, operator by operator.
pub(crate) struct Snapshots {
    pub(crate) checkpoint: CheckpointId,
    /// Whether records follow after it.
    pub(crate) input: Input,
    /// The newest completed checkpoint, of which the task need not have heard.
    pub(crate) completed: Option<CheckpointId>,
    /// Whether it shall have no file in common with others.
    pub(crate) is_whole: bool,
    pub(crate) operators: Vec<OperatorSnapshot>,
}

/// What one operator contributes to a checkpoint.
#[derive(Default)]
pub(crate) struct OperatorSnapshot {
    pub(crate) uid: String,
    pub(crate) keyed: Option<SnapshotTask>,
    pub(crate) operator: Vec<u8>,
    /// A source's splits with their positions.
    pub(crate) splits: Option<Vec<u8>>,
    /// A sink's transactions.
    pub(crate) prepared: Vec<Prepared>,
    /// What a sink's writer hands to its successors.
    pub(crate) pieces: Vec<Vec<u8>>,
}

/// Why a task stops.
#[derive(Debug)]
pub(crate) enum TaskError {
    /// Another part of the attempt ended it.
    Closed,
    /// This task failed.
    Failed(Error),
}

pub(crate) type TaskResult<T = ()> = Result<T, TaskError>;

impl From<Closed> for TaskError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl From<Error> for TaskError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A `Box<dyn Stage<T>>` whose `T` the graph does not know.
pub(crate) struct AnyStage(Box<dyn Any>);

impl AnyStage {
    pub(crate) fn new<T: 'static>(stage: impl Stage<T> + 'static) -> Self {
        let stage: Box<dyn Stage<T>> = Box::new(stage);
        Self(Box::new(stage))
    }

    /// The stage again. The builder's types make sure that `T` is right.
    pub(crate) fn typed<T: 'static>(self) -> Box<dyn Stage<T>> {
        *self
            .0
            .downcast()
            .expect("an edge connects operators of one record type")
    }
}

/// The place where an erased batch meets the stage that knows its type.
pub(crate) trait Port {
    /// Processes the first records of `batch`, at most `most`, and takes them out of it. Adds them to
    /// `saved` first, if they are also in flight.
    fn process(
        &mut self,
        batch: &mut AnyBatch,
        most: usize,
        saved: Option<&mut Saved>,
    ) -> TaskResult<Step>;

    /// Adds the records of a batch that waits to `saved`.
    fn save(&self, batch: &AnyBatch, saved: &mut Saved);

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult;
}

/// What a port did with a batch.
pub(crate) struct Step {
    pub(crate) records: usize,
    /// Memory that these took, what they point to not counted.
    pub(crate) bytes: u64,
    /// Whether the batch is empty now.
    pub(crate) is_last: bool,
}

/// A port for batches of `C`.
pub(crate) struct TypedPort<C> {
    stage: Box<dyn Stage<C>>,
    /// The records of a step that is not a whole batch.
    step: Vec<C>,
}

impl<C> TypedPort<C> {
    pub(crate) fn new(stage: Box<dyn Stage<C>>) -> Self {
        Self {
            stage,
            step: Vec::new(),
        }
    }
}

impl<C: Carried> Port for TypedPort<C> {
    fn process(
        &mut self,
        batch: &mut AnyBatch,
        most: usize,
        saved: Option<&mut Saved>,
    ) -> TaskResult<Step> {
        let Batch(batch) = batch
            .downcast_mut::<Batch<C>>()
            .expect("an edge carries batches of its record type");
        let records = batch.len().min(most);
        if let Some(saved) = saved {
            saved.save(&batch[..records]);
        }
        if records == batch.len() {
            self.stage.process(batch)?;
            batch.clear();
        } else {
            self.step.extend(batch.drain(..records));
            self.stage.process(&mut self.step)?;
            self.step.clear();
        }
        Ok(Step {
            records,
            bytes: (records * size_of::<C>()) as u64,
            is_last: batch.is_empty(),
        })
    }

    fn save(&self, batch: &AnyBatch, saved: &mut Saved) {
        let Batch(batch) = batch
            .downcast_ref::<Batch<C>>()
            .expect("an edge carries batches of its record type");
        saved.save(batch);
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.stage.visit(visit)
    }
}

/// Where a stream has no consumer.
pub(crate) struct Discard;

impl<T> Stage<T> for Discard {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        batch.clear();
        Ok(())
    }

    fn visit(&mut self, _: &mut Visit<'_>) -> TaskResult {
        Ok(())
    }
}

/// Where a stream has several consumers: each gets every record.
pub(crate) struct Fanout<T>(pub(crate) Vec<Box<dyn Stage<T>>>);

impl<T: Clone> Stage<T> for Fanout<T> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        if let Some((last, others)) = self.0.split_last_mut() {
            for consumer in others {
                consumer.process(&mut batch.clone())?;
            }
            last.process(batch)?;
        }
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0
            .iter_mut()
            .try_for_each(|consumer| consumer.visit(visit))
    }
}
