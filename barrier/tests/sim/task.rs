//! A simulated task: the driver that an engine would write.

use std::collections::{BTreeMap, VecDeque};

use cutwater_barrier::align::{AlignError, Channel, Effect, Event, Reading};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time, Tracker};

use crate::scenario::Scenario;

/// Which record: its source, its position there.
pub(crate) type Record = (usize, u64);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Record(Record),
    Barrier(Barrier),
    Cancel(CheckpointId),
    /// All input has been sent; barriers may follow.
    Drained,
    /// Nothing follows.
    End,
}

/// A task's part of a checkpoint.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Part {
    /// Unlike any other, so that it can be followed.
    pub(crate) serial: u64,
    /// A source's next record.
    pub(crate) position: u64,
    /// How often each record was processed; of the last layer only.
    pub(crate) processed: BTreeMap<Record, u32>,
}

/// What a step of the task has to tell the coordinator.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum News {
    Snapshot(CheckpointId, Part),
    GaveUp(CheckpointId),
    Drained,
    Finished(Option<CheckpointId>),
}

#[derive(Debug)]
pub(crate) enum Machine {
    ExactlyOnce(Aligner),
    AtLeastOnce(Tracker),
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) machine: Machine,
    pub(crate) queues: Vec<VecDeque<Item>>,
    part: Part,
    records: u64,
    input_over: Vec<bool>,
    input_ended: Vec<bool>,
    drained: bool,
    /// A source that has sent the barrier of a stop.
    stopped: bool,
    pub(crate) finished: bool,
}

impl Task {
    pub(crate) fn new(scenario: &Scenario, index: usize, part: Part) -> Self {
        let channels = scenario.inputs[index].len();
        Self {
            machine: if scenario.exactly_once {
                Machine::ExactlyOnce(Aligner::new(channels))
            } else {
                Machine::AtLeastOnce(Tracker::new(channels))
            },
            queues: vec![VecDeque::new(); channels],
            part,
            records: scenario.records.get(index).copied().unwrap_or(0),
            input_over: vec![false; channels],
            input_ended: vec![false; channels],
            drained: false,
            stopped: false,
            finished: false,
        }
    }

    /// The channels that have something to read and may be read.
    pub(crate) fn readable(&self) -> Vec<usize> {
        (0..self.queues.len())
            .filter(|&channel| !self.queues[channel].is_empty())
            .filter(|&channel| self.reading(Channel(channel)) != Reading::Blocked)
            .collect()
    }

    /// A source's turn: the next record, or the end.
    pub(crate) fn emit(
        &mut self,
        index: usize,
        early: bool,
        out: &mut Outputs,
        news: &mut Vec<News>,
    ) {
        if self.stopped || self.drained {
            return;
        }
        if self.part.position < self.records {
            out.items.push(Item::Record((index, self.part.position)));
            self.part.position += 1;
        } else {
            self.input_is_over(early, out, news);
        }
    }

    /// Reads one item of a channel.
    pub(crate) fn read(
        &mut self,
        now: Time,
        channel: usize,
        role: Role,
        out: &mut Outputs,
        news: &mut Vec<News>,
    ) {
        let item = self.queues[channel]
            .pop_front()
            .expect("the channel is readable");
        let index = channel;
        let channel = Channel(channel);
        match item {
            Item::Record(record) => match role {
                Role::Last => *self.part.processed.entry(record).or_default() += 1,
                Role::Middle { .. } => out.items.push(item),
            },
            Item::Barrier(barrier) => {
                self.tell(now, Event::Barrier { channel, barrier }, out, news);
            }
            Item::Cancel(checkpoint) => {
                self.tell(
                    now,
                    Event::Cancelled {
                        channel,
                        checkpoint,
                    },
                    out,
                    news,
                );
            }
            Item::Drained => self.input_over[index] = true,
            Item::End => {
                self.input_over[index] = true;
                self.input_ended[index] = true;
                self.tell(now, Event::Finished { channel }, out, news);
            }
        }
        if self.input_over.iter().all(|&over| over) {
            let ended = self.input_ended.iter().all(|&ended| ended);
            let early = ended
                && role
                    == Role::Middle {
                        finishes_early: true,
                    };
            self.input_is_over(early, out, news);
        }
    }

    /// Has the machine handle an event and carries its effects out.
    pub(crate) fn tell(
        &mut self,
        now: Time,
        event: Event,
        out: &mut Outputs,
        news: &mut Vec<News>,
    ) {
        self.handle(now, event)
            .expect("the simulated driver is correct");
        let mut forwarded = None;
        while let Some(effect) = self.poll() {
            match effect {
                Effect::Forward(barrier) => {
                    out.items.push(Item::Barrier(barrier));
                    self.stopped |= barrier.then.is_stop();
                    forwarded = Some(barrier);
                }
                Effect::Snapshot(barrier) => {
                    assert_eq!(forwarded.take(), Some(barrier), "the barrier goes first");
                    out.serial += 1;
                    self.part.serial = out.serial;
                }
                Effect::Acknowledge { checkpoint, .. } => {
                    news.push(News::Snapshot(checkpoint, self.part.clone()));
                }
                Effect::Capture { .. } => panic!("nothing overtakes here"),
                Effect::ForwardCancel(checkpoint) => out.items.push(Item::Cancel(checkpoint)),
                Effect::Abort { checkpoint, .. } => news.push(News::GaveUp(checkpoint)),
                Effect::Resume => {}
            }
        }
    }

    fn input_is_over(&mut self, ends: bool, out: &mut Outputs, news: &mut Vec<News>) {
        if ends {
            out.items.push(Item::End);
            self.finished = true;
            news.push(News::Finished(self.last()));
        } else if !self.drained {
            self.drained = true;
            out.items.push(Item::Drained);
            news.push(News::Drained);
        }
    }

    fn handle(&mut self, now: Time, event: Event) -> Result<(), AlignError> {
        match &mut self.machine {
            Machine::ExactlyOnce(aligner) => aligner.handle(now, event),
            Machine::AtLeastOnce(tracker) => tracker.handle(now, event),
        }
    }

    fn poll(&mut self) -> Option<Effect> {
        match &mut self.machine {
            Machine::ExactlyOnce(aligner) => aligner.poll(),
            Machine::AtLeastOnce(tracker) => tracker.poll(),
        }
    }

    fn reading(&self, channel: Channel) -> Reading {
        match &self.machine {
            Machine::ExactlyOnce(aligner) => aligner.reading(channel),
            Machine::AtLeastOnce(tracker) => tracker.reading(channel),
        }
    }

    fn last(&self) -> Option<CheckpointId> {
        match &self.machine {
            Machine::ExactlyOnce(aligner) => aligner.last(),
            Machine::AtLeastOnce(tracker) => tracker.last(),
        }
    }
}

/// What a task does with records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Passes them on.
    Middle { finishes_early: bool },
    /// Counts them.
    Last,
}

/// What a task sends in one turn, in order.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) items: Vec<Item>,
    /// The last serial number given to a part.
    pub(crate) serial: u64,
}
