//! A task at work: the loop of one OS thread over one gate.
//!
//! ```text
//!   gate ─ batch ───▶ port ─▶ chain ─▶ exchanges, sinks
//!        ─ barrier ─▶ aligner ─ Forward ─────▶ barrier into the exchanges
//!                             ─ Snapshot ────▶ every operator fixes its view; an upload begins
//!                             ─ Capture ─────▶ records that the barrier overtook are encoded
//!                             ─ Acknowledge ─▶ the upload gets them, and reports when it is done
//!        ─ control ─▶ triggers, notices, splits
//! ```
//!
//! One thread handles records and barriers, so nothing can come between "the barrier was seen" and
//! "the snapshot was taken" (CASES B01). It waits in one place only, for its gate: never for room in a
//! channel, which it asks for before it takes input, so a barrier can always reach it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cutwater_barrier::{
    Barrier, CheckpointId, Kind, Mode,
    align::{AbortReason, Channel, Effect, Event, Reading},
    coordinate::{Decline, TaskId},
    stats::TaskStats,
};
use cutwater_source::Status;

use crate::{
    Error, ErrorKind,
    alarm::Alarm,
    alignment::Alignment,
    attempt::Attempt,
    channel::{AnyBatch, Gate, Item, Received, Wanted},
    debloat::Debloat,
    outlets::Outlets,
    pace::Pace,
    part::Part,
    probe::Probes,
    settings,
    source::SourceHead,
    stage::{Port, Snapshots, TaskResult, Visit},
    task::{Control, InputChannel, Report, Task},
    upload::Uploads,
};

/// How long an idle source waits before it is asked again.
const IDLE: Duration = Duration::from_millis(1);

/// A task whose operators are open.
pub(crate) struct Running {
    id: TaskId,
    attempt: Arc<Attempt>,
    gate: Arc<Gate<Control>>,
    channels: Arc<[InputChannel]>,
    outlets: Outlets,
    /// One for each input of the head; none for a source.
    ports: Vec<Box<dyn Port>>,
    source: Option<Box<dyn SourceHead>>,
    /// Whether the source is to be polled.
    reading: bool,
    /// A batch of which only the first records have been processed, and its channel.
    begun: Option<(usize, AnyBatch)>,
    alignment: Alignment,
    /// What has been taken for the checkpoint in progress.
    part: Option<Part>,
    uploads: Uploads,
    probes: Probes,
    /// None where no barrier overtakes: whole batches cost least.
    pace: Option<Pace>,
    debloat: Option<Debloat>,
    alarm: Alarm,
    flush_at: Instant,
    /// The checkpoint whose barriers still have to get into the task's loop.
    due: Option<CheckpointId>,
    /// The checkpoint after which the task ends.
    last: Option<CheckpointId>,
    bytes_aligned: u64,
}

/// Whether the task's loop goes on.
enum Next {
    Continue,
    End(CheckpointId),
}

impl Running {
    /// Makes the operators of `task`, restored and ready.
    pub(crate) fn open(task: Task) -> TaskResult<Self> {
        let Task {
            id,
            head,
            mut context,
            gate,
            channels,
        } = task;
        let channels: Arc<[InputChannel]> = channels.into();
        let attempt = Arc::clone(&context.attempt);
        let settings = &attempt.settings;
        let senders = context.senders.values().flatten().cloned().collect();
        let outlets = Outlets::new(senders, context.backlog.clone());
        let source = attempt.graph.make_source(head, &mut context)?;
        let ports = match source {
            Some(_) => Vec::new(),
            None => attempt.make_ports(head, &mut context)?,
        };
        let inputs = channels.iter().map(|channel| channel.input);
        let first = settings.capacity().records;
        Ok(Self {
            id,
            outlets,
            ports,
            reading: source.is_some(),
            source,
            begun: None,
            alignment: Alignment::new(settings.guarantee, inputs),
            part: None,
            uploads: Uploads::new(&attempt, id, context.subtask, Arc::clone(&channels)),
            probes: Probes::new(attempt.topology.loop_of(head), &channels),
            pace: (settings.barriers != Mode::Aligned).then(|| Pace::new(settings.batch_size)),
            debloat: settings
                .debloat
                .filter(|_| !channels.is_empty())
                .map(|target| Debloat::new(target, channels.len(), first, settings.records_max())),
            alarm: context.alarm,
            flush_at: attempt.clock.instant(),
            due: None,
            last: None,
            bytes_aligned: 0,
            channels,
            gate,
            attempt,
        })
    }

    pub(crate) fn run(mut self) -> TaskResult<CheckpointId> {
        self.attempt.report(self.id, Report::Running);
        loop {
            let has_room = self.outlets.have_room(&self.gate)?;
            if has_room {
                self.fire()?;
            }
            let wanted = match (&self.begun, has_room) {
                (Some(_), _) => Wanted::None,
                (None, false) => Wanted::Marks,
                (None, true) => Wanted::All,
            };
            let alignment = &self.alignment;
            let received = self.gate.poll(wanted, |channel| {
                alignment.reading(channel) == Reading::Blocked
            })?;
            match received {
                Some(Received::Control(control)) => {
                    if let Next::End(last) = self.control(control)? {
                        return Ok(last);
                    }
                }
                Some(Received::Overtook { channel, barrier }) => {
                    let channel = Channel(channel);
                    self.align(Event::Overtook { channel, barrier })?;
                }
                Some(Received::Item { channel, item }) => self.item(channel, item)?,
                None if !has_room => self.wait(None, wanted)?,
                None if self.begun.is_some() => self.step()?,
                None => {
                    if let Some(until) = self.read()? {
                        self.wait(until, wanted)?;
                    }
                }
            }
            self.tick()?;
        }
    }

    /// Calls timers that are due, but not more than make one batch: input and barriers have their turn too.
    fn fire(&mut self) -> TaskResult {
        // Nothing is processed behind the last cut.
        let Some(time) = self.alarm.time().filter(|_| self.last.is_none()) else {
            return Ok(());
        };
        let clock = self.attempt.clock;
        let now = clock.timestamp(clock.now());
        if now >= time {
            self.alarm.clear();
            self.visit(&mut Visit::Timers(now))?;
        }
        Ok(())
    }

    /// Waits for something to do, at most `until`.
    fn wait(&mut self, until: Option<Instant>, wanted: Wanted) -> TaskResult {
        self.visit(&mut Visit::Flush)?;
        let clock = self.attempt.clock;
        let deadline = self.alignment.deadline();
        let deadline = deadline.and_then(|at| clock.instant_of(at));
        let alarm = self
            .alarm
            .time()
            .filter(|_| wanted == Wanted::All && self.last.is_none());
        let alarm = alarm.and_then(|time| clock.instant_at(time));
        let until = until.into_iter().chain(deadline).chain(alarm).min();
        let alignment = &self.alignment;
        let since = clock.instant();
        self.gate.wait(
            until,
            || clock.instant(),
            wanted,
            |channel| alignment.reading(channel) == Reading::Blocked,
        )?;
        if let Some(debloat) = &mut self.debloat
            && wanted == Wanted::All
        {
            debloat.idled(clock.instant() - since);
        }
        Ok(())
    }

    /// What is due by the clock.
    fn tick(&mut self) -> TaskResult {
        let now = self.attempt.clock.instant();
        if now >= self.flush_at {
            self.visit(&mut Visit::Flush)?;
            self.flush_at = now + self.attempt.settings.flush_interval;
        }
        let deadline = self.alignment.deadline();
        let deadline = deadline.and_then(|at| self.attempt.clock.instant_of(at));
        if deadline.is_some_and(|deadline| now >= deadline) {
            self.align(Event::Woke)?;
        }
        if let Some(debloat) = &mut self.debloat
            && let Some(records) = debloat.limit(now)
        {
            self.gate.limit(records);
        }
        Ok(())
    }

    /// Polls the source. Returns until when to wait, or `None` if there may be more at once.
    fn read(&mut self) -> TaskResult<Option<Option<Instant>>> {
        let step = self.step_size();
        let Some(source) = self.source.as_mut().filter(|_| self.reading) else {
            return Ok(Some(None));
        };
        let clock = self.attempt.clock;
        let start = self.pace.as_ref().map(|_| clock.instant());
        let (status, records) = source.poll(step)?;
        if let (Some(pace), Some(start)) = (&mut self.pace, start) {
            pace.took(records, start, clock.instant());
        }
        Ok(match status {
            Status::More => None,
            Status::Idle => Some(Some(clock.instant() + IDLE)),
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

    /// Processes the next records of the batch that was begun.
    fn step(&mut self) -> TaskResult {
        let Some((channel, mut batch)) = self.begun.take() else {
            return Ok(());
        };
        let most = self.step_size();
        let port = &mut self.ports[self.channels[channel].port];
        let is_recorded = self.alignment.reading(channel) == Reading::Recorded;
        let part = self.part.as_mut().filter(|_| is_recorded);
        let saved = part.map(|part| part.saved(channel));
        if self.last.is_some() {
            // Nothing is processed behind the last cut. What a loop still has is in the checkpoint.
            if let Some(saved) = saved {
                port.save(&batch, saved);
            }
            return Ok(());
        }
        let clock = self.attempt.clock;
        let start = self.pace.as_ref().map(|_| clock.instant());
        let step = port.process(&mut batch, most, saved)?;
        if let (Some(pace), Some(start)) = (&mut self.pace, start) {
            pace.took(step.records, start, clock.instant());
        }
        self.probes.took(channel);
        if let Some(debloat) = &mut self.debloat {
            debloat.took(step.records);
        }
        if self.alignment.is_aligning() {
            self.bytes_aligned += step.bytes;
        }
        if step.is_last {
            self.gate.recycle(channel, batch);
        } else {
            self.begun = Some((channel, batch));
        }
        Ok(())
    }

    /// Records for the next step. It does not send much more than the channels behind it may hold: they
    /// are asked for room only between two steps.
    fn step_size(&self) -> usize {
        let settings = &self.attempt.settings;
        let pace = self.pace.as_ref();
        let step = pace.map_or(settings.batch_size, Pace::step);
        match settings.debloat {
            None => step,
            Some(_) => step.min(self.outlets.records_max() / 2).max(1),
        }
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
                self.not_due(checkpoint);
            }
            Control::Due(checkpoint) => {
                self.due = Some(checkpoint);
                self.gate.admit(true);
            }
            Control::Probe(round) => {
                let probe = self.probes.start(round);
                self.visit(&mut Visit::Probe(probe))?;
            }
            Control::LoopEnded => self.drained()?,
        }
        Ok(Next::Continue)
    }

    fn item(&mut self, channel: usize, item: Item) -> TaskResult {
        match item {
            Item::Batch { batch, .. } => {
                self.begun = Some((channel, batch));
                self.step()
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
                if self.probes.ended(channel) {
                    if self.probes.is_head() {
                        self.attempt.report(self.id, Report::LoopInputEnded);
                    } else {
                        self.drained()?;
                    }
                }
                self.probed()
            }
            Item::Probe(probe) => {
                self.probes.arrived(channel, probe);
                self.probed()
            }
        }
    }

    /// Passes a probe on, or says that it is back, once it has come in all channels.
    fn probed(&mut self) -> TaskResult {
        while let Some((probe, is_quiet)) = self.probes.poll() {
            if self.probes.is_head() {
                let round = probe.round;
                self.attempt
                    .report(self.id, Report::Probed { round, is_quiet });
            } else {
                self.visit(&mut Visit::Probe(probe))?;
            }
        }
        Ok(())
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
                Effect::Capture {
                    checkpoint,
                    channel: Channel(channel),
                } => self.capture(checkpoint, channel),
                Effect::Acknowledge { alignment, .. } => {
                    let part = self.part.take();
                    let part = part.expect("a snapshot comes before its acknowledgement");
                    let mut stats = TaskStats::new(alignment);
                    stats.sync = part.sync;
                    stats.bytes_during_alignment = std::mem::take(&mut self.bytes_aligned);
                    part.upload.finish(part.in_flight, stats);
                }
                Effect::Abort { checkpoint, reason } => self.abort(checkpoint, reason),
                Effect::Resume => {} // The gate asks anew for each item.
            }
        }
        Ok(())
    }

    /// The barriers of `checkpoint` need not get into the loop any more.
    fn not_due(&mut self, checkpoint: CheckpointId) {
        if self.due.is_some_and(|due| due <= checkpoint) {
            self.due = None;
            self.gate.admit(false);
        }
    }

    fn abort(&mut self, checkpoint: CheckpointId, reason: AbortReason) {
        self.bytes_aligned = 0;
        self.part = None;
        self.uploads.cancel(checkpoint);
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

    /// The synchronous part: every operator fixes its view, then records flow again.
    fn snapshot(&mut self, barrier: Barrier) -> TaskResult {
        let started = self.attempt.clock.now();
        let is_last = barrier.then.is_stop();
        self.not_due(barrier.checkpoint);
        let mut snapshots = Snapshots {
            checkpoint: barrier.checkpoint,
            input: barrier.then.into(),
            completed: self.attempt.completed.get(),
            is_whole: barrier.kind == Kind::Savepoint
                || self.attempt.settings.snapshots == settings::Snapshots::Full,
            operators: Vec::new(),
        };
        self.visit(&mut Visit::Snapshot(&mut snapshots))?;
        if is_last {
            self.last = Some(barrier.checkpoint);
            self.reading = false;
        }
        let sync = self.attempt.clock.now() - started;
        let upload = self.uploads.begin(barrier.checkpoint, snapshots.operators);
        self.part = Some(Part {
            upload,
            in_flight: BTreeMap::new(),
            sync,
        });
        Ok(())
    }

    /// Saves what waits in a channel before the barrier of `checkpoint`: first the rest of the batch
    /// that was begun, then the queue.
    fn capture(&mut self, checkpoint: CheckpointId, channel: usize) {
        let port = &self.ports[self.channels[channel].port];
        let part = self.part.as_mut();
        let part = part.expect("a snapshot comes before its captures");
        if let Some((begun, batch)) = &self.begun
            && *begun == channel
        {
            port.save(batch, part.saved(channel));
        }
        self.gate.capture(channel, checkpoint, |batch| {
            port.save(batch, part.saved(channel));
        });
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match &mut self.source {
            Some(source) => source.visit(visit),
            // The stages behind a two-input head are the same for both ports.
            None => self.ports[0].visit(visit),
        }
    }
}
