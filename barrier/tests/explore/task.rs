//! A task and its input channels: the driver that an engine would write.

use std::collections::VecDeque;

use cutwater_barrier::align::{AbortReason, Channel, Effect, Event, Input, Reading};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time};

use crate::job::{Job, Records};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Item {
    Record(u8),
    Barrier(Barrier),
    Cancel(CheckpointId),
    End,
}

/// A channel: what was sent in order, and the side lane.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Lane {
    pub(crate) items: VecDeque<Item>,
    pub(crate) notes: VecDeque<Barrier>,
}

/// A task's part of a checkpoint.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Part {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) state: State,
    /// For each input channel.
    in_flight: Vec<Vec<u8>>,
}

/// What the operators of a task remember.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct State {
    /// The records that were read, for each input channel.
    pub(crate) read: Vec<Records>,
    /// The next record of a source.
    pub(crate) position: u8,
}

/// What a task has to say after a step.
#[derive(Debug)]
pub(crate) enum News {
    Send(Item),
    Acked(Part),
    GaveUp(CheckpointId),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Task {
    pub(crate) aligner: Aligner,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) state: State,
    /// Set from the snapshot until the acknowledgement.
    taken: Option<Part>,
    /// A source that has sent its end.
    pub(crate) finished: bool,
}

impl Task {
    /// A task as it starts, from its part of a checkpoint if there is one. What was in flight comes
    /// before anything new.
    pub(crate) fn new(job: &Job, task: usize, part: Option<&Part>) -> Self {
        let inputs: Vec<Input> = job.inputs(task).map(|edge| job.edges[edge].input).collect();
        let mut lanes = vec![Lane::default(); inputs.len()];
        let mut state = State {
            read: vec![0; inputs.len()],
            position: 0,
        };
        if let Some(part) = part {
            state = part.state.clone();
            for (lane, records) in lanes.iter_mut().zip(&part.in_flight) {
                lane.items.extend(records.iter().copied().map(Item::Record));
            }
        }
        Self {
            aligner: Aligner::with_channels(inputs),
            lanes,
            state,
            taken: None,
            finished: false,
        }
    }

    pub(crate) fn is_readable(&self, channel: usize) -> bool {
        let is_blocked = self.aligner.reading(Channel(channel)) == Reading::Blocked;
        !is_blocked && !self.lanes[channel].items.is_empty()
    }

    /// Reads one item. A record that comes round a loop stays here.
    pub(crate) fn read(&mut self, channel: usize, input: Input) -> Vec<News> {
        let item = self.lanes[channel].items.pop_front();
        let index = channel;
        let channel = Channel(channel);
        let event = match item.expect("the channel is readable") {
            Item::Record(record) => {
                if self.aligner.reading(channel) == Reading::Recorded {
                    assert_ne!(input, Input::Strict, "it carries no state");
                    let taken = self.taken.as_mut();
                    let part = taken.expect("a channel is recorded after the snapshot");
                    part.in_flight[index].push(record);
                }
                let read = &mut self.state.read[index];
                assert!(*read & (1 << record) == 0, "record {record} is read twice");
                *read |= 1 << record;
                return match input {
                    Input::Feedback => Vec::new(),
                    Input::Strict | Input::Overtakable => vec![News::Send(Item::Record(record))],
                };
            }
            Item::Barrier(barrier) => Event::Barrier { channel, barrier },
            Item::Cancel(checkpoint) => Event::Cancelled {
                channel,
                checkpoint,
            },
            Item::End => Event::Finished { channel },
        };
        self.tell(Time::ZERO, event)
    }

    /// Reads the side lane. It may do so late, when the barrier has been reached in order.
    pub(crate) fn note(&mut self, channel: usize) -> Vec<News> {
        let barrier = self.lanes[channel].notes.pop_front();
        let barrier = barrier.expect("there is a note");
        let channel = Channel(channel);
        self.tell(Time::ZERO, Event::Overtook { channel, barrier })
    }

    pub(crate) fn tell(&mut self, now: Time, event: Event) -> Vec<News> {
        self.aligner
            .handle(now, event)
            .expect("the driver reports what happened");
        let mut news = Vec::new();
        let mut forwarded = None;
        while let Some(effect) = self.aligner.poll() {
            match effect {
                Effect::Forward(barrier) => {
                    news.push(News::Send(Item::Barrier(barrier)));
                    forwarded = Some(barrier);
                }
                Effect::ForwardCancel(checkpoint) => {
                    news.push(News::Send(Item::Cancel(checkpoint)));
                }
                Effect::Snapshot(barrier) => {
                    assert_eq!(forwarded.take(), Some(barrier), "the barrier goes first");
                    let part = Part {
                        checkpoint: barrier.checkpoint,
                        state: self.state.clone(),
                        in_flight: vec![Vec::new(); self.lanes.len()],
                    };
                    let before = self.taken.replace(part);
                    assert_eq!(before, None, "one at a time");
                }
                Effect::Capture {
                    checkpoint,
                    channel,
                } => self.capture(checkpoint, channel),
                Effect::Acknowledge { checkpoint, .. } => {
                    let part = self.taken.take().expect("the snapshot comes before");
                    assert_eq!(part.checkpoint, checkpoint);
                    news.push(News::Acked(part));
                }
                Effect::Abort { checkpoint, reason } => {
                    self.taken = None;
                    if reason != AbortReason::Aborted {
                        news.push(News::GaveUp(checkpoint));
                    }
                }
                Effect::Resume => {}
            }
        }
        news
    }

    fn capture(&mut self, checkpoint: CheckpointId, channel: Channel) {
        let items = &mut self.lanes[channel.0].items;
        let is_place =
            |item: &Item| matches!(item, Item::Barrier(it) if it.checkpoint == checkpoint);
        let place = items.iter().position(is_place);
        let place = place.expect("the barrier that overtook has its place");
        items.remove(place);
        let records = items.iter().take(place).filter_map(|item| match item {
            Item::Record(record) => Some(*record),
            Item::Barrier(_) | Item::Cancel(_) | Item::End => None,
        });
        let part = self.taken.as_mut().expect("the snapshot comes before");
        assert_eq!(part.checkpoint, checkpoint);
        part.in_flight[channel.0].extend(records);
    }

    /// A source's next record.
    pub(crate) fn emit(&mut self, job: &Job, task: usize) -> Item {
        let position = self.state.position;
        if position == job.budget.records {
            self.finished = true;
            return Item::End;
        }
        self.state.position += 1;
        Item::Record(job.record(task, position))
    }

    /// Asserts that nothing of any checkpoint is left.
    pub(crate) fn assert_at_rest(&self) {
        assert_eq!(self.aligner.current(), None, "a checkpoint is in progress");
        assert_eq!(self.taken, None, "a part is kept");
        assert_eq!(self.aligner.deadline(), None);
        for (index, lane) in self.lanes.iter().enumerate() {
            assert_eq!(*lane, Lane::default(), "channel {index} is not read");
            assert_eq!(self.aligner.reading(Channel(index)), Reading::Free);
        }
        // The machine shows what it keeps only here.
        let kept = format!("{:?}", self.aligner).len();
        assert!(kept < 2_000, "bookkeeping of {kept} characters");
    }
}
