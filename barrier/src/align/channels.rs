//! The input channels of a task, as one checkpoint sees them.
//!
//! ```text
//!   before the cut                                 after it
//!   Open ──▶ Announced ──▶ Arrived (blocked)       Recording ──▶ Open
//!     │  came by the side lane │ reached in order      │ its barrier came
//!     └────────────────────────┘                       │
//!                 any ──────────▶ Finished ◀───────────┘
//! ```
//!
//! Invariant: the counters say how many channels are in which state, so asking costs one compare.
//! Blocked and recorded channels share one, as there are none of both at a time.

use alloc::vec::Vec;

use super::{AlignError, Channel, Input, Reading};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Channels {
    all: Vec<One>,
    /// Waited for in an aligned cut, and its barrier is not in.
    open: usize,
    /// Of these, the ones that nothing may overtake.
    open_strict: usize,
    /// Not [`Free`](Reading::Free) to read: before the cut the blocked ones, after it the recorded ones.
    not_free: usize,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct One {
    input: Input,
    status: Status,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Status {
    Open,
    /// The barrier has come by the side lane; its place in the channel is not reached.
    Announced,
    /// The barrier was reached in order, and the cut is still to come.
    Arrived,
    /// The cut was made without the barrier: what is read is in-flight state.
    Recording,
    Finished,
}

impl Status {
    fn reading(self) -> Reading {
        match self {
            Self::Open | Self::Announced | Self::Finished => Reading::Free,
            Self::Arrived => Reading::Blocked,
            Self::Recording => Reading::Recorded,
        }
    }
}

/// What the cut made of a channel.
pub(super) enum AtCut {
    Nothing,
    Unblocked,
    /// The barrier is in there: what is queued before it is in-flight state.
    Captured,
}

impl One {
    /// Whether an aligned cut waits for it: not for the back edge of a loop, whose barrier comes
    /// after the cut.
    fn is_waited_for(self) -> bool {
        self.input != Input::Feedback && !matches!(self.status, Status::Arrived | Status::Finished)
    }
}

impl Channels {
    pub(super) fn new(inputs: impl IntoIterator<Item = Input>) -> Self {
        let status = Status::Open;
        let all = inputs.into_iter().map(|input| One { input, status });
        let mut channels = Self {
            all: Vec::new(),
            open: 0,
            open_strict: 0,
            not_free: 0,
        };
        for one in all {
            channels.count(one, true);
            channels.all.push(one);
        }
        channels
    }

    #[inline]
    pub(super) fn reading(&self, channel: Channel) -> Reading {
        if self.not_free == 0 {
            Reading::Free
        } else {
            self.reading_of(channel)
        }
    }

    /// Out of line: what is inlined into the loop over records is one compare and no more.
    #[cold]
    #[inline(never)]
    fn reading_of(&self, channel: Channel) -> Reading {
        self.status(channel).reading()
    }

    /// Whether all have delivered their barrier in order.
    pub(super) fn are_aligned(&self) -> bool {
        self.open == 0
    }

    /// Whether the barrier may overtake what all others have queued.
    pub(super) fn may_be_overtaken(&self) -> bool {
        self.open_strict == 0
    }

    /// After the cut: whether all have delivered their barrier, in order or not.
    pub(super) fn are_recorded(&self) -> bool {
        self.not_free == 0
    }

    pub(super) fn status(&self, channel: Channel) -> Status {
        self.all[channel.0].status
    }

    pub(super) fn set(&mut self, channel: Channel, status: Status) {
        let before = self.all[channel.0];
        let after = One { status, ..before };
        self.count(before, false);
        self.count(after, true);
        self.all[channel.0] = after;
    }

    /// The cut is made: what has its barrier goes on, what has not is recorded.
    pub(super) fn cut(&mut self, mut heed: impl FnMut(Channel, AtCut)) {
        for channel in (0..self.all.len()).map(Channel) {
            let (status, outcome) = match self.status(channel) {
                Status::Open => (Status::Recording, AtCut::Nothing),
                Status::Announced => (Status::Open, AtCut::Captured),
                Status::Arrived => (Status::Open, AtCut::Unblocked),
                same @ (Status::Recording | Status::Finished) => (same, AtCut::Nothing),
            };
            self.set(channel, status);
            heed(channel, outcome);
        }
    }

    /// Forgets the checkpoint. Returns whether a channel was blocked.
    pub(super) fn reset(&mut self) -> bool {
        let mut was_blocked = false;
        for channel in (0..self.all.len()).map(Channel) {
            let status = self.status(channel);
            was_blocked |= status == Status::Arrived;
            if status != Status::Finished {
                self.set(channel, Status::Open);
            }
        }
        was_blocked
    }

    /// Whether an item may have been read from `channel`.
    pub(super) fn check_readable(&self, channel: Channel) -> Result<(), AlignError> {
        match self.all.get(channel.0).map(|one| one.status) {
            None => Err(AlignError::UnknownChannel { channel }),
            Some(Status::Finished) => Err(AlignError::AfterFinish { channel }),
            Some(Status::Arrived) => Err(AlignError::ReadWhileBlocked { channel }),
            Some(Status::Open | Status::Announced | Status::Recording) => Ok(()),
        }
    }

    /// Whether a barrier may have come by the side lane of `channel`, which may be blocked or, if its side
    /// lane is read late, have ended.
    pub(super) fn check_overtakable(&self, channel: Channel) -> Result<(), AlignError> {
        match self.all.get(channel.0) {
            None => Err(AlignError::UnknownChannel { channel }),
            Some(one) if one.input == Input::Strict => Err(AlignError::StrictOvertaken { channel }),
            Some(_) => Ok(()),
        }
    }

    fn count(&mut self, one: One, add: bool) {
        let is_open = one.is_waited_for();
        let counters = [
            (&mut self.open, is_open),
            (&mut self.open_strict, is_open && one.input == Input::Strict),
            (&mut self.not_free, one.status.reading() != Reading::Free),
        ];
        for (counter, counts) in counters {
            if counts && add {
                *counter += 1;
            } else if counts {
                *counter -= 1;
            }
        }
    }
}
