//! Exactly-once: each record is in the snapshot, or in flight and saved with it, or read again.
//!
//! The *cut* is the moment of the snapshot. Records before the barrier belong to the checkpoint,
//! records after it do not. An aligned cut waits until all channels have delivered the barrier, and
//! blocks those that already have. An unaligned cut does not wait: what the other channels still
//! hold before their barrier is *in-flight* state, saved next to the snapshot.
//!
//! ```text
//!         a barrier is known          the cut: Forward, Snapshot, Capture…, Resume
//!   Idle ───────────────▶ Aligning ────────────────────────────▶ Recording ────────────▶ Idle
//!                            │                                       │   last barrier in:
//!                            │ aborted, cancelled, newer barrier:    │   Acknowledge
//!                            └─ ForwardCancel, Abort, Resume ▶ Idle  └─ Abort ▶ Idle
//! ```
//!
//! | mode | the cut is made when |
//! |---|---|
//! | [`Aligned`](Mode::Aligned) | all channels have delivered the barrier in order |
//! | [`Unaligned`](Mode::Unaligned) | a barrier is known, and the [`Strict`](Input::Strict) channels have delivered theirs |
//! | [`AlignedFor`](Mode::AlignedFor) | as the first; since the timeout, or once upstream has switched, as the second |
//!
//! After an aligned cut nothing is left to record, except from the back edges of loops
//! ([`Feedback`](Input::Feedback)), whose barrier comes back after the cut: Algorithm 2 of Carbone et
//! al., "Lightweight Asynchronous Snapshots for Distributed Dataflows", 2015.
//!
//! Invariant: in `Idle` no channel is blocked or recorded, so an idle machine costs records one
//! compare.

use alloc::collections::VecDeque;
use core::iter;

use super::{
    AbortReason, AlignError, Alignment, Channel, Effect, Event, Input, Reading,
    channels::{AtCut, Channels, Status},
    over::Over,
};
use crate::{Barrier, CheckpointId, Mode, Time};

/// Decides when a task holds back channels, forwards the barrier, snapshots, and saves records in
/// flight.
///
/// Records do not pass through here. The driver asks how a channel is to be read
/// ([`reading`](Self::reading)) before it does, and reports only barriers, markers and ends of channels.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Aligner {
    channels: Channels,
    phase: Phase,
    over: Over,
    effects: VecDeque<Effect>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Phase {
    Idle,
    /// Before the cut.
    Aligning {
        barrier: Barrier,
        /// When the first barrier arrived in order. One that only overtook holds nothing back.
        first_at: Option<Time>,
    },
    /// After it.
    Recording {
        barrier: Barrier,
        first_at: Time,
    },
}

impl Aligner {
    /// A machine for a task with `channels` inputs that barriers may overtake, none for a source.
    pub fn new(channels: usize) -> Self {
        Self::with_channels(iter::repeat_n(Input::Overtakable, channels))
    }

    /// A machine for a task with these inputs, in the order of their [`Channel`] numbers.
    pub fn with_channels(inputs: impl IntoIterator<Item = Input>) -> Self {
        Self {
            channels: Channels::new(inputs),
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
                if self.joins(barrier) {
                    self.begin_at(now);
                }
            }
            Event::Overtook { channel, barrier } => {
                self.channels.check_overtakable(channel)?;
                let checkpoint = barrier.checkpoint;
                if !barrier.may_overtake() {
                    return Err(AlignError::AlignedOvertook {
                        channel,
                        checkpoint,
                    });
                }
                if self.joins(barrier) {
                    self.overtook(channel, checkpoint);
                }
            }
            Event::Barrier { channel, barrier } => {
                self.channels.check_readable(channel)?;
                if self.joins(barrier) {
                    self.begin_at(now);
                    self.arrived(channel);
                } else {
                    self.passed(channel, barrier.checkpoint);
                }
            }
            Event::Cancelled {
                channel,
                checkpoint,
            } => {
                self.channels.check_readable(channel)?;
                self.give_up(checkpoint, AbortReason::Cancelled);
            }
            Event::Aborted { checkpoint } => self.give_up(checkpoint, AbortReason::Aborted),
            Event::Finished { channel } => {
                self.channels.check_readable(channel)?;
                self.channels.set(channel, Status::Finished);
            }
            Event::Woke => {}
        }
        self.advance(now);
        Ok(())
    }

    /// The next effect. Carry effects out in this order, and all of them before the next record.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to report [`Event::Woke`] at the latest: when the checkpoint in progress will have
    /// waited long enough for its barriers to overtake.
    ///
    /// `None` for an aligned checkpoint: it waits without limit here, its timeout is the
    /// coordinator's.
    pub fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Aligning { barrier, .. } => barrier.overtakes_at(),
            Phase::Idle | Phase::Recording { .. } => None,
        }
    }

    /// How `channel` is to be read: ask before each read. The answer holds until the next event, so a
    /// driver that reads several records in a row need not ask for each.
    ///
    /// # Panics
    ///
    /// While a channel is blocked or recorded, if the task has no such channel.
    #[inline]
    pub fn reading(&self, channel: Channel) -> Reading {
        self.channels.reading(channel)
    }

    /// The checkpoint in progress, from its first barrier until it is acknowledged or given up. The
    /// driver counts the bytes it processes meanwhile.
    #[inline]
    pub fn current(&self) -> Option<CheckpointId> {
        match self.phase {
            Phase::Idle => None,
            Phase::Aligning { barrier, .. } | Phase::Recording { barrier, .. } => {
                Some(barrier.checkpoint)
            }
        }
    }

    /// The newest checkpoint that is over for this task: acknowledged or given up. Goes with the news
    /// that the task has finished
    /// ([`Finished`](crate::coordinate::Event::Finished)).
    pub fn last(&self) -> Option<CheckpointId> {
        self.over.newest()
    }

    /// Whether `barrier` counts: it belongs to the checkpoint in progress, which it may have begun.
    fn joins(&mut self, barrier: Barrier) -> bool {
        let checkpoint = barrier.checkpoint;
        match self.current() {
            Some(current) if checkpoint == current => {
                self.follow(barrier);
                return true;
            }
            _ if self.over.contains(checkpoint) => return false,
            Some(current) if checkpoint < current => {
                // F058: obsolete. It lacks this barrier now, so it is over, even if the newer one will be
                // given up.
                self.give_up(checkpoint, AbortReason::Subsumed);
                return false;
            }
            Some(current) => self.give_up(current, AbortReason::Subsumed),
            None => {}
        }
        let first_at = None;
        self.phase = Phase::Aligning { barrier, first_at };
        true
    }

    /// Switches if upstream has (F052).
    fn follow(&mut self, upstream: Barrier) {
        if let Phase::Aligning { barrier, .. } = &mut self.phase
            && matches!(barrier.mode, Mode::AlignedFor(_))
            && upstream.mode == Mode::Unaligned
        {
            barrier.mode = Mode::Unaligned;
        }
    }

    fn begin_at(&mut self, now: Time) {
        if let Phase::Aligning { first_at, .. } = &mut self.phase {
            first_at.get_or_insert(now);
        }
    }

    fn overtook(&mut self, channel: Channel, checkpoint: CheckpointId) {
        match (self.phase, self.channels.status(channel)) {
            (Phase::Aligning { .. }, Status::Open) => {
                self.channels.set(channel, Status::Announced);
            }
            (Phase::Recording { .. }, Status::Recording) => {
                self.channels.set(channel, Status::Open);
                self.effects.push_back(Effect::Capture {
                    checkpoint,
                    channel,
                });
            }
            _ => {} // Known already: in order, or by a note that came before.
        }
    }

    fn arrived(&mut self, channel: Channel) {
        let status = match self.phase {
            Phase::Aligning { .. } => Status::Arrived,
            Phase::Recording { .. } | Phase::Idle => Status::Open,
        };
        self.channels.set(channel, status);
    }

    /// A barrier that does not count still tells that an older one is not to be waited for: channels are
    /// FIFO, and the older one was triggered first. If a source heard of it last, this gives up a checkpoint
    /// that could have completed, and nothing else.
    fn passed(&mut self, channel: Channel, checkpoint: CheckpointId) {
        let is_missing = match self.phase {
            Phase::Idle => false,
            Phase::Aligning { .. } => true, // or the channel would be blocked
            Phase::Recording { .. } => self.channels.status(channel) == Status::Recording,
        };
        if let Some(current) = self.current().filter(|&current| current < checkpoint)
            && is_missing
        {
            self.give_up(current, AbortReason::Subsumed);
        }
    }

    /// Does what is due by `now`, if anything.
    fn advance(&mut self, now: Time) {
        if let Phase::Aligning { barrier, first_at } = &mut self.phase {
            if barrier.overtakes_at().is_some_and(|at| now >= at) {
                barrier.mode = Mode::Unaligned;
            }
            let overtakes = barrier.mode == Mode::Unaligned && self.channels.may_be_overtaken();
            if overtakes || self.channels.are_aligned() {
                let (barrier, first_at) = (*barrier, first_at.unwrap_or(now));
                return self.cut(now, barrier, first_at);
            }
        }
        self.acknowledge_if_recorded(now);
    }

    fn cut(&mut self, now: Time, barrier: Barrier, first_at: Time) {
        let checkpoint = barrier.checkpoint;
        let effects = &mut self.effects;
        // The barrier first: tasks downstream align while this one snapshots.
        effects.push_back(Effect::Forward(barrier));
        effects.push_back(Effect::Snapshot(barrier));
        let mut resumes = false;
        self.channels.cut(|channel, outcome| match outcome {
            AtCut::Nothing => {}
            AtCut::Unblocked => resumes = true,
            AtCut::Captured => effects.push_back(Effect::Capture {
                checkpoint,
                channel,
            }),
        });
        self.phase = Phase::Recording { barrier, first_at };
        self.acknowledge_if_recorded(now);
        if resumes {
            self.effects.push_back(Effect::Resume);
        }
    }

    fn acknowledge_if_recorded(&mut self, now: Time) {
        if let Phase::Recording { barrier, first_at } = self.phase
            && self.channels.are_recorded()
        {
            self.over.add_up_to(barrier.checkpoint);
            self.phase = Phase::Idle;
            self.effects.push_back(Effect::Acknowledge {
                checkpoint: barrier.checkpoint,
                alignment: Alignment {
                    triggered_at: barrier.triggered_at,
                    first_at,
                    last_at: now,
                },
            });
        }
    }

    fn give_up(&mut self, checkpoint: CheckpointId, reason: AbortReason) {
        let is_current = self.current() == Some(checkpoint);
        if !is_current && self.over.contains(checkpoint) {
            return;
        }
        self.over.add(checkpoint);
        if !(is_current && matches!(self.phase, Phase::Recording { .. })) {
            // Also if nothing of it was seen yet: downstream may be waiting for this task's barrier.
            self.effects.push_back(Effect::ForwardCancel(checkpoint));
        }
        if is_current {
            self.effects.push_back(Effect::Abort { checkpoint, reason });
            self.phase = Phase::Idle;
            if self.channels.reset() {
                self.effects.push_back(Effect::Resume);
            }
        }
    }
}
