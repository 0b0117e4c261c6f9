//! The marker that a checkpoint sends through every channel.

use core::time::Duration;

use crate::{CheckpointId, Time};

/// Separates the records of one checkpoint from those of the next: what was sent before it belongs
/// to the checkpoint, what comes after does not.
///
/// Between processes it travels in its [wire form](Self::encode).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Barrier {
    /// The checkpoint that this barrier cuts.
    pub checkpoint: CheckpointId,
    /// Whose property the result is.
    pub kind: Kind,
    /// What a task does while some of its channels have no barrier yet.
    pub mode: Mode,
    /// What a task does once the checkpoint is complete.
    pub then: Then,
    /// When the coordinator triggered the checkpoint, on *its* clock. Skew between hosts shifts the
    /// start delay that tasks report and the moment an alignment times out, nothing else.
    pub triggered_at: Time,
}

impl Barrier {
    /// An aligned barrier of a checkpoint after which the job goes on.
    pub const fn checkpoint(checkpoint: CheckpointId, triggered_at: Time) -> Self {
        Self {
            checkpoint,
            kind: Kind::Checkpoint,
            mode: Mode::Aligned,
            then: Then::Continue,
            triggered_at,
        }
    }

    /// An aligned barrier of a savepoint after which the job goes on.
    pub const fn savepoint(checkpoint: CheckpointId, triggered_at: Time) -> Self {
        Self {
            kind: Kind::Savepoint,
            ..Self::checkpoint(checkpoint, triggered_at)
        }
    }

    /// The same barrier, with what follows the checkpoint. A job's last checkpoint is aligned:
    /// nothing may be left in flight when the tasks end.
    #[must_use]
    pub const fn then(self, then: Then) -> Self {
        Self { then, ..self }.with_mode(self.mode)
    }

    /// The same barrier in another mode, if it may have one: a savepoint and a job's last checkpoint
    /// stay aligned, whatever the job chose for its checkpoints (FLINK-18252, case B03).
    #[must_use]
    pub const fn with_mode(self, mode: Mode) -> Self {
        let mode = match (self.kind, self.then) {
            (Kind::Checkpoint, Then::Continue) => mode,
            (Kind::Savepoint, _) | (_, Then::Suspend | Then::Drain) => Mode::Aligned,
        };
        Self { mode, ..self }
    }

    /// Whether the barrier also goes into the side lane of a channel, ahead of records. Ask this, not the
    /// job's configuration.
    pub const fn may_overtake(&self) -> bool {
        !matches!(self.mode, Mode::Aligned)
    }

    /// When an alignment that is still going on changes its mode.
    pub(crate) fn overtakes_at(&self) -> Option<Time> {
        match self.mode {
            Mode::Aligned | Mode::Unaligned => None,
            Mode::AlignedFor(timeout) => Some(self.triggered_at + timeout),
        }
    }
}

/// Whose property a checkpoint is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a task that mistakes a savepoint for a checkpoint writes files that are not its own"
)]
pub enum Kind {
    /// The job's: taken to recover from, shares files with its neighbours, subsumed by newer ones.
    Checkpoint,
    /// The user's: self-contained, always aligned, never subsumed.
    Savepoint,
}

/// What a task does while some of its channels have no barrier yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that ignores a mode would cut wrongly"
)]
pub enum Mode {
    /// Hold back the channels whose barrier is in. Costs time under back-pressure, stores no records.
    Aligned,
    /// As [`Aligned`](Self::Aligned) until this long after the *trigger*, then as
    /// [`Unaligned`](Self::Unaligned): the time a barrier spent upstream counts (F051). On the wire in
    /// whole milliseconds, rounded up; zero means unaligned.
    AlignedFor(Duration),
    /// Do not wait: the barrier overtakes records, and what it overtook is saved with the checkpoint.
    Unaligned,
}

/// What a task does after its part of a checkpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a source that overlooks a stop emits records that no checkpoint will cover"
)]
pub enum Then {
    /// Go on.
    Continue,
    /// Stop as if killed: a source emits nothing after the barrier, windows stay unfired, and a task
    /// ends when it hears that the checkpoint is complete. The job can be resumed from it.
    Suspend,
    /// Stop as if the input had ended here: sources end their input *before* they send the barrier,
    /// so that windows and timers fire into the checkpoint, and a task ends when it hears that the
    /// checkpoint is complete.
    Drain,
}

impl Then {
    /// Whether tasks end after the checkpoint.
    pub const fn is_stop(self) -> bool {
        !matches!(self, Self::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases B03, F025, F057: in whatever order the barrier is put together.
    #[test]
    fn a_savepoint_and_a_last_checkpoint_stay_aligned() {
        let (id, at) = (CheckpointId::new(1), Time::ZERO);
        let checkpoint = Barrier::checkpoint(id, at);
        assert!(checkpoint.with_mode(Mode::Unaligned).may_overtake());
        for mode in [Mode::Unaligned, Mode::AlignedFor(Duration::ZERO)] {
            let savepoint = Barrier::savepoint(id, at);
            assert_eq!(savepoint.with_mode(mode), savepoint);
            for then in [Then::Suspend, Then::Drain] {
                let last = checkpoint.then(then);
                assert_eq!(last.with_mode(mode), last);
                assert_eq!(checkpoint.with_mode(mode).then(then), last);
            }
        }
    }

    #[test]
    fn an_alignment_is_timed_from_the_trigger() {
        let barrier = Barrier::checkpoint(CheckpointId::new(1), Time::from_millis(5));
        let timeout = Duration::from_millis(10);
        let timed = barrier.with_mode(Mode::AlignedFor(timeout));
        assert_eq!(timed.overtakes_at(), Some(Time::from_millis(15)));
        assert_eq!(barrier.overtakes_at(), None);
        assert_eq!(barrier.with_mode(Mode::Unaligned).overtakes_at(), None);
    }
}
