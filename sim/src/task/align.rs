//! The task's side of a checkpoint: what the machine hears, and how its effects are carried out.

use cutwater_barrier::{
    Barrier, CheckpointId, Mode, Time,
    align::{AbortReason, Channel, Effect, Event, Reading},
    stats::TaskStats,
    testkit::Did,
};
use cutwater_sink_2pc::Writer;

use super::{News, Surroundings, Task};
use crate::{
    record::{Item, Record},
    stepped::at_once,
    stored::{self, ChannelName, Frozen, InFlight},
    trace,
};

/// A checkpoint whose cut was made, and of which something is still to come.
#[derive(Debug)]
pub(super) struct Capture {
    checkpoint: CheckpointId,
    frozen: Frozen,
    /// How many sections of the records in flight were so already when this attempt began.
    restored: usize,
}

/// What the coordinator tells a task. May get lost, come twice or late, except for the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Trigger(Barrier),
    Aborted(CheckpointId),
    Completed(CheckpointId),
    /// What a sink wrote for checkpoints before this one is committed and no longer named.
    Released(CheckpointId),
}

impl Task {
    /// Hears from the coordinator.
    pub(crate) fn hear(&mut self, notice: Notice, at: &mut Surroundings<'_>) {
        if self.finished {
            return;
        }
        match notice {
            Notice::Trigger(barrier) => self.tell(Event::Triggered { barrier }, at),
            Notice::Aborted(checkpoint) => {
                self.shared.aborted(checkpoint);
                self.tell(Event::Aborted { checkpoint }, at);
            }
            Notice::Completed(checkpoint) => {
                self.shared.confirmed(checkpoint);
                self.unsettled.completed(checkpoint);
            }
            Notice::Released(before) => {
                if let Some(writer) = &mut self.writer {
                    at_once(writer.released(before)).expect("the sink needs no answer");
                }
            }
        }
    }

    /// Reads the oldest note of some channel.
    pub(super) fn read_note(&mut self, at: &mut Surroundings<'_>) -> bool {
        let noted = |input: &super::Input| at.lanes[input.lane].has_note();
        let Some(index) = self.inputs.iter().position(noted) else {
            return false;
        };
        let barrier = at.lanes[self.inputs[index].lane].read_note();
        let barrier = barrier.expect("there is a note");
        let channel = Channel(index);
        self.tell(Event::Overtook { channel, barrier }, at);
        true
    }

    pub(super) fn wake(&mut self, at: &mut Surroundings<'_>) {
        if self.machine.deadline().is_some_and(|at_| at_ <= at.env.now) {
            self.tell(Event::Woke, at);
        }
    }

    /// Takes one item that was read from a channel, in order.
    pub(super) fn take(&mut self, index: usize, item: Item, at: &mut Surroundings<'_>) {
        let channel = Channel(index);
        self.heed_senders(at);
        match item {
            Item::Record(record) => {
                let number = at.lanes[self.inputs[index].lane].read - 1;
                if self.machine.reading(channel) == Reading::Recorded {
                    self.keep(index, number, vec![record], at);
                }
                self.watched.did(Did::Read {
                    channel,
                    record: number,
                });
                self.process(self.inputs[index].edge, record, at);
            }
            Item::Barrier(barrier) => self.tell(Event::Barrier { channel, barrier }, at),
            Item::Cancel(checkpoint) => {
                self.tell(
                    Event::Cancelled {
                        channel,
                        checkpoint,
                    },
                    at,
                );
            }
            Item::Drained => self.inputs[index].drained = true,
            Item::End => {
                self.inputs[index].ended = true;
                self.tell(Event::Finished { channel }, at);
            }
        }
    }

    /// Has the machine handle an event, and does what it says, in order.
    fn tell(&mut self, event: Event, at: &mut Surroundings<'_>) {
        let (now, number) = (at.env.now, self.number);
        at.env
            .note(|| format!("t{number:<2} < {}", trace::event(&event)));
        self.heed_senders(at);
        self.watched.told(now, event);
        self.machine
            .handle(now, event)
            .unwrap_or_else(|error| panic!("task {number} drives its machine wrongly: {error}"));
        while let Some(effect) = self.machine.poll() {
            at.env
                .note(|| format!("t{number:<2} > {}", trace::effect(&effect)));
            self.carry_out(now, effect, at);
        }
    }

    /// Tells the watch what others have sent; at the head of a loop that may be this task itself.
    fn heed_senders(&mut self, at: &mut Surroundings<'_>) {
        let inputs = &at.layout.tasks[self.number].inputs;
        self.watched.fed(inputs, at.lanes);
    }

    fn carry_out(&mut self, now: Time, effect: Effect, at: &mut Surroundings<'_>) {
        match effect {
            Effect::Forward(barrier) => self.forward(barrier, at),
            Effect::ForwardCancel(checkpoint) => {
                for lane in self.all_outputs(at.layout) {
                    at.lanes[lane].send(Item::Cancel(checkpoint));
                    self.watched.cancelled(lane, checkpoint);
                }
            }
            Effect::Snapshot(barrier) => self.freeze(now, barrier, at),
            Effect::Capture {
                checkpoint,
                channel,
            } => {
                let lane = &mut at.lanes[self.inputs[channel.0].lane];
                let (next, captured) = (lane.read, lane.capture(checkpoint));
                self.keep(channel.0, next, captured, at);
                self.watched.did(Did::Captured {
                    checkpoint,
                    channel,
                });
            }
            Effect::Acknowledge {
                checkpoint,
                alignment,
            } => self.acknowledge(checkpoint, TaskStats::new(alignment), at),
            Effect::Abort { checkpoint, reason } => {
                self.capture = None;
                self.watched.did(Did::Aborted { checkpoint });
                if reason != AbortReason::Aborted {
                    at.news.push(News::GaveUp(checkpoint));
                }
            }
            Effect::Resume => {} // The machine is asked before each item.
        }
    }

    /// Into every output: behind what was sent, and ahead of it where the barrier may overtake.
    fn forward(&mut self, barrier: Barrier, at: &mut Surroundings<'_>) {
        for lane in self.all_outputs(at.layout) {
            let edge = at.layout.channels[lane].edge;
            let announced = barrier.may_overtake() && !at.env.job.edges[edge].exchange.is_strict();
            self.watched.forwarded(lane, barrier, announced);
            if !announced {
                at.lanes[lane].send(Item::Barrier(barrier));
            } else {
                at.lanes[lane].announce(barrier);
                if barrier.mode == Mode::Unaligned {
                    at.lanes[lane].flush(usize::MAX); // It waits for no room.
                }
            }
        }
        self.stopped |= barrier.then.is_stop();
        at.env
            .coverage
            .count(match (at.env.job.config.mode, barrier.mode) {
                (Mode::AlignedFor(_), Mode::Unaligned) => "cuts: aligned at first, then unaligned",
                (_, Mode::Unaligned) => "cuts: unaligned",
                _ => "cuts: aligned",
            });
    }

    /// Fixes the task's view. What was restored and not processed yet is in flight.
    fn freeze(&mut self, now: Time, barrier: Barrier, at: &mut Surroundings<'_>) {
        let checkpoint = barrier.checkpoint;
        for (group, counts) in &self.counts {
            let file = || {
                let name = format!("c{checkpoint}-{group}");
                (name, stored::file(*group, counts))
            };
            self.files.entry(*group).or_insert_with(file);
        }
        let shared = self
            .files
            .iter()
            .filter(|(_, (name, bytes))| self.shared.contains(name, bytes.len() as u64));
        let mut frozen = Frozen {
            files: self.files.clone(),
            shared: shared.map(|(group, _)| *group).collect(),
            positions: self
                .positions
                .iter()
                .map(|(&split, &next)| (split, next))
                .collect(),
            in_flight: InFlight::new(),
            prepared: Vec::new(),
        };
        if !self.restored.is_empty() {
            at.env
                .coverage
                .count("cuts: before all restored records were processed");
        }
        for &(channel, record) in &self.restored {
            match frozen.in_flight.last_mut() {
                Some((last, records)) if *last == channel => records.push(record),
                _ => frozen.in_flight.push((channel, vec![record])),
            }
        }
        let restored = frozen.in_flight.len();
        if let Some(writer) = &mut self.writer {
            match at_once(writer.prepare(now, checkpoint, barrier.then.into())) {
                Ok(flushed) => {
                    frozen.prepared = self.unsettled.report(flushed.prepared).to_vec();
                }
                Err(error) => {
                    let is_fenced = error.newer_generation().is_some();
                    at.news.push(News::Failed { is_fenced });
                }
            }
        }
        self.watched.did(Did::Snapshotted { checkpoint });
        assert!(self.capture.is_none(), "one capture at a time");
        self.capture = Some(Capture {
            checkpoint,
            frozen,
            restored,
        });
    }

    /// Saves records of a channel, from number `first` on, with the checkpoint in progress.
    fn keep(&mut self, index: usize, first: u64, records: Vec<Record>, at: &mut Surroundings<'_>) {
        let lane = &at.layout.channels[self.inputs[index].lane];
        let channel = (lane.edge, at.layout.tasks[lane.from].subtask);
        let capture = self.capture.as_mut().expect("recorded after the snapshot");
        let checkpoint = capture.checkpoint;
        self.watched
            .saved(checkpoint, Channel(index), first, records.len());
        let sections = &mut capture.frozen.in_flight;
        let of_channel = |(name, _): &(ChannelName, _)| *name == channel;
        match sections[capture.restored..].iter().position(of_channel) {
            Some(place) => sections[capture.restored + place].1.extend(records),
            None => sections.push((channel, records)),
        }
    }

    /// Everything of the checkpoint is in hand.
    fn acknowledge(
        &mut self,
        checkpoint: CheckpointId,
        stats: TaskStats,
        at: &mut Surroundings<'_>,
    ) {
        let capture = self.capture.take().expect("a snapshot comes first");
        assert_eq!(capture.checkpoint, checkpoint, "of the same checkpoint");
        self.watched.did(Did::Acknowledged { checkpoint });
        let frozen = Box::new(capture.frozen);
        at.news.push(News::Taken {
            checkpoint,
            frozen,
            stats,
        });
    }
}
