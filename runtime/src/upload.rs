//! The asynchronous part of a task's snapshot: writing it, beside the task.

use std::{
    mem,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use cutwater_barrier::{
    CheckpointId,
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_sink_2pc::Prepared;
use cutwater_state::{NewFile, SnapshotTask, Store};
use cutwater_storage::{ChannelState, HandleWriter, InFlight, KeyedHandle, Subtask};

use crate::{
    BoxError, Error, ErrorKind, Result,
    attempt::Attempt,
    in_flight::{self, Captured},
    part::Part,
    stage::OperatorSnapshot,
    task::{InputChannel, Report},
};

/// What a task reports to the coordinator: for each of its operators what the metadata will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskPart {
    pub(crate) subtask: u16,
    pub(crate) operators: Vec<(String, Subtask)>,
    /// Where the records are that were in flight to the subtask.
    pub(crate) in_flight: Option<ChannelState>,
    /// For each sink what its writer holds back, for the committer.
    pub(crate) prepared: Vec<(String, Vec<Prepared>)>,
}

/// The uploads of one task that may still be under way.
pub(crate) struct Uploads {
    attempt: Arc<Attempt>,
    task: TaskId,
    subtask: u16,
    channels: Arc<[InputChannel]>,
    running: Vec<(CheckpointId, Arc<AtomicBool>)>,
}

impl Uploads {
    pub(crate) fn new(
        attempt: &Arc<Attempt>,
        task: TaskId,
        subtask: u16,
        channels: Arc<[InputChannel]>,
    ) -> Self {
        Self {
            channels,
            attempt: Arc::clone(attempt),
            task,
            subtask,
            running: Vec::new(),
        }
    }

    /// Writes a task's part on another thread, and then acknowledges or declines.
    pub(crate) fn start(&mut self, part: Part, stats: TaskStats) {
        self.running
            .retain(|(_, is_over)| Arc::strong_count(is_over) > 1);
        let checkpoint = part.barrier.checkpoint;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        self.running.push((checkpoint, Arc::clone(&is_cancelled)));
        let upload = Upload {
            attempt: Arc::clone(&self.attempt),
            checkpoint,
            subtask: self.subtask,
            channels: Arc::clone(&self.channels),
            is_cancelled,
        };
        let task = self.task;
        self.attempt.tokio.spawn_blocking(move || {
            let attempt = Arc::clone(&upload.attempt);
            let report = match upload.run(part, stats) {
                Ok((part, stats)) => Report::Acked {
                    checkpoint,
                    part: Box::new(part),
                    stats,
                },
                Err(error) => Report::Declined {
                    checkpoint,
                    reason: Decline::Failed,
                    error,
                },
            };
            attempt.report(task, report);
        });
    }

    /// The checkpoint is over: what is not written yet need not be.
    pub(crate) fn cancel(&mut self, checkpoint: CheckpointId) {
        self.running.retain(|(running, is_cancelled)| {
            let is_it = *running == checkpoint;
            if is_it {
                is_cancelled.store(true, Ordering::Relaxed);
            }
            !is_it
        });
    }
}

struct Upload {
    attempt: Arc<Attempt>,
    checkpoint: CheckpointId,
    subtask: u16,
    channels: Arc<[InputChannel]>,
    is_cancelled: Arc<AtomicBool>,
}

impl Upload {
    fn run(self, taken: Part, mut stats: TaskStats) -> Result<(TaskPart, TaskStats)> {
        let started = self.attempt.clock.now();
        let Part {
            operators,
            in_flight,
            sync,
            ..
        } = taken;
        let (states, in_flight) = if in_flight.is_empty() {
            (self.write_states(operators), Ok(None))
        } else {
            // Beside each other: both mostly wait for the store.
            thread::scope(|scope| {
                let in_flight = scope.spawn(|| self.write_in_flight(in_flight));
                let states = self.write_states(operators);
                let in_flight = in_flight.join();
                (
                    states,
                    in_flight.unwrap_or_else(|panic| resume_unwind(panic)),
                )
            })
        };
        let mut part = states?;
        part.in_flight = in_flight.map_err(|error| {
            let message = format!(
                "the records in flight to subtask {} could not be written for checkpoint {}",
                self.subtask, self.checkpoint
            );
            Error::new(ErrorKind::Failed, message).with_source(error)
        })?;
        stats.sync = sync;
        stats.async_ = self.attempt.clock.now() - started;
        stats.bytes_in_flight = part.in_flight.iter().map(|state| state.file.length).sum();
        // Memory state is written whole, so all of it is new.
        stats.bytes_full = part.operators.iter().map(|(_, part)| part.bytes()).sum();
        stats.bytes_full += stats.bytes_in_flight;
        stats.bytes_written = stats.bytes_full;
        for (_, operator) in &mut part.operators {
            // The task's times, next to the bytes of the operator.
            operator.statistics = stats;
            operator.statistics.bytes_full = operator.bytes();
            operator.statistics.bytes_written = operator.bytes();
        }
        Ok((part, stats))
    }

    fn write_states(&self, operators: Vec<OperatorSnapshot>) -> Result<TaskPart> {
        let mut part = TaskPart {
            subtask: self.subtask,
            ..TaskPart::default()
        };
        for mut snapshot in operators {
            let uid = snapshot.uid.clone();
            let prepared = mem::take(&mut snapshot.prepared);
            let written = self.write(snapshot).map_err(|error| {
                let message = format!(
                    "operator `{uid}`, subtask {}, could not write its part of checkpoint {}",
                    self.subtask, self.checkpoint
                );
                Error::new(ErrorKind::Failed, message).with_source(error)
            })?;
            if !prepared.is_empty() {
                part.prepared.push((uid.clone(), prepared));
            }
            part.operators.push((uid, written));
        }
        Ok(part)
    }

    fn write(&self, snapshot: OperatorSnapshot) -> Result<Subtask, BoxError> {
        let mut part = Subtask::default();
        if let Some(task) = snapshot.keyed {
            part.keyed.push(self.write_keyed(&snapshot.uid, task)?);
        }
        part.operator_state = snapshot.operator.into();
        part.pieces = snapshot.pieces.into_iter().map(Into::into).collect();
        part.source = snapshot.splits.unwrap_or_default().into();
        Ok(part)
    }

    fn write_keyed(&self, uid: &str, task: SnapshotTask) -> Result<KeyedHandle, BoxError> {
        let files = &self.attempt.files;
        let mut keyed = KeyedUpload {
            upload: self,
            handle: files.handle(self.checkpoint, uid, self.subtask),
        };
        let snapshot = task.run(&mut keyed)?;
        Ok(keyed.handle.finish([snapshot.groups], snapshot.manifest))
    }

    fn write_in_flight(
        &self,
        mut captured: Vec<(usize, Box<dyn Captured>)>,
    ) -> Result<Option<ChannelState>, BoxError> {
        let Some(&(first, _)) = captured.first() else {
            return Ok(None);
        };
        let graph = &self.attempt.graph;
        let receiver = graph.name_of_node(graph.edges[self.channels[first].edge].to);
        let mut writer = self
            .attempt
            .files
            .channel_state(self.checkpoint, &receiver, self.subtask);
        // Of each channel in order, as it is stable.
        captured.sort_by_key(|&(channel, _)| channel);
        for batches in captured.chunk_by(|(a, _), (b, _)| a == b) {
            self.check()?;
            let InputChannel { edge, from, .. } = self.channels[batches[0].0];
            let records = batches.iter().map(|(_, batch)| batch.records()).sum();
            writer.channel(InFlight::new(
                graph.name_of(edge),
                (graph.edges[edge].schema)(),
                from,
                self.subtask,
                records,
            ));
            let mut bytes = vec![in_flight::VERSION];
            for (_, batch) in batches {
                batch.encode(&mut bytes)?;
                let chunk = mem::take(&mut bytes);
                self.attempt.tokio.block_on(writer.write(chunk))?;
            }
        }
        Ok(self.attempt.tokio.block_on(writer.finish())?)
    }

    fn check(&self) -> Result<(), BoxError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err("the checkpoint was given up meanwhile".into());
        }
        Ok(())
    }
}

/// Where the files of keyed state go: into the checkpoint's directory, as long as it is wanted.
struct KeyedUpload<'a> {
    upload: &'a Upload,
    handle: HandleWriter,
}

impl Store for KeyedUpload<'_> {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        self.upload.check()?;
        let stored = self.handle.stream(&file.name, file.content);
        Ok(self.upload.attempt.tokio.block_on(stored)?)
    }

    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        Ok(self.handle.reuse(name))
    }
}
