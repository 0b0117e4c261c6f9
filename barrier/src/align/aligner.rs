//! Exactly-once: channels whose barrier is in wait for the others.
//!
//! Records before the barrier belong to the checkpoint, records after it do not. A channel that
//! delivered its barrier is blocked until all have, so that at the moment of the snapshot exactly
//! the records before the barriers have been processed.
//!
//! ```text
//!          first barrier              last barrier, or last open channel ends:
//!                                     Forward, Snapshot, Resume
//!   Idle ────────────────▶ Aligning ──────────────────────────────────────────▶ Idle
//!                             │  abort, cancel marker, newer barrier:
//!                             └─ ForwardCancel, Abort, Resume ────────────────▶ Idle
//! ```
//!
//! Invariant: in `Idle` no channel is blocked, so an idle machine costs records one compare.

use alloc::{collections::VecDeque, vec, vec::Vec};

use super::{AbortReason, AlignError, Alignment, Channel, Effect, Event, over::Over};
use crate::{Barrier, CheckpointId, Time};

/// Decides when a task holds back channels, forwards the barrier and snapshots.
///
/// Records do not pass through here. The driver asks [`is_blocked`](Self::is_blocked) before it
/// reads a channel, and reports only barriers, markers and ends of channels.
#[derive(Clone, Debug)]
pub struct Aligner {
    channels: Vec<Status>,
    /// Channels that are neither [`Status::Arrived`] nor [`Status::Finished`].
    open: usize,
    phase: Phase,
    over: Over,
    effects: VecDeque<Effect>,
}

impl Aligner {
    /// A machine for a task with `channels` inputs, none for a source. Barriers keep their place
    /// among the records of these channels.
    pub fn new(channels: usize) -> Self {
        Self {
            channels: vec![Status::Open; channels],
            open: channels,
            phase: Phase::Idle,
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
                if self.joins(now, barrier) {
                    self.complete_if_none_open(now);
                }
            }
            Event::Barrier { channel, barrier } => {
                self.check_readable(channel)?;
                if self.joins(now, barrier) {
                    self.channels[channel.0] = Status::Arrived;
                    self.open -= 1;
                    self.complete_if_none_open(now);
                }
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
                self.channels[channel.0] = Status::Finished;
                self.open -= 1;
                self.complete_if_none_open(now);
            }
            Event::Woke => {}
        }
        Ok(())
    }

    /// The next effect. Carry effects out in this order, and all of them before the next record.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest. An aligned checkpoint waits without limit here:
    /// its timeout is the coordinator's.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Whether the driver must leave `channel` unread for now.
    ///
    /// # Panics
    ///
    /// While a checkpoint is in progress, if the task has no such channel.
    #[inline]
    pub fn is_blocked(&self, channel: Channel) -> bool {
        matches!(self.phase, Phase::Aligning { .. }) && self.channels[channel.0] == Status::Arrived
    }

    /// The checkpoint in progress: the driver counts the bytes it processes meanwhile.
    #[inline]
    pub fn current(&self) -> Option<CheckpointId> {
        match self.phase {
            Phase::Idle => None,
            Phase::Aligning { barrier, .. } => Some(barrier.checkpoint),
        }
    }

    /// The newest checkpoint that is over for this task: snapshotted or given up. Goes with the news
    /// that the task has finished
    /// ([`Finished`](crate::coordinate::Event::Finished)).
    pub fn last(&self) -> Option<CheckpointId> {
        self.over.newest()
    }

    /// Whether `barrier` counts: it belongs to the checkpoint in progress, which it may have begun.
    fn joins(&mut self, now: Time, barrier: Barrier) -> bool {
        let checkpoint = barrier.checkpoint;
        if self.over.contains(checkpoint) {
            return false;
        }
        match self.current() {
            Some(current) if checkpoint < current => return false, // F058: obsolete
            Some(current) if checkpoint == current => return true,
            Some(current) => self.give_up(current, AbortReason::Subsumed),
            None => {}
        }
        self.phase = Phase::Aligning {
            barrier,
            first_at: now,
        };
        true
    }

    /// A finished channel has no more records before the barrier: it counts as arrived.
    fn complete_if_none_open(&mut self, now: Time) {
        let Phase::Aligning { barrier, first_at } = self.phase else {
            return;
        };
        if self.open > 0 {
            return;
        }
        let alignment = Alignment {
            triggered_at: barrier.triggered_at,
            first_at,
            last_at: now,
        };
        // The barrier first: tasks downstream align while this one snapshots.
        self.effects.push_back(Effect::Forward(barrier));
        self.effects
            .push_back(Effect::Snapshot { barrier, alignment });
        self.over.add_up_to(barrier.checkpoint);
        self.go_idle();
    }

    fn give_up(&mut self, checkpoint: CheckpointId, reason: AbortReason) {
        if self.over.contains(checkpoint) {
            return;
        }
        self.over.add(checkpoint);
        // Also if nothing of it was seen yet: downstream may be waiting for this task's barrier.
        self.effects.push_back(Effect::ForwardCancel(checkpoint));
        if self.current() == Some(checkpoint) {
            self.effects.push_back(Effect::Abort { checkpoint, reason });
            self.go_idle();
        }
    }

    fn go_idle(&mut self) {
        self.phase = Phase::Idle;
        let mut blocked = false;
        for status in &mut self.channels {
            if *status == Status::Arrived {
                *status = Status::Open;
                self.open += 1;
                blocked = true;
            }
        }
        if blocked {
            self.effects.push_back(Effect::Resume);
        }
    }

    fn check_readable(&self, channel: Channel) -> Result<(), AlignError> {
        match self.channels.get(channel.0) {
            None => Err(AlignError::UnknownChannel { channel }),
            Some(Status::Finished) => Err(AlignError::AfterFinish { channel }),
            Some(Status::Arrived) => Err(AlignError::ReadWhileBlocked { channel }),
            Some(Status::Open) => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Status {
    Open,
    /// The barrier of the checkpoint in progress is in.
    Arrived,
    Finished,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Aligning { barrier: Barrier, first_at: Time },
}
