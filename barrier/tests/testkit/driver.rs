//! A driver as an engine would write it, and ways to write it wrong.

use std::{collections::VecDeque, time::Duration};

use cutwater_barrier::align::{Channel, Effect, Event, Input, Reading};
use cutwater_barrier::testkit::{Broken, Did, Fed, Watch};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Mode, Time};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flaw {
    None,
    ReadsBlocked,
    SnapshotsLate,
    EmitsBeforeSnapshot,
    SkipsSnapshot,
    SnapshotsFirst,
    NeverAcknowledges,
    AcknowledgesTwice,
    AcknowledgesAtSnapshot,
    SavesNoReads,
    SavesAlways,
    CapturesTooLittle,
    CapturesTooMuch,
    CapturesTwice,
    CapturesProcessed,
    LosesCaptured,
    LeavesBarrier,
    NeverAnnounces,
    AlwaysAnnounces,
    KeepsBatch,
    ForwardsAsReceived,
    ReportsEarly,
    DropsBarriers,
    NotesStrict,
    KeepsCancel,
    KeepsAborted,
}

type Outcome = Result<(), Broken>;

/// Reads two channels, and sends each record into two outputs, batch by batch.
pub(crate) struct Driver {
    flaw: Flaw,
    aligner: Aligner,
    watch: Watch,
    lanes: Vec<Lane>,
    outputs: Vec<Input>,
    buffered: u64,
    /// A snapshot that is put off.
    late: Option<CheckpointId>,
}

#[derive(Default)]
struct Lane {
    items: VecDeque<Item>,
    notes: VecDeque<Barrier>,
    records: u64,
}

#[derive(Clone, Copy)]
enum Item {
    Record(u64),
    Other(Fed),
}

impl Driver {
    pub(crate) fn new(flaw: Flaw, inputs: &[Input], outputs: &[Input]) -> Self {
        let inputs = || inputs.iter().copied();
        Self {
            flaw,
            aligner: Aligner::with_channels(inputs()),
            watch: Watch::aligner(inputs(), outputs.iter().copied()),
            lanes: inputs().map(|_| Lane::default()).collect(),
            outputs: outputs.to_vec(),
            buffered: 0,
            late: None,
        }
    }

    pub(crate) fn feed(&mut self, channel: usize, items: &[&str]) -> Outcome {
        for word in items {
            let item = parse(word);
            self.watch.fed(Channel(channel), item)?;
            let lane = &mut self.lanes[channel];
            if item == Fed::Record {
                lane.items.push_back(Item::Record(lane.records));
                lane.records += 1;
            } else {
                lane.items.push_back(Item::Other(item));
            }
            if let Fed::Barrier(barrier) = item
                && barrier.may_overtake()
            {
                lane.notes.push_back(barrier);
            }
        }
        Ok(())
    }

    /// Reads up to so many items, and stops where it has to.
    pub(crate) fn read(&mut self, channel: usize, items: usize) -> Outcome {
        for _ in 0..items {
            let is_blocked = self.aligner.reading(Channel(channel)) == Reading::Blocked;
            if is_blocked && self.flaw != Flaw::ReadsBlocked {
                return Ok(());
            }
            match self.lanes[channel].items.pop_front() {
                None => return Ok(()),
                Some(Item::Record(record)) => self.process(Channel(channel), record)?,
                Some(Item::Other(_)) if self.flaw == Flaw::DropsBarriers => {}
                Some(Item::Other(item)) => self.report(Channel(channel), item)?,
            }
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, channel: usize) -> Outcome {
        let barrier = self.lanes[channel].notes.pop_front().expect("a note");
        let channel = Channel(channel);
        self.tell(match self.flaw {
            Flaw::ReportsEarly => Event::Barrier { channel, barrier },
            Flaw::NotesStrict => Event::Overtook {
                channel: Channel(0),
                barrier,
            },
            _ => Event::Overtook { channel, barrier },
        })
    }

    pub(crate) fn abort(&mut self, word: &str) -> Outcome {
        self.tell(Event::Aborted {
            checkpoint: barrier(word).checkpoint,
        })
    }

    pub(crate) fn wake_late(&mut self) -> Outcome {
        self.tell_at(Time::from_millis(10), Event::Woke)
    }

    pub(crate) fn rest(&mut self) -> Outcome {
        self.watch.at_rest()
    }

    fn process(&mut self, channel: Channel, record: u64) -> Outcome {
        let is_recorded = self.aligner.reading(channel) == Reading::Recorded;
        let saves = is_recorded && self.flaw != Flaw::SavesNoReads;
        self.watch.did(Did::Read { channel, record })?;
        if saves || self.flaw == Flaw::SavesAlways {
            let current = self.aligner.current();
            self.watch.did(Did::Saved {
                checkpoint: current.unwrap_or(CheckpointId::new(0)),
                channel,
                record,
            })?;
        }
        if let Some(checkpoint) = self.late.take() {
            self.watch.did(Did::Snapshotted { checkpoint })?;
        }
        self.emit()
    }

    fn emit(&mut self) -> Outcome {
        for output in 0..self.outputs.len() {
            self.watch.did(Did::Emitted { output })?;
        }
        self.buffered += 1;
        Ok(())
    }

    fn flush(&mut self) -> Outcome {
        let records = std::mem::take(&mut self.buffered);
        for output in 0..self.outputs.len() {
            self.watch.did(Did::Sent { output, records })?;
        }
        Ok(())
    }

    fn report(&mut self, channel: Channel, item: Fed) -> Outcome {
        self.tell(match item {
            Fed::Barrier(barrier) => Event::Barrier { channel, barrier },
            Fed::Cancel(checkpoint) => Event::Cancelled {
                channel,
                checkpoint,
            },
            _ => Event::Finished { channel },
        })
    }

    fn tell(&mut self, event: Event) -> Outcome {
        self.tell_at(Time::ZERO, event)
    }

    fn tell_at(&mut self, now: Time, event: Event) -> Outcome {
        self.watch.told(now, event)?;
        self.aligner
            .handle(now, event)
            .expect("the watch has said so");
        let mut effects: Vec<Effect> = std::iter::from_fn(|| self.aligner.poll()).collect();
        if self.flaw == Flaw::SnapshotsFirst && effects.len() > 1 {
            effects.swap(0, 1);
        }
        for effect in effects {
            self.carry_out(effect)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) -> Outcome {
        match effect {
            Effect::Forward(barrier) => self.forward(barrier),
            Effect::ForwardCancel(_) if self.flaw == Flaw::KeepsCancel => Ok(()),
            Effect::ForwardCancel(checkpoint) => {
                self.flush()?;
                (0..self.outputs.len()).try_for_each(|output| {
                    self.watch.did(Did::ForwardedCancel { output, checkpoint })
                })
            }
            Effect::Snapshot(barrier) => self.snapshot(barrier.checkpoint),
            Effect::Capture {
                checkpoint,
                channel,
            } => self.capture(checkpoint, channel),
            Effect::Acknowledge { checkpoint, .. } => self.acknowledge(checkpoint),
            Effect::Abort { .. } if self.flaw == Flaw::KeepsAborted => Ok(()),
            Effect::Abort { checkpoint, .. } => self.watch.did(Did::Aborted { checkpoint }),
            Effect::Resume => Ok(()),
        }
    }

    fn forward(&mut self, barrier: Barrier) -> Outcome {
        if self.flaw != Flaw::KeepsBatch {
            self.flush()?;
        }
        let sent = match self.flaw {
            Flaw::ForwardsAsReceived => barrier.with_mode(FOR_A_WHILE),
            _ => barrier,
        };
        for (output, edge) in self.outputs.iter().enumerate() {
            let announced = match self.flaw {
                Flaw::NeverAnnounces => false,
                Flaw::AlwaysAnnounces => true,
                _ => barrier.may_overtake() && *edge != Input::Strict,
            };
            self.watch.did(Did::Forwarded {
                output,
                barrier: sent,
                announced,
            })?;
        }
        Ok(())
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Outcome {
        match self.flaw {
            Flaw::SkipsSnapshot => return Ok(()),
            Flaw::SnapshotsLate => {
                self.late = Some(checkpoint);
                return Ok(());
            }
            Flaw::EmitsBeforeSnapshot => self.emit()?,
            _ => {}
        }
        self.watch.did(Did::Snapshotted { checkpoint })?;
        if self.flaw == Flaw::AcknowledgesAtSnapshot {
            return self.watch.did(Did::Acknowledged { checkpoint });
        }
        Ok(())
    }

    fn capture(&mut self, checkpoint: CheckpointId, channel: Channel) -> Outcome {
        let items = &mut self.lanes[channel.0].items;
        let is_place = |item: &Item| matches!(item, Item::Other(Fed::Barrier(it)) if it.checkpoint == checkpoint);
        let place = items.iter().position(is_place).expect("its place");
        let mut records: Vec<u64> = items.iter().take(place).filter_map(number).collect();
        match self.flaw {
            Flaw::CapturesTooLittle => drop(records.remove(0)),
            Flaw::CapturesTooMuch => records.extend(items.iter().skip(place).find_map(number)),
            Flaw::CapturesTwice => records.insert(0, records[0]),
            Flaw::CapturesProcessed => records.insert(0, records[0] - 1),
            Flaw::LosesCaptured => drop(items.drain(..place)),
            _ => {}
        }
        if self.flaw != Flaw::LeavesBarrier {
            items.retain(|item| !is_place(item));
        }
        for record in records {
            self.watch.did(Did::Saved {
                checkpoint,
                channel,
                record,
            })?;
        }
        self.watch.did(Did::Captured {
            checkpoint,
            channel,
        })
    }

    fn acknowledge(&mut self, checkpoint: CheckpointId) -> Outcome {
        let times = match self.flaw {
            Flaw::NeverAcknowledges | Flaw::AcknowledgesAtSnapshot | Flaw::SnapshotsLate => 0,
            Flaw::AcknowledgesTwice => 2,
            _ => 1,
        };
        (0..times).try_for_each(|_| self.watch.did(Did::Acknowledged { checkpoint }))
    }
}

const FOR_A_WHILE: Mode = Mode::AlignedFor(Duration::from_millis(10));

fn number(item: &Item) -> Option<u64> {
    match item {
        Item::Record(record) => Some(*record),
        Item::Other(_) => None,
    }
}

fn parse(word: &str) -> Fed {
    match word {
        "r" => Fed::Record,
        "end" => Fed::End,
        _ if word.starts_with('x') => Fed::Cancel(barrier(word).checkpoint),
        _ => Fed::Barrier(barrier(word)),
    }
}

fn barrier(word: &str) -> Barrier {
    let (mode, number) = word.split_at(1);
    let id = CheckpointId::new(number.parse().expect("a number"));
    let mode = match mode {
        "t" => FOR_A_WHILE,
        "u" => Mode::Unaligned,
        _ => Mode::Aligned,
    };
    Barrier::checkpoint(id, Time::ZERO).with_mode(mode)
}
