//! The asynchronous part of a task's snapshot: writing it, beside the task.
//!
//! ```text
//!   cut ─┬─▶ state ────────────────────────────────▶ store ─┐
//!        └─▶ records are recorded ─▶ those in flight ─▶ store ─┴─▶ whoever is last acknowledges
//! ```
//!
//! State does not wait for the last record in flight, and neither for the other's writes: both mostly
//! wait for the store.

use std::{
    collections::BTreeMap,
    error::Error as _,
    iter, mem,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use cutwater_barrier::{
    CheckpointId, Time,
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_sink_2pc::Prepared;
use cutwater_state::{NewFile, SnapshotTask, Store};
use cutwater_storage::{ChannelState, HandleWriter, InFlight, KeyedHandle, Subtask};

use crate::{
    BoxError, Error, ErrorKind, Result,
    attempt::Attempt,
    in_flight::Saved,
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

/// The uploads of one task.
pub(crate) struct Uploads {
    attempt: Arc<Attempt>,
    task: TaskId,
    subtask: u16,
    channels: Arc<[InputChannel]>,
    /// Those that may still be under way.
    running: Vec<Weak<Upload>>,
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

    /// Begins to write what the operators have fixed. The rest follows with
    /// [`finish`](Upload::finish); before it nothing is acknowledged.
    pub(crate) fn begin(
        &mut self,
        checkpoint: CheckpointId,
        operators: Vec<OperatorSnapshot>,
    ) -> Arc<Upload> {
        let upload = Arc::new(Upload {
            attempt: Arc::clone(&self.attempt),
            task: self.task,
            subtask: self.subtask,
            channels: Arc::clone(&self.channels),
            checkpoint,
            is_over: AtomicBool::new(false),
            halves: Mutex::default(),
        });
        self.running.retain(|running| running.strong_count() > 0);
        self.running.push(Arc::downgrade(&upload));
        let writer = Arc::clone(&upload);
        let has_files = operators.iter().any(|operator| operator.keyed.is_some());
        let write = move || match writer.write_states(operators) {
            Ok(states) => writer.stored(|halves| halves.states = Some(states)),
            Err(error) => writer.fail(error),
        };
        if has_files {
            self.attempt.tokio.spawn_blocking(write);
        } else {
            write(); // It goes into the metadata, and takes no other thread.
        }
        upload
    }

    /// The checkpoint is over: what is not written yet need not be.
    pub(crate) fn cancel(&mut self, checkpoint: CheckpointId) {
        self.running
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|upload| upload.checkpoint == checkpoint)
            .for_each(|upload| upload.is_over.store(true, Ordering::Relaxed));
    }
}

/// One task's part of a checkpoint on its way into the store.
pub(crate) struct Upload {
    attempt: Arc<Attempt>,
    task: TaskId,
    subtask: u16,
    channels: Arc<[InputChannel]>,
    checkpoint: CheckpointId,
    /// Nobody waits for it any more, or it has failed.
    is_over: AtomicBool,
    halves: Mutex<Halves>,
}

/// What is in the store already.
#[derive(Default)]
struct Halves {
    states: Option<TaskPart>,
    rest: Option<Rest>,
}

/// What a task knows of a checkpoint once it has taken everything.
struct Rest {
    in_flight: Option<ChannelState>,
    stats: TaskStats,
    taken_at: Time,
}

impl Upload {
    /// All has been taken: writes the records in flight, which are here by channel, and acknowledges or
    /// declines.
    pub(crate) fn finish(self: Arc<Self>, in_flight: BTreeMap<usize, Saved>, stats: TaskStats) {
        let mut rest = Rest {
            in_flight: None,
            stats,
            taken_at: self.attempt.clock.now(),
        };
        if in_flight.is_empty() {
            return self.stored(|halves| halves.rest = Some(rest));
        }
        let tokio = self.attempt.tokio.clone();
        tokio.spawn_blocking(move || match self.write_in_flight(in_flight) {
            Ok(written) => {
                rest.in_flight = written;
                self.stored(|halves| halves.rest = Some(rest));
            }
            Err(error) => self.fail(error),
        });
    }

    /// Notes what is in the store now, and acknowledges if that is all.
    fn stored(&self, note: impl FnOnce(&mut Halves)) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut halves);
        if let Halves {
            states: Some(states),
            rest: Some(rest),
        } = &mut *halves
        {
            let mut part = mem::take(states);
            part.in_flight = rest.in_flight.take();
            self.acknowledge(part, rest);
        }
    }

    fn acknowledge(&self, mut part: TaskPart, rest: &Rest) {
        let mut stats = rest.stats;
        stats.async_ = self.attempt.clock.now() - rest.taken_at;
        stats.bytes_in_flight = part.in_flight.iter().map(|state| state.file.length).sum();
        let bytes = |of: fn(&TaskStats) -> u64| -> u64 {
            let operators = part.operators.iter();
            operators.map(|(_, part)| of(&part.statistics)).sum()
        };
        stats.bytes_full = stats.bytes_in_flight + bytes(|operator| operator.bytes_full);
        stats.bytes_written = stats.bytes_in_flight + bytes(|operator| operator.bytes_written);
        for (_, Subtask { statistics, .. }) in &mut part.operators {
            // The task's times, next to the bytes of the operator.
            let of_operator = mem::replace(statistics, stats);
            statistics.bytes_full = of_operator.bytes_full;
            statistics.bytes_written = of_operator.bytes_written;
        }
        let acked = Report::Acked {
            checkpoint: self.checkpoint,
            part: Box::new(part),
            stats,
        };
        self.attempt.report(self.task, acked);
    }

    /// Declines, once, unless nobody waits for it.
    fn fail(&self, error: Error) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let declined = Report::Declined {
                checkpoint: self.checkpoint,
                reason: match is_outdated(&error) {
                    true => Decline::Passed,
                    false => Decline::Failed,
                },
                error,
            };
            self.attempt.report(self.task, declined);
        }
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
        let mut bytes_reused = 0;
        if let Some(task) = snapshot.keyed {
            let (keyed, reused) = self.write_keyed(&snapshot.uid, task)?;
            part.keyed.push(keyed);
            bytes_reused += reused;
        }
        part.operator_state = snapshot.operator.into();
        part.pieces = snapshot.pieces.into_iter().map(Into::into).collect();
        part.source = snapshot.splits.unwrap_or_default().into();
        part.statistics.bytes_full = part.bytes();
        part.statistics.bytes_written = part.statistics.bytes_full - bytes_reused;
        Ok(part)
    }

    /// Also says how many bytes are in files of earlier checkpoints.
    fn write_keyed(&self, uid: &str, task: SnapshotTask) -> Result<(KeyedHandle, u64), BoxError> {
        let files = &self.attempt.files;
        let mut keyed = KeyedUpload {
            upload: self,
            handle: files.handle(self.checkpoint, uid, self.subtask),
        };
        let snapshot = task.run(&mut keyed)?;
        let handle = keyed.handle.finish([snapshot.groups], snapshot.manifest);
        Ok((handle, snapshot.bytes_full - snapshot.bytes_new))
    }

    fn write_in_flight(&self, in_flight: BTreeMap<usize, Saved>) -> Result<Option<ChannelState>> {
        let written = self.write_channels(in_flight);
        written.map_err(|error| {
            let message = format!(
                "the records in flight to subtask {} could not be written for checkpoint {}",
                self.subtask, self.checkpoint
            );
            Error::new(ErrorKind::Failed, message).with_source(error)
        })
    }

    fn write_channels(
        &self,
        in_flight: BTreeMap<usize, Saved>,
    ) -> Result<Option<ChannelState>, BoxError> {
        let Some((&first, _)) = in_flight.first_key_value() else {
            return Ok(None);
        };
        let graph = &self.attempt.graph;
        let receiver = graph.name_of_node(graph.edges[self.channels[first].edge].to);
        let mut writer = self
            .attempt
            .files
            .channel_state(self.checkpoint, &receiver, self.subtask);
        for (channel, saved) in in_flight {
            self.check()?;
            let InputChannel { edge, from, .. } = self.channels[channel];
            writer.channel(InFlight::new(
                graph.name_of(edge),
                (graph.edges[edge].schema)(),
                from,
                self.subtask,
                saved.records(),
            ));
            let written = writer.write(saved.into_bytes()?);
            self.attempt.tokio.block_on(written)?;
        }
        Ok(self.attempt.tokio.block_on(writer.finish())?)
    }

    fn check(&self) -> Result<(), BoxError> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err("the checkpoint was given up meanwhile".into());
        }
        Ok(())
    }
}

/// Whether a snapshot was to build on a checkpoint that is no longer retained, as several are under way. The
/// next one builds on nothing, so this is no failure.
fn is_outdated(error: &Error) -> bool {
    let mut sources = iter::successors(error.source(), |&error| error.source());
    sources.any(|error| {
        let error = error.downcast_ref::<cutwater_state::Error>();
        error.is_some_and(|error| error.kind() == cutwater_state::ErrorKind::Outdated)
    })
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
