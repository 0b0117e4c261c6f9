//! Deals splits out to readers and remembers, for every checkpoint, where each of them is.
//!
//! ```text
//!   discovered ─▶ unassigned ── Assign ─▶ with a reader, not yet in a checkpoint
//!                     ▲                          │ snapshot(n), Completed(n)
//!                     └───────── Failed ─────────┤
//!                                                ▼
//!                                     with a reader, in its checkpoints
//! ```
//!
//! Invariant: a known split is unassigned, finished, or with exactly one reader.

use std::collections::{BTreeSet, VecDeque};

use cutwater_barrier::CheckpointId;
use serde::{Deserialize, Serialize};

use crate::{
    Discovery, Error, ErrorKind, Result, Split,
    codec::{decode, encode},
};

/// How splits come to readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Assignment {
    /// A reader gets one when it asks: for splits that end, so that a quick reader takes more.
    OnRequest,
    /// All at once, to whoever has fewest: for splits without an end.
    UpFront,
}

/// The sans-IO half of a [`SplitCoordinator`](crate::SplitCoordinator).
#[derive(Debug)]
pub struct Assigner<S> {
    assignment: Assignment,
    known: BTreeSet<String>,
    complete: bool,
    unassigned: VecDeque<S>,
    finished: Vec<S>,
    /// Given out, and not known to be in a completed checkpoint of the reader.
    in_flight: Vec<InFlight<S>>,
    readers: Vec<ReaderState>,
    effects: VecDeque<Effect<S>>,
}

#[derive(Debug)]
struct InFlight<S> {
    subtask: usize,
    split: S,
    /// The first checkpoint of the reader that holds it.
    checkpoint: Option<CheckpointId>,
}

#[derive(Clone, Debug, Default)]
struct ReaderState {
    /// Splits given to it in this attempt.
    given: usize,
    asks: bool,
    told_no_more: bool,
}

/// What stands in the checkpoint.
#[derive(Serialize, Deserialize)]
struct State<S> {
    known: BTreeSet<String>,
    unassigned: Vec<S>,
    finished: Vec<S>,
}

/// Something happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<S> {
    /// The enumerator looked. Splits already known are left out.
    Discovered(Discovery<S>),
    /// A reader has nothing to read. Asking twice counts once.
    Requested {
        /// Who asks.
        subtask: usize,
    },
    /// A checkpoint is complete: what its readers hold they will hold after a restart.
    Completed(CheckpointId),
    /// One reader failed and restarts from the latest completed checkpoint on its own. The splits it
    /// was given since come back (CASES F150).
    Failed {
        /// Who failed.
        subtask: usize,
    },
}

/// Tell a reader something.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that skips an effect loses a split or never ends"
)]
pub enum Effect<S> {
    /// [`Reader::add_splits`](crate::Reader::add_splits).
    Assign {
        /// To whom.
        subtask: usize,
        /// What.
        splits: Vec<S>,
    },
    /// [`Reader::no_more_splits`](crate::Reader::no_more_splits).
    NoMore {
        /// To whom.
        subtask: usize,
    },
}

impl<S: Split> Assigner<S> {
    /// Nothing is known yet.
    ///
    /// # Panics
    ///
    /// If `parallelism` is 0.
    pub fn new(assignment: Assignment, parallelism: usize) -> Self {
        assert!(parallelism > 0, "a source has at least one reader");
        Self {
            assignment,
            known: BTreeSet::new(),
            complete: false,
            unassigned: VecDeque::new(),
            finished: Vec::new(),
            in_flight: Vec::new(),
            readers: vec![ReaderState::default(); parallelism],
            effects: VecDeque::new(),
        }
    }

    /// The assigner of a restored job: what `state` holds, and all splits of all old readers, which go
    /// to the front of the queue. `readers` of any old parallelism serve any new one.
    ///
    /// Whether discovery was complete is not carried over: the enumerator of the new attempt is asked
    /// once more, as its program may know more input than the old one.
    ///
    /// A split that is in two places means that parts of different checkpoints were mixed: refused.
    pub fn restore(
        assignment: Assignment,
        parallelism: usize,
        state: &[u8],
        readers: Vec<S>,
    ) -> Result<Self> {
        let state: State<S> = decode(state, "assigner state")?;
        let mut seen = BTreeSet::new();
        for split in state
            .unassigned
            .iter()
            .chain(&state.finished)
            .chain(&readers)
        {
            if !seen.insert(split.id()) || !state.known.contains(split.id()) {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "split {:?} is in two places or was never discovered: the parts are not of \
                         one checkpoint; restore a whole one",
                        split.id()
                    ),
                ));
            }
        }
        if let Some(lost) = state.known.iter().find(|id| !seen.contains(id.as_str())) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "split {lost:?} is in no part of the checkpoint: the state of a reader is \
                     missing; restore with the states of all of them"
                ),
            ));
        }
        drop(seen);

        let mut this = Self::new(assignment, parallelism);
        let (mut finished, mut open): (Vec<S>, Vec<S>) =
            readers.into_iter().partition(Split::is_finished);
        open.sort_by(|a, b| a.id().cmp(b.id()));
        this.known = state.known;
        this.finished = state.finished;
        this.finished.append(&mut finished);
        this.unassigned = open.into_iter().chain(state.unassigned).collect();
        this.assign();
        Ok(this)
    }

    /// Something happened.
    ///
    /// # Panics
    ///
    /// If a subtask is not below the parallelism.
    pub fn handle(&mut self, event: Event<S>) {
        match event {
            Event::Discovered(discovery) => {
                for split in discovery.splits {
                    if self.known.insert(split.id().to_owned()) {
                        self.unassigned.push_back(split);
                    }
                }
                self.complete |= discovery.complete;
            }
            Event::Requested { subtask } => self.readers[subtask].asks = true,
            Event::Completed(completed) => self
                .in_flight
                .retain(|given| given.checkpoint.is_none_or(|first| first > completed)),
            Event::Failed { subtask } => {
                let (back, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.in_flight)
                    .into_iter()
                    .partition(|given| given.subtask == subtask);
                self.in_flight = rest;
                self.effects.retain(|effect| match effect {
                    Effect::Assign { subtask: to, .. } | Effect::NoMore { subtask: to } => {
                        *to != subtask
                    }
                });
                self.readers[subtask].asks = false;
                self.readers[subtask].told_no_more = false;
                self.readers[subtask].given -= back.len();
                for given in back.into_iter().rev() {
                    self.unassigned.push_front(given.split);
                }
            }
        }
        self.assign();
    }

    /// What to tell a reader next.
    pub fn poll(&mut self) -> Option<Effect<S>> {
        self.effects.pop_front()
    }

    /// The state for `checkpoint`. Effects not yet polled belong to it: send them to the readers
    /// before the trigger.
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> Vec<u8> {
        for given in &mut self.in_flight {
            given.checkpoint.get_or_insert(checkpoint);
        }
        encode(&State {
            known: self.known.clone(),
            unassigned: self.unassigned.iter().cloned().collect(),
            finished: self.finished.clone(),
        })
    }

    /// The ids of all splits ever discovered.
    pub fn known(&self) -> &BTreeSet<String> {
        &self.known
    }

    /// The splits nobody has.
    pub fn unassigned(&self) -> impl Iterator<Item = &S> {
        self.unassigned.iter()
    }

    /// The splits that were finished at the checkpoint this attempt was restored from.
    pub fn finished(&self) -> &[S] {
        &self.finished
    }

    /// Whether all splits are known.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    fn assign(&mut self) {
        match self.assignment {
            Assignment::OnRequest => {
                for subtask in 0..self.readers.len() {
                    if self.readers[subtask].asks
                        && let Some(split) = self.unassigned.pop_front()
                    {
                        self.give(subtask, vec![split]);
                    }
                }
            }
            Assignment::UpFront => {
                let load: Vec<usize> = self.readers.iter().map(|reader| reader.given).collect();
                let splits = self.unassigned.drain(..).collect();
                for (subtask, splits) in deal(splits, load).into_iter().enumerate() {
                    if !splits.is_empty() {
                        self.give(subtask, splits);
                    }
                }
            }
        }
        if !self.complete || !self.unassigned.is_empty() {
            return;
        }
        for (subtask, reader) in self.readers.iter_mut().enumerate() {
            let over = reader.asks || self.assignment == Assignment::UpFront;
            if over && !reader.told_no_more {
                reader.asks = false;
                reader.told_no_more = true;
                self.effects.push_back(Effect::NoMore { subtask });
            }
        }
    }

    fn give(&mut self, subtask: usize, splits: Vec<S>) {
        let reader = &mut self.readers[subtask];
        reader.asks = false;
        reader.given += splits.len();
        self.in_flight
            .extend(splits.iter().cloned().map(|split| InFlight {
                subtask,
                split,
                checkpoint: None,
            }));
        self.effects.push_back(Effect::Assign { subtask, splits });
    }
}

/// Spreads `splits` over `parallelism` readers: ordered by id and dealt in turn, so that shares differ
/// by at most one and the order they come in does not matter. Finished splits are dealt like others; a
/// caller sorts them out.
///
/// For engines without an [`Assigner`]; it does the same for [`Assignment::UpFront`].
///
/// # Panics
///
/// If `parallelism` is 0.
pub fn redistribute<S: Split>(mut splits: Vec<S>, parallelism: usize) -> Vec<Vec<S>> {
    assert!(parallelism > 0, "a source has at least one reader");
    splits.sort_by(|a, b| a.id().cmp(b.id()));
    deal(splits, vec![0; parallelism])
}

/// Each split to whoever has fewest, the lowest index first.
fn deal<S>(splits: Vec<S>, mut load: Vec<usize>) -> Vec<Vec<S>> {
    let mut shares: Vec<Vec<S>> = load.iter().map(|_| Vec::new()).collect();
    for split in splits {
        let to = (0..load.len())
            .min_by_key(|&subtask| load[subtask])
            .expect("a source has at least one reader");
        load[to] += 1;
        shares[to].push(split);
    }
    shares
}
