//! The asynchronous part of a task's snapshot: writing it, beside the task.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cutwater_barrier::{
    CheckpointId,
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_sink_2pc::Prepared;
use cutwater_state::{NewFile, SnapshotTask};
use cutwater_storage::{KeyedHandle, Subtask};

use crate::{
    BoxError, Error, ErrorKind, Result, attempt::Attempt, stage::OperatorSnapshot, task::Report,
};

/// What a task reports to the coordinator: for each of its operators what the metadata will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskPart {
    pub(crate) subtask: u16,
    pub(crate) operators: Vec<(String, Subtask)>,
    /// For each sink what its writer holds back, for the committer.
    pub(crate) prepared: Vec<(String, Vec<Prepared>)>,
}

/// The uploads of one task that may still be under way.
pub(crate) struct Uploads {
    attempt: Arc<Attempt>,
    task: TaskId,
    subtask: u16,
    running: Vec<(CheckpointId, Arc<AtomicBool>)>,
}

impl Uploads {
    pub(crate) fn new(attempt: &Arc<Attempt>, task: TaskId, subtask: u16) -> Self {
        Self {
            attempt: Arc::clone(attempt),
            task,
            subtask,
            running: Vec::new(),
        }
    }

    /// Writes the operators' snapshots on another thread, and then acknowledges or declines.
    pub(crate) fn start(
        &mut self,
        checkpoint: CheckpointId,
        operators: Vec<OperatorSnapshot>,
        stats: TaskStats,
    ) {
        self.running
            .retain(|(_, is_over)| Arc::strong_count(is_over) > 1);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        self.running.push((checkpoint, Arc::clone(&is_cancelled)));
        let upload = Upload {
            attempt: Arc::clone(&self.attempt),
            checkpoint,
            subtask: self.subtask,
            is_cancelled,
        };
        let task = self.task;
        self.attempt.tokio.spawn_blocking(move || {
            let attempt = Arc::clone(&upload.attempt);
            let report = match upload.run(operators, stats) {
                Ok((part, stats)) => Report::Acked {
                    checkpoint,
                    part,
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
            let is_over = *running <= checkpoint;
            if *running == checkpoint {
                is_cancelled.store(true, Ordering::Relaxed);
            }
            !is_over
        });
    }
}

struct Upload {
    attempt: Arc<Attempt>,
    checkpoint: CheckpointId,
    subtask: u16,
    is_cancelled: Arc<AtomicBool>,
}

impl Upload {
    fn run(
        self,
        operators: Vec<OperatorSnapshot>,
        mut stats: TaskStats,
    ) -> Result<(TaskPart, TaskStats)> {
        let started = self.attempt.clock.now();
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
        stats.async_ = self.attempt.clock.now() - started;
        // Memory state is written whole, so all of it is new.
        stats.bytes_full = part.operators.iter().map(|(_, part)| part.bytes()).sum();
        stats.bytes_written = stats.bytes_full;
        for (_, operator) in &mut part.operators {
            // The task's times, next to the bytes of the operator.
            operator.statistics = stats;
            operator.statistics.bytes_full = operator.bytes();
            operator.statistics.bytes_written = operator.bytes();
        }
        Ok((part, stats))
    }

    fn write(&self, snapshot: OperatorSnapshot) -> Result<Subtask, BoxError> {
        let mut part = Subtask::default();
        if let Some(task) = snapshot.keyed {
            part.keyed.push(self.write_keyed(&snapshot.uid, task)?);
        }
        part.operator_state = snapshot.operator.into();
        part.source = snapshot.splits.unwrap_or_default().into();
        Ok(part)
    }

    fn write_keyed(&self, uid: &str, task: SnapshotTask) -> Result<KeyedHandle, BoxError> {
        let mut files = Vec::new();
        let mut store = |file: NewFile| -> Result<(), BoxError> {
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err("the checkpoint was given up meanwhile".into());
            }
            let NewFile { name, bytes, .. } = file;
            let stored = self
                .attempt
                .files
                .store(self.checkpoint, uid, self.subtask, &name, bytes);
            files.push(self.attempt.tokio.block_on(stored)?);
            Ok(())
        };
        let snapshot = task.run(&mut store)?;
        Ok(KeyedHandle::new(
            vec![snapshot.groups],
            snapshot.manifest,
            files,
        ))
    }
}
