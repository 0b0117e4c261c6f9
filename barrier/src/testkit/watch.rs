//! The watch itself: what the driver owes, and whether it does that, when it should, and nothing else.
//!
//! Invariant: `owed` holds the effects that the driver has not carried out, in order. An
//! acknowledgement leaves it when everything before has been carried out: it may be late, but not early.

use alloc::{collections::VecDeque, vec::Vec};

use super::{Broken, Did, Fed, Owed, inputs::Lane, outputs::Outputs, taken::Taken};
use crate::{
    Barrier, CheckpointId, Time,
    align::{AlignError, Aligner, Channel, Effect, Event, Input, Reading, Tracker},
};

/// Follows one task.
#[derive(Clone, Debug)]
pub struct Watch {
    machine: Machine,
    lanes: Vec<Lane>,
    outputs: Outputs,
    owed: VecDeque<Effect>,
    /// What has been taken since the snapshot and not been acknowledged or dropped.
    taken: Vec<Taken>,
}

#[derive(Clone, Debug)]
enum Machine {
    Aligner(Aligner),
    Tracker(Tracker),
}

impl Watch {
    /// Beside a driver of an [`Aligner`] with these inputs. `outputs` are what their receivers declare them
    /// to be: a barrier never overtakes in a [`Strict`](Input::Strict) one.
    pub fn aligner(
        inputs: impl IntoIterator<Item = Input>,
        outputs: impl IntoIterator<Item = Input>,
    ) -> Self {
        let inputs: Vec<Input> = inputs.into_iter().collect();
        let machine = Machine::Aligner(Aligner::with_channels(inputs.iter().copied()));
        Self::new(machine, inputs.len(), outputs)
    }

    /// Beside a driver of a [`Tracker`].
    pub fn tracker(channels: usize, outputs: impl IntoIterator<Item = Input>) -> Self {
        Self::new(Machine::Tracker(Tracker::new(channels)), channels, outputs)
    }

    fn new(machine: Machine, channels: usize, outputs: impl IntoIterator<Item = Input>) -> Self {
        Self {
            machine,
            lanes: (0..channels).map(Channel).map(Lane::new).collect(),
            outputs: Outputs::new(outputs),
            owed: VecDeque::new(),
            taken: Vec::new(),
        }
    }

    /// Something was put into an input channel.
    ///
    /// # Errors
    ///
    /// If the task has no such channel.
    pub fn fed(&mut self, channel: Channel, item: Fed) -> Result<(), Broken> {
        self.lane(channel)?.feed(item);
        Ok(())
    }

    /// The driver told its machine of an event.
    ///
    /// # Errors
    ///
    /// If that is not what happened, or if it had something else to do first.
    pub fn told(&mut self, now: Time, event: Event) -> Result<(), Broken> {
        if let Some(owed) = self.next_owed() {
            return Err(Broken::Skipped { owed });
        }
        let mut machine = self.machine.clone();
        machine.handle(now, event).map_err(Broken::Rejected)?;
        match event {
            Event::Barrier { channel, barrier } => {
                self.lane(channel)?.take(Fed::Barrier(barrier))?;
            }
            Event::Cancelled {
                channel,
                checkpoint,
            } => self.lane(channel)?.take(Fed::Cancel(checkpoint))?,
            Event::Finished { channel } => self.lane(channel)?.take(Fed::End)?,
            Event::Overtook { channel, barrier } => self.lane(channel)?.check_fed(barrier)?,
            Event::Triggered { .. } | Event::Aborted { .. } | Event::Woke => {}
        }
        self.machine = machine;
        let effects = core::iter::from_fn(|| self.machine.poll());
        self.owed
            .extend(effects.filter(|effect| *effect != Effect::Resume));
        self.settle();
        Ok(())
    }

    /// The driver did something.
    ///
    /// # Errors
    ///
    /// If it should not have, or not yet.
    pub fn did(&mut self, did: Did) -> Result<(), Broken> {
        match did {
            Did::Read { channel, record } => self.read(channel, record),
            Did::Saved {
                checkpoint,
                channel,
                record,
            } => self.save(checkpoint, channel, record),
            Did::Captured {
                checkpoint,
                channel,
            } => self.capture(checkpoint, channel),
            Did::Emitted { output } => match self.next_owed() {
                Some(owed) => Err(Broken::EmittedEarly { output, owed }),
                None => self.outputs.emit(output),
            },
            Did::Sent { output, records } => self.outputs.send(output, records),
            Did::Forwarded {
                output,
                barrier,
                announced,
            } => self.forward(output, barrier, announced),
            Did::ForwardedCancel { output, checkpoint } => {
                self.check_turn(Owed::ForwardCancel(checkpoint))?;
                if self.outputs.cancel(output)? {
                    self.carry_out(Owed::ForwardCancel(checkpoint))?;
                }
                Ok(())
            }
            Did::Snapshotted { checkpoint } => {
                self.carry_out(Owed::Snapshot(checkpoint))?;
                self.taken.push(Taken::new(checkpoint, &self.lanes));
                self.settle();
                Ok(())
            }
            Did::Acknowledged { checkpoint } => self.acknowledge(checkpoint),
            Did::Aborted { checkpoint } => {
                // A driver may also drop what it was to acknowledge, if it cannot store it or the
                // coordinator no longer wants it.
                let is_ready = |taken: &Taken| taken.checkpoint == checkpoint && taken.is_ready;
                if !self.taken.iter().any(is_ready) {
                    self.carry_out(Owed::Abort(checkpoint))?;
                }
                self.taken.retain(|taken| taken.checkpoint != checkpoint);
                Ok(())
            }
        }
    }

    /// Whether the driver has done everything it had to, acknowledgements included.
    ///
    /// # Errors
    ///
    /// If not.
    pub fn at_rest(&self) -> Result<(), Broken> {
        let ready = self.taken.iter().find(|taken| taken.is_ready);
        let acknowledge = ready.map(|taken| Owed::Acknowledge(taken.checkpoint));
        match self.next_owed().or(acknowledge) {
            Some(owed) => Err(Broken::Skipped { owed }),
            None => Ok(()),
        }
    }

    fn read(&mut self, channel: Channel, record: u64) -> Result<(), Broken> {
        self.lane(channel)?;
        if let Some(checkpoint) = self.machine.blocks(channel) {
            return Err(Broken::ReadWhileBlocked {
                channel,
                record,
                checkpoint,
            });
        }
        if let Some(owed) = self.next_owed() {
            return Err(Broken::ProcessedEarly {
                channel,
                record,
                owed,
            });
        }
        self.lane(channel)?.read(record)
    }

    fn save(
        &mut self,
        checkpoint: CheckpointId,
        channel: Channel,
        record: u64,
    ) -> Result<(), Broken> {
        self.lane(channel)?;
        let mut taken = self.taken.iter_mut();
        match taken.find(|taken| taken.checkpoint == checkpoint) {
            Some(taken) => taken.save(channel, record, &self.lanes[channel.0]),
            None => Err(Broken::Unasked {
                did: Owed::Copy(checkpoint, channel),
            }),
        }
    }

    fn capture(&mut self, checkpoint: CheckpointId, channel: Channel) -> Result<(), Broken> {
        self.check_turn(Owed::Capture(checkpoint, channel))?;
        let taken = self.taken.iter();
        for taken in taken.filter(|taken| taken.checkpoint == checkpoint) {
            taken.check_channel(channel, &self.lanes[channel.0])?;
        }
        self.lanes[channel.0].take_out(checkpoint);
        self.carry_out(Owed::Capture(checkpoint, channel))
    }

    fn forward(&mut self, output: usize, barrier: Barrier, announced: bool) -> Result<(), Broken> {
        let forward = Owed::Forward(barrier.checkpoint);
        self.check_turn(forward)?;
        let Some(&Effect::Forward(due)) = self.owed.front() else {
            return Ok(());
        };
        if self.outputs.forward(output, due, barrier, announced)? {
            self.carry_out(forward)?;
        }
        Ok(())
    }

    fn acknowledge(&mut self, checkpoint: CheckpointId) -> Result<(), Broken> {
        let is_it = |taken: &&Taken| taken.checkpoint == checkpoint && taken.is_ready;
        let Some(taken) = self.taken.iter().find(is_it) else {
            let owed = self.next_owed();
            return Err(Broken::AcknowledgedEarly { checkpoint, owed });
        };
        taken.check(&self.lanes)?;
        self.taken.retain(|taken| taken.checkpoint != checkpoint);
        Ok(())
    }

    /// What the driver is to do next.
    fn next_owed(&self) -> Option<Owed> {
        self.owed.front().copied().and_then(Owed::by)
    }

    fn check_turn(&self, did: Owed) -> Result<(), Broken> {
        match self.next_owed() {
            Some(owed) if owed == did => Ok(()),
            Some(owed)
                if self
                    .owed
                    .iter()
                    .any(|effect| Owed::by(*effect) == Some(did)) =>
            {
                Err(Broken::OutOfOrder { did, owed })
            }
            Some(_) | None => Err(Broken::Unasked { did }),
        }
    }

    fn carry_out(&mut self, did: Owed) -> Result<(), Broken> {
        self.check_turn(did)?;
        self.owed.pop_front();
        self.settle();
        Ok(())
    }

    /// Strikes what needs no doing: into no outputs, or whenever the driver likes.
    fn settle(&mut self) {
        while let Some(&effect) = self.owed.front() {
            match effect {
                Effect::Forward(_) | Effect::ForwardCancel(_) if self.outputs.is_empty() => {}
                Effect::Acknowledge { checkpoint, .. } => {
                    let mut taken = self.taken.iter_mut();
                    match taken.find(|taken| taken.checkpoint == checkpoint) {
                        Some(taken) => taken.is_ready = true,
                        None => return, // The snapshot is being put in place.
                    }
                }
                _ => return,
            }
            self.owed.pop_front();
        }
    }

    fn lane(&mut self, channel: Channel) -> Result<&mut Lane, Broken> {
        let unknown = AlignError::UnknownChannel { channel };
        let lane = self.lanes.get_mut(channel.0);
        lane.ok_or(Broken::Rejected(unknown))
    }
}

impl Machine {
    fn handle(&mut self, now: Time, event: Event) -> Result<(), AlignError> {
        match self {
            Self::Aligner(aligner) => aligner.handle(now, event),
            Self::Tracker(tracker) => tracker.handle(now, event),
        }
    }

    fn poll(&mut self) -> Option<Effect> {
        match self {
            Self::Aligner(aligner) => aligner.poll(),
            Self::Tracker(tracker) => tracker.poll(),
        }
    }

    /// The checkpoint that a channel must not be read for.
    fn blocks(&self, channel: Channel) -> Option<CheckpointId> {
        match self {
            Self::Aligner(aligner) if aligner.reading(channel) == Reading::Blocked => {
                aligner.current()
            }
            Self::Aligner(_) | Self::Tracker(_) => None,
        }
    }
}
