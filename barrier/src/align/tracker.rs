//! At-least-once: barriers are counted, no channel ever waits.
//!
//! Records that came behind a barrier are processed while others are still missing, so they are in
//! the snapshot *and* are read again after a recovery. In exchange a slow channel slows nobody, and
//! several checkpoints may be in progress at once. Whatever their mode, they are taken as aligned ones
//! and passed on as such: a snapshot that holds more than its share has no exact rest to save.
//!
//! Invariant: checkpoints in progress are ordered by id and are at most [`PENDING_MAX`].

use alloc::{collections::VecDeque, vec, vec::Vec};

use super::{AbortReason, AlignError, Alignment, Channel, Effect, Event, Reading, over::Over};
use crate::{Barrier, CheckpointId, Mode, Time};

/// How many checkpoints may be in progress at a task, as in Flink's `CheckpointBarrierTracker`. With
/// one more the oldest is given up: its barriers must have been lost.
const PENDING_MAX: usize = 50;

/// Decides when a task forwards the barrier and snapshots, without holding back anything.
///
/// A drop-in for [`Aligner`](super::Aligner) with the weaker guarantee: after a recovery a record may
/// be counted twice. In a task with the back edge of a loop ([`Feedback`](super::Input::Feedback)) use an
/// `Aligner` also in an at-least-once job: its barrier comes back only after the cut, so a machine
/// that counts barriers would wait for it forever.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Tracker {
    finished: Vec<bool>,
    pending: VecDeque<Pending>,
    over: Over,
    effects: VecDeque<Effect>,
}

impl Tracker {
    /// A machine for a task with `channels` inputs, none for a source.
    pub fn new(channels: usize) -> Self {
        Self {
            finished: vec![false; channels],
            pending: VecDeque::new(),
            over: Over::default(),
            effects: VecDeque::new(),
        }
    }

    /// Tells the machine what happened at `now`. Then [`poll`](Self::poll) until `None`.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before it. The machine is unchanged.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), AlignError> {
        match event {
            Event::Triggered { barrier } => {
                self.join(now, barrier);
                self.complete(now);
            }
            Event::Barrier { channel, barrier } => {
                self.check_readable(channel)?;
                self.check_not_twice(channel, barrier.checkpoint)?;
                if let Some(index) = self.join(now, barrier) {
                    self.pending[index].arrived[channel.0] = true;
                    self.pending[index].missing -= 1;
                }
                self.complete(now);
            }
            Event::Cancelled {
                channel,
                checkpoint,
            } => {
                self.check_readable(channel)?;
                self.give_up(checkpoint, AbortReason::Cancelled);
            }
            Event::Aborted { checkpoint } => self.give_up(checkpoint, AbortReason::Aborted),
            Event::Finished { channel } => {
                self.check_readable(channel)?;
                self.finished[channel.0] = true;
                for pending in &mut self.pending {
                    pending.missing -= usize::from(!pending.arrived[channel.0]);
                }
                self.complete(now);
            }
            // Nothing overtakes here: the driver will reach the barrier in order.
            Event::Overtook { channel, .. } => self.check_readable(channel)?,
            Event::Woke => {}
        }
        Ok(())
    }

    /// The next effect. Carry effects out in this order, and all of them before the next record.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest: never, nothing here waits for a time.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Always [`Free`](Reading::Free): this is what at-least-once means, and there is no record in flight
    /// that the snapshot may miss.
    #[inline]
    pub fn reading(&self, _: Channel) -> Reading {
        Reading::Free
    }

    /// The oldest checkpoint in progress.
    #[inline]
    pub fn current(&self) -> Option<CheckpointId> {
        self.pending.front().map(Pending::checkpoint)
    }

    /// The newest checkpoint that is over for this task: acknowledged or given up. Goes with the news
    /// that the task has finished
    /// ([`Finished`](crate::coordinate::Event::Finished)).
    pub fn last(&self) -> Option<CheckpointId> {
        self.over.newest()
    }

    /// The place of `barrier`'s checkpoint among those in progress, unless it is over.
    fn join(&mut self, now: Time, barrier: Barrier) -> Option<usize> {
        let barrier = barrier.with_mode(Mode::Aligned);
        let checkpoint = barrier.checkpoint;
        match self.position(checkpoint) {
            Ok(index) => Some(index),
            Err(_) if self.over.contains(checkpoint) => None,
            Err(index) => {
                let pending = Pending {
                    barrier,
                    first_at: now,
                    arrived: vec![false; self.finished.len()],
                    missing: self.finished.iter().filter(|&&finished| !finished).count(),
                };
                self.pending.insert(index, pending);
                if self.pending.len() > PENDING_MAX {
                    let oldest = self.pending[0].checkpoint();
                    self.give_up(oldest, AbortReason::Crowded);
                    return self.position(checkpoint).ok();
                }
                Some(index)
            }
        }
    }

    /// Snapshots, oldest first, what has all its barriers.
    fn complete(&mut self, now: Time) {
        while let Some(index) = self.pending.iter().position(|pending| pending.missing == 0) {
            // Channels are FIFO: what an older one still misses will not come.
            for _ in 0..index {
                let oldest = self.pending[0].checkpoint();
                self.give_up(oldest, AbortReason::Subsumed);
            }
            let Some(Pending {
                barrier, first_at, ..
            }) = self.pending.pop_front()
            else {
                return;
            };
            let alignment = Alignment {
                triggered_at: barrier.triggered_at,
                first_at,
                last_at: now,
            };
            self.over.add_up_to(barrier.checkpoint);
            self.effects.extend([
                Effect::Forward(barrier),
                Effect::Snapshot(barrier),
                Effect::Acknowledge {
                    checkpoint: barrier.checkpoint,
                    alignment,
                },
            ]);
        }
    }

    fn give_up(&mut self, checkpoint: CheckpointId, reason: AbortReason) {
        let position = self.position(checkpoint);
        if position.is_err() && self.over.contains(checkpoint) {
            return;
        }
        self.over.add(checkpoint);
        self.effects.push_back(Effect::ForwardCancel(checkpoint));
        if let Ok(index) = position {
            self.pending.remove(index);
            self.effects.push_back(Effect::Abort { checkpoint, reason });
        }
    }

    fn position(&self, checkpoint: CheckpointId) -> Result<usize, usize> {
        self.pending
            .binary_search_by_key(&checkpoint, Pending::checkpoint)
    }

    fn check_readable(&self, channel: Channel) -> Result<(), AlignError> {
        match self.finished.get(channel.0) {
            None => Err(AlignError::UnknownChannel { channel }),
            Some(true) => Err(AlignError::AfterFinish { channel }),
            Some(false) => Ok(()),
        }
    }

    fn check_not_twice(
        &self,
        channel: Channel,
        checkpoint: CheckpointId,
    ) -> Result<(), AlignError> {
        match self.position(checkpoint) {
            Ok(index) if self.pending[index].arrived[channel.0] => Err(AlignError::Duplicate {
                channel,
                checkpoint,
            }),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Pending {
    barrier: Barrier,
    first_at: Time,
    arrived: Vec<bool>,
    /// Channels that have neither delivered the barrier nor ended.
    missing: usize,
}

impl Pending {
    fn checkpoint(&self) -> CheckpointId {
        self.barrier.checkpoint
    }
}
