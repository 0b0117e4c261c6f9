//! The transactions that are neither committed nor undone, and where each one stands.

use std::collections::BTreeMap;

use cutwater_barrier::{CheckpointId, Time};

use super::Call;
use crate::{Guarantee, Prepared};

/// In the order of checkpoints, so that older ones become visible first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(BTreeMap<Prepared, Standing>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// No checkpoint that covers it is complete.
    Prepared,
    /// To be committed, not before `at`.
    Due { failures: u32, at: Time },
    /// Perhaps committed. To be probed, not before `at`.
    InDoubt {
        failures: u32,
        probes: u32,
        at: Time,
    },
    /// To be undone, not before `at`.
    Undo { failures: u32, at: Time },
}

impl Standing {
    fn is_decided(self) -> bool {
        matches!(self, Self::Due { .. } | Self::InDoubt { .. })
    }

    fn at(self) -> Option<Time> {
        match self {
            Self::Prepared => None,
            Self::Due { at, .. } | Self::InDoubt { at, .. } | Self::Undo { at, .. } => Some(at),
        }
    }
}

impl Pending {
    /// What a completed checkpoint names is decided, whatever its own checkpoint was.
    pub(super) fn restored(prepared: Vec<Prepared>) -> Self {
        let due = Standing::Due {
            failures: 0,
            at: Time::ZERO,
        };
        Self(prepared.into_iter().map(|one| (one, due)).collect())
    }

    pub(super) fn add(&mut self, prepared: Vec<Prepared>) {
        for one in prepared {
            self.0.entry(one).or_insert(Standing::Prepared);
        }
    }

    /// Everything up to `checkpoint` is to be committed.
    pub(super) fn decide(&mut self, now: Time, checkpoint: CheckpointId) {
        for (prepared, standing) in &mut self.0 {
            if prepared.checkpoint <= checkpoint && *standing == Standing::Prepared {
                *standing = Standing::Due {
                    failures: 0,
                    at: now,
                };
            }
        }
    }

    /// Exactly those of `checkpoint` are to be undone, if they are not decided.
    pub(super) fn undo(&mut self, now: Time, checkpoint: CheckpointId) {
        for (prepared, standing) in &mut self.0 {
            if prepared.checkpoint == checkpoint && *standing == Standing::Prepared {
                *standing = Standing::Undo {
                    failures: 0,
                    at: now,
                };
            }
        }
    }

    pub(super) fn set(&mut self, prepared: &Prepared, standing: Standing) {
        *self.0.get_mut(prepared).expect("removed only by a reply") = standing;
    }

    pub(super) fn remove(&mut self, prepared: &Prepared) {
        self.0.remove(prepared);
    }

    pub(super) fn failures(&self, prepared: &Prepared) -> u32 {
        match self.0[prepared] {
            Standing::Prepared => 0,
            Standing::Due { failures, .. }
            | Standing::InDoubt { failures, .. }
            | Standing::Undo { failures, .. } => failures,
        }
    }

    pub(super) fn probes(&self, prepared: &Prepared) -> u32 {
        match self.0[prepared] {
            Standing::InDoubt { probes, .. } => probes,
            Standing::Prepared | Standing::Due { .. } | Standing::Undo { .. } => 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Prepared> {
        self.0.keys()
    }

    pub(super) fn in_doubt(&self) -> impl Iterator<Item = &Prepared> {
        self.0
            .iter()
            .filter(|(_, standing)| matches!(standing, Standing::InDoubt { .. }))
            .map(|(prepared, _)| prepared)
    }

    /// What a checkpoint has to name: not what is being undone.
    pub(super) fn up_to(&self, checkpoint: CheckpointId) -> Vec<Prepared> {
        self.0
            .iter()
            .take_while(|(prepared, _)| prepared.checkpoint <= checkpoint)
            .filter(|(_, standing)| !matches!(standing, Standing::Undo { .. }))
            .map(|(prepared, _)| prepared.clone())
            .collect()
    }

    pub(super) fn oldest_decided(&self) -> Option<CheckpointId> {
        self.0
            .iter()
            .find(|(_, standing)| standing.is_decided())
            .map(|(prepared, _)| prepared.checkpoint)
    }

    pub(super) fn has_decided_after(&self, checkpoint: CheckpointId) -> bool {
        self.0
            .iter()
            .rev()
            .take_while(|(prepared, _)| prepared.checkpoint > checkpoint)
            .any(|(_, standing)| standing.is_decided())
    }

    pub(super) fn next_at(&self, guarantee: Guarantee) -> Option<Time> {
        let waiting = self.waiting(guarantee);
        waiting.filter_map(|(_, standing)| standing.at()).min()
    }

    /// All that may be asked for, now or later. Where a checkpoint is one decision, the oldest one
    /// that is not confirmed holds back the commits of younger ones.
    fn waiting(&self, guarantee: Guarantee) -> impl Iterator<Item = (&Prepared, Standing)> {
        let gate = match guarantee {
            Guarantee::AtomicPerCheckpoint => self.oldest_decided(),
            Guarantee::AtomicPerTransaction | Guarantee::Idempotent => None,
        };
        self.0
            .iter()
            .filter(move |(prepared, standing)| {
                let is_younger = gate.is_some_and(|gate| prepared.checkpoint > gate);
                !(is_younger && matches!(standing, Standing::Due { .. }))
            })
            .map(|(prepared, standing)| (prepared, *standing))
    }

    /// The call that is due at `now`: commits first, as readers wait for them.
    pub(super) fn due(&self, now: Time, guarantee: Guarantee) -> Option<Call> {
        let mut commit = Vec::new();
        let mut probe = Vec::new();
        let mut undo = Vec::new();
        for (prepared, standing) in self.waiting(guarantee) {
            match standing {
                Standing::Due { at, .. } if at <= now => commit.push(prepared),
                Standing::InDoubt { at, .. } if at <= now => probe.push(prepared),
                Standing::Undo { at, .. } if at <= now => undo.push(prepared),
                _ => {}
            }
        }
        let cloned = |asked: Vec<&Prepared>| asked.into_iter().cloned().collect();
        if !commit.is_empty() {
            Some(Call::Commit(cloned(commit)))
        } else if !probe.is_empty() {
            Some(Call::Probe(cloned(probe)))
        } else if !undo.is_empty() {
            Some(Call::Abort(cloned(undo)))
        } else {
            None
        }
    }
}
