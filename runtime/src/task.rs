//! A task: the loop of one OS thread over one gate.
//!
//! ```text
//!   gate ─ batch ───▶ port ─▶ chain ─▶ exchanges, sinks
//!        ─ barrier ─▶ aligner ─ Forward ──▶ barrier into the exchanges
//!                             ─ Snapshot ─▶ every operator fixes its view; an upload writes it
//!        ─ control ─▶ triggers, notices, splits
//! ```
//!
//! One thread handles records and barriers, so nothing can come between "the barrier was seen" and
//! "the snapshot was taken" (CASES B01).

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cutwater_barrier::{
    Barrier, CheckpointId,
    align::{AbortReason, AlignError, Aligner, Channel, Effect, Event, Tracker},
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::{Assignment, MaxParallelism};
use cutwater_source::Status;

use crate::{
    Error, ErrorKind, Guarantee, Result,
    attempt::Attempt,
    channel::{Gate, Item, Received, Sender},
    graph::NodeId,
    source::{SourceHead, SplitMessage},
    stage::{OperatorSnapshot, Port, Snapshots, TaskResult, Visit},
    upload::{TaskPart, Uploads},
};

/// How long an idle source waits before it is asked again.
const IDLE: Duration = Duration::from_millis(1);

/// What the coordinator tells a task.
pub(crate) enum Control {
    /// Inject this barrier: the task is a source.
    Trigger(Barrier),
    /// The checkpoint is complete.
    Completed(CheckpointId),
    /// The checkpoint will not be complete.
    Aborted(CheckpointId),
    /// What a sink wrote for checkpoints before this one is committed and no longer named.
    Released { before: CheckpointId },
    /// Something for the task's reader.
    Split(SplitMessage),
}

/// What a task tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// Its operators are open and restored.
    Running,
    /// Its reader has nothing to read.
    SplitsRequested,
    /// It has processed all the input there will be.
    Drained,
    /// Its part of a checkpoint is in the store.
    Acked {
        checkpoint: CheckpointId,
        part: TaskPart,
        stats: TaskStats,
    },
    /// It does not deliver its part of a checkpoint.
    Declined {
        checkpoint: CheckpointId,
        reason: Decline,
        error: Error,
    },
    /// It ended, as the job's last checkpoint asked for.
    Ended { last: CheckpointId },
    /// It failed, and with it the attempt.
    Failed(Error),
}

/// What operators need to know when they are made, on their task's thread.
pub(crate) struct TaskContext {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) subtask: u16,
    pub(crate) parallelism: u16,
    pub(crate) max_parallelism: MaxParallelism,
    /// The outgoing channels of each edge that leaves the task.
    pub(crate) senders: BTreeMap<usize, Vec<Sender<Control>>>,
}

impl TaskContext {
    pub(crate) fn batch_size(&self) -> usize {
        self.attempt.settings.batch_size
    }

    pub(crate) fn default_parallelism(&self) -> u16 {
        self.attempt.settings.parallelism
    }

    pub(crate) fn take_senders(&mut self, edge: usize) -> Vec<Sender<Control>> {
        self.senders
            .remove(&edge)
            .expect("an edge between tasks has channels and is connected once")
    }

    /// Who owns which key groups when `targets` subtasks share them.
    pub(crate) fn assignment(&self, targets: usize) -> Assignment {
        u16::try_from(targets)
            .ok()
            .and_then(|targets| Assignment::contiguous(targets, self.max_parallelism).ok())
            .expect("the parallelism was checked against the max parallelism")
    }
}

/// One subtask of a chain, about to run.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) head: NodeId,
    pub(crate) context: TaskContext,
    pub(crate) gate: Arc<Gate<Control>>,
    /// For each channel of the gate, the port it belongs to.
    pub(crate) ports: Vec<usize>,
}

impl Task {
    /// Makes the operators and runs until the last checkpoint, a failure, or the attempt's end.
    pub(crate) fn run(self) -> TaskResult<CheckpointId> {
        let Self {
            id,
            head,
            mut context,
            gate,
            ports,
        } = self;
        let attempt = Arc::clone(&context.attempt);
        let source = attempt.graph.make_source(head, &mut context)?;
        let inputs = match source {
            Some(_) => Vec::new(),
            None => attempt.make_ports(head, &mut context)?,
        };
        let alignment = Alignment::new(attempt.settings.guarantee, ports.len());
        let uploads = Uploads::new(&attempt, id, context.subtask);
        let mut running = Running {
            id,
            attempt,
            gate,
            open_channels: ports.len(),
            ports,
            inputs,
            reading: source.is_some(),
            source,
            alignment,
            uploads,
            last: None,
            snapshot: None,
            bytes_aligned: 0,
        };
        running.attempt.report(id, Report::Running);
        running.run()
    }
}

/// The aligner or the tracker: they hear and say the same.
enum Alignment {
    ExactlyOnce(Aligner),
    AtLeastOnce(Tracker),
}

impl Alignment {
    fn new(guarantee: Guarantee, channels: usize) -> Self {
        match guarantee {
            Guarantee::ExactlyOnce => Self::ExactlyOnce(Aligner::new(channels)),
            Guarantee::AtLeastOnce => Self::AtLeastOnce(Tracker::new(channels)),
        }
    }

    fn is_blocked(&self, channel: usize) -> bool {
        match self {
            Self::ExactlyOnce(aligner) => aligner.is_blocked(Channel(channel)),
            Self::AtLeastOnce(_) => false,
        }
    }

    fn is_aligning(&self) -> bool {
        match self {
            Self::ExactlyOnce(aligner) => aligner.current().is_some(),
            Self::AtLeastOnce(_) => false,
        }
    }

    fn handle(&mut self, now: cutwater_barrier::Time, event: Event) -> Result<(), AlignError> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.handle(now, event),
            Self::AtLeastOnce(tracker) => tracker.handle(now, event),
        }
    }

    fn poll(&mut self) -> Option<Effect> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.poll(),
            Self::AtLeastOnce(tracker) => tracker.poll(),
        }
    }
}

struct Running {
    id: TaskId,
    attempt: Arc<Attempt>,
    gate: Arc<Gate<Control>>,
    ports: Vec<usize>,
    /// How many channels have not delivered their end of data.
    open_channels: usize,
    /// One for each input of the head; none for a source.
    inputs: Vec<Box<dyn Port>>,
    source: Option<Box<dyn SourceHead>>,
    /// Whether the source is to be polled.
    reading: bool,
    alignment: Alignment,
    uploads: Uploads,
    /// The checkpoint after which the task ends.
    last: Option<CheckpointId>,
    /// What the last snapshot fixed, and how long it took, until it is acknowledged.
    snapshot: Option<(Vec<OperatorSnapshot>, Duration)>,
    bytes_aligned: u64,
}

/// Whether the task's loop goes on.
enum Next {
    Continue,
    End(CheckpointId),
}

impl Running {
    fn run(&mut self) -> TaskResult<CheckpointId> {
        let flush_interval = self.attempt.settings.flush_interval;
        let mut flush_at = self.attempt.clock.instant() + flush_interval;
        loop {
            match self
                .gate
                .poll(|channel| self.alignment.is_blocked(channel))?
            {
                Some(Received::Control(control)) => {
                    if let Next::End(last) = self.control(control)? {
                        return Ok(last);
                    }
                }
                Some(Received::Item { channel, item }) => self.item(channel, item)?,
                None => {
                    if let Some(until) = self.read()? {
                        self.visit(&mut Visit::Flush)?;
                        let now = || self.attempt.clock.instant();
                        self.gate
                            .wait(until, now, |channel| self.alignment.is_blocked(channel))?;
                    }
                }
            }
            let now = self.attempt.clock.instant();
            if now >= flush_at {
                self.visit(&mut Visit::Flush)?;
                flush_at = now + flush_interval;
            }
        }
    }

    /// Has the source read a batch. When there is nothing to do: until when to wait.
    fn read(&mut self) -> TaskResult<Option<Option<Instant>>> {
        let Some(source) = self.source.as_mut().filter(|_| self.reading) else {
            return Ok(Some(None));
        };
        Ok(match source.poll()? {
            Status::More => None,
            Status::Idle => Some(Some(self.attempt.clock.instant() + IDLE)),
            Status::Drained => {
                self.reading = false;
                self.attempt.report(self.id, Report::SplitsRequested);
                Some(None)
            }
            Status::Finished => {
                self.reading = false;
                self.drained()?;
                Some(None)
            }
        })
    }

    fn drained(&mut self) -> TaskResult {
        self.visit(&mut Visit::EndOfData)?;
        self.attempt.report(self.id, Report::Drained);
        Ok(())
    }

    fn control(&mut self, control: Control) -> TaskResult<Next> {
        match control {
            Control::Trigger(barrier) => self.align(Event::Triggered { barrier })?,
            Control::Split(message) => {
                if let Some(source) = &mut self.source {
                    source.tell(message)?;
                    self.reading = self.last.is_none();
                }
            }
            Control::Released { before } => self.visit(&mut Visit::Released(before))?,
            Control::Completed(checkpoint) => {
                self.visit(&mut Visit::Completed(checkpoint))?;
                if self.last == Some(checkpoint) {
                    return Ok(Next::End(checkpoint));
                }
            }
            Control::Aborted(checkpoint) => {
                self.uploads.cancel(checkpoint);
                self.visit(&mut Visit::Aborted(checkpoint))?;
                self.align(Event::Aborted { checkpoint })?;
            }
        }
        Ok(Next::Continue)
    }

    fn item(&mut self, channel: usize, item: Item) -> TaskResult {
        match item {
            Item::Batch(mut batch) => {
                let bytes = self.inputs[self.ports[channel]].process(&mut batch)?;
                if self.alignment.is_aligning() {
                    self.bytes_aligned += bytes;
                }
                self.gate.recycle(channel, batch);
                Ok(())
            }
            Item::Barrier(barrier) => self.align(Event::Barrier {
                channel: Channel(channel),
                barrier,
            }),
            Item::Cancel(checkpoint) => self.align(Event::Cancelled {
                channel: Channel(channel),
                checkpoint,
            }),
            Item::EndOfData => {
                self.open_channels -= 1;
                if self.open_channels == 0 {
                    self.drained()?;
                }
                Ok(())
            }
        }
    }

    fn align(&mut self, event: Event) -> TaskResult {
        let now = self.attempt.clock.now();
        self.alignment.handle(now, event).map_err(|error| {
            let message = format!("task {} read what its senders did not write", self.id);
            Error::new(ErrorKind::Failed, message).with_source(error)
        })?;
        while let Some(effect) = self.alignment.poll() {
            match effect {
                Effect::Forward(barrier) => self.visit(&mut Visit::Barrier(barrier))?,
                Effect::ForwardCancel(checkpoint) => self.visit(&mut Visit::Cancel(checkpoint))?,
                Effect::Snapshot(barrier) => self.snapshot(barrier)?,
                Effect::Capture { .. } => {
                    let message = "a barrier overtook records, though checkpoints are aligned";
                    return Err(Error::new(ErrorKind::Failed, message).into());
                }
                Effect::Acknowledge {
                    checkpoint,
                    alignment,
                } => {
                    let (operators, sync) =
                        self.snapshot.take().expect("the snapshot comes before");
                    let mut stats = TaskStats::new(alignment);
                    stats.bytes_during_alignment = std::mem::take(&mut self.bytes_aligned);
                    stats.sync = sync;
                    self.uploads.start(checkpoint, operators, stats);
                }
                Effect::Abort { checkpoint, reason } => {
                    self.bytes_aligned = 0;
                    self.snapshot = None;
                    if reason != AbortReason::Aborted {
                        let message = format!("its barrier will not come ({reason:?})");
                        let declined = Report::Declined {
                            checkpoint,
                            reason: Decline::Passed,
                            error: Error::new(ErrorKind::Failed, message),
                        };
                        self.attempt.report(self.id, declined);
                    }
                }
                Effect::Resume => {} // The gate asks `is_blocked` anew for each item.
            }
        }
        Ok(())
    }

    /// The synchronous part: every operator fixes its view, then records flow again.
    fn snapshot(&mut self, barrier: Barrier) -> TaskResult {
        let started = self.attempt.clock.now();
        let is_last = barrier.then.is_stop();
        let mut snapshots = Snapshots {
            checkpoint: barrier.checkpoint,
            input: barrier.then.into(),
            operators: Vec::new(),
        };
        self.visit(&mut Visit::Snapshot(&mut snapshots))?;
        if is_last {
            self.last = Some(barrier.checkpoint);
            self.reading = false;
        }
        let sync = self.attempt.clock.now() - started;
        self.snapshot = Some((snapshots.operators, sync));
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match &mut self.source {
            Some(source) => source.visit(visit),
            // The stages behind a two-input head are the same for both ports.
            None => self.inputs[0].visit(visit),
        }
    }
}
