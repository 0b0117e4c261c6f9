//! Which checkpoint a write in the background belongs to.
//!
//! ```text
//!            freeze(c)            last one done            handed off
//!   Open ───────────────▶ Draining(c) ───▶ Frozen(c): Snapshot ───▶ Open: Resume
//!    ▲  began, ended          │ ended                │
//!    └────────────────────────┴── thawed: Resume ────┘
//! ```
//!
//! A sink that sends from a thread or keeps requests in flight writes records of two sides of a
//! barrier at the same time, unless it freezes at the barrier: nothing new begins, what has begun
//! ends, then what is pending is snapshotted and handed to the checkpoint, and then it goes on.
//!
//! Invariant: a snapshot is taken only when everything that began before the barrier has ended well.
//! An error fails the checkpoint it belongs to and, as the record is missing in those too, every
//! later one.

use std::{collections::VecDeque, fmt};

use cutwater_barrier::{CheckpointId, Time};

/// Decides when a writer with background work may snapshot.
#[derive(Debug, Default)]
pub struct EpochFence {
    in_flight: u64,
    stage: Stage,
    /// A write failed: its record is in no later checkpoint either.
    is_broken: bool,
    effects: VecDeque<EpochEffect>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Stage {
    #[default]
    Open,
    Draining(CheckpointId),
    Frozen(CheckpointId),
}

/// Something happened that the fence has to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EpochEvent {
    /// A write was handed to the background. Not while [`is_frozen`](EpochFence::is_frozen).
    Began,
    /// A write is durable in the target.
    Ended,
    /// A write failed, or was given up.
    Failed,
    /// The barrier of this checkpoint is here.
    Freeze(CheckpointId),
    /// The snapshot of this checkpoint is in the checkpoint's hands.
    HandedOff(CheckpointId),
    /// This checkpoint was given up. Nothing happens if it is over.
    Thaw(CheckpointId),
}

/// Do this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a writer that skips an effect breaks exactly-once"
)]
pub enum EpochEffect {
    /// Snapshot what is pending, then report [`EpochEvent::HandedOff`].
    Snapshot(CheckpointId),
    /// Fail this checkpoint: a write that belongs to it failed.
    Fail(CheckpointId),
    /// New writes may begin.
    Resume,
}

impl EpochFence {
    /// A fence with nothing in flight.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the fence what happened. Then [`poll`](Self::poll) until `None`. Time does not matter
    /// here; `_now` is there because every machine has it.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before it. The fence is unchanged, and the writer
    /// should fail: it has lost count of its writes.
    pub fn handle(&mut self, _now: Time, event: EpochEvent) -> Result<(), EpochError> {
        match (event, self.stage) {
            (EpochEvent::Began, Stage::Open) => self.in_flight += 1,
            (EpochEvent::Began, _) => return Err(EpochError::BeganFrozen),
            (EpochEvent::Ended | EpochEvent::Failed, _) if self.in_flight == 0 => {
                return Err(EpochError::NeverBegan);
            }
            (EpochEvent::Ended, _) => self.in_flight -= 1,
            (EpochEvent::Failed, _) => {
                self.in_flight -= 1;
                self.is_broken = true;
            }
            (EpochEvent::Freeze(checkpoint), Stage::Open) => {
                self.stage = Stage::Draining(checkpoint);
            }
            (EpochEvent::Freeze(_), _) => return Err(EpochError::FrozenTwice),
            (EpochEvent::HandedOff(of), Stage::Frozen(checkpoint)) if of == checkpoint => {
                self.resume();
            }
            (EpochEvent::HandedOff(_), _) => return Err(EpochError::NotAsked),
            (EpochEvent::Thaw(of), Stage::Draining(checkpoint) | Stage::Frozen(checkpoint))
                if of == checkpoint =>
            {
                self.resume();
            }
            (EpochEvent::Thaw(_), _) => {}
        }
        self.drain();
        Ok(())
    }

    /// The next effect. Carry effects out in this order.
    pub fn poll(&mut self) -> Option<EpochEffect> {
        self.effects.pop_front()
    }

    /// When to wake this machine: never.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Whether no write may begin for now.
    pub fn is_frozen(&self) -> bool {
        self.stage != Stage::Open
    }

    /// How many writes have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn drain(&mut self) {
        let Stage::Draining(checkpoint) = self.stage else {
            return;
        };
        if self.is_broken {
            self.effects.push_back(EpochEffect::Fail(checkpoint));
            self.resume();
        } else if self.in_flight == 0 {
            self.stage = Stage::Frozen(checkpoint);
            self.effects.push_back(EpochEffect::Snapshot(checkpoint));
        }
    }

    fn resume(&mut self) {
        self.stage = Stage::Open;
        self.effects.push_back(EpochEffect::Resume);
    }
}

/// An event that cannot have happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EpochError {
    /// A write began between a barrier and the hand-off.
    BeganFrozen,
    /// More writes ended than began.
    NeverBegan,
    /// A barrier came before the last one was handed off or given up.
    FrozenTwice,
    /// A hand-off of a checkpoint whose snapshot was not asked for.
    NotAsked,
}

impl fmt::Display for EpochError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeganFrozen => "a write began while frozen: wait for Resume first",
            Self::NeverBegan => "a write ended that never began",
            Self::FrozenTwice => "a barrier came while frozen: hand off or thaw the last one first",
            Self::NotAsked => "a hand-off of a checkpoint whose snapshot was not asked for",
        })
    }
}

impl std::error::Error for EpochError {}
