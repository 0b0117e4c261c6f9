//! Checkpoints asked for from outside, and those that have to wait.
//!
//! Order: what stops the job, then savepoints, then checkpoints; first come, first served among
//! equals. The periodic trigger is not in here: it comes after all of them.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{Kind, Then};

/// The caller's name for a request, to find its answer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a number of the caller's choice and nothing else"
)]
pub struct RequestId(pub u64);

/// A checkpoint asked for from outside. Each is answered exactly once.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// Whom to answer.
    pub id: RequestId,
    /// What to take.
    pub kind: Kind,
    /// What follows it.
    pub then: Then,
}

impl Request {
    /// A checkpoint now, regardless of interval and pause.
    pub const fn checkpoint(id: RequestId) -> Self {
        Self {
            id,
            kind: Kind::Checkpoint,
            then: Then::Continue,
        }
    }

    /// A savepoint now, regardless of interval, pause and how many are in progress.
    pub const fn savepoint(id: RequestId) -> Self {
        Self {
            kind: Kind::Savepoint,
            ..Self::checkpoint(id)
        }
    }

    /// The same request, as the job's last.
    #[must_use]
    pub const fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// Smaller goes first.
    fn rank(&self) -> u8 {
        match (self.then.is_stop(), self.kind) {
            (true, _) => 0,
            (false, Kind::Savepoint) => 1,
            (false, Kind::Checkpoint) => 2,
        }
    }

    /// Whether it need not wait for others to end (F012: savepoints are exempt).
    pub(super) fn is_exempt(&self) -> bool {
        self.then.is_stop() || self.kind == Kind::Savepoint
    }
}

/// Requests that wait, most important first.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Requests {
    waiting: VecDeque<Request>,
    max: usize,
}

impl Requests {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            max,
        }
    }

    /// Returns the request that there is no room for: the last of the least important.
    pub(super) fn push(&mut self, request: Request) -> Option<Request> {
        let place = self
            .waiting
            .partition_point(|waiting| waiting.rank() <= request.rank());
        self.waiting.insert(place, request);
        if self.waiting.len() > self.max {
            self.waiting.pop_back()
        } else {
            None
        }
    }

    pub(super) fn first(&self) -> Option<&Request> {
        self.waiting.front()
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }

    pub(super) fn drain(&mut self) -> Vec<Request> {
        self.waiting.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case F015.
    #[test]
    fn overflow_drops_the_last_of_the_least_important() {
        let mut requests = Requests::new(3);
        let checkpoint = |id| Request::checkpoint(RequestId(id));
        let savepoint = |id| Request::savepoint(RequestId(id));
        assert_eq!(requests.push(checkpoint(1)), None);
        assert_eq!(requests.push(checkpoint(2)), None);
        assert_eq!(requests.push(savepoint(3)), None);
        assert_eq!(requests.push(checkpoint(4)), Some(checkpoint(4)));
        assert_eq!(requests.push(savepoint(5)), Some(checkpoint(2)));
        let stop = checkpoint(6).then(Then::Suspend);
        assert_eq!(requests.push(stop), Some(checkpoint(1)));
        assert_eq!(requests.drain(), [stop, savepoint(3), savepoint(5)]);
    }
}
