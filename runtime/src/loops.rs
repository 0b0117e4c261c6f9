//! Loops, seen from the coordinator: what their heads are told of checkpoints, and rounds of probes until
//! one is quiet everywhere.

use std::collections::BTreeMap;

use cutwater_barrier::{CheckpointId, coordinate::TaskId};

use crate::{
    attempt::{Attempt, Tasks},
    graph::NodeId,
    task::Control,
};

/// All loops of an attempt.
pub(crate) struct Loops(BTreeMap<NodeId, Round>);

/// Where one loop stands.
#[derive(Default)]
struct Round {
    heads: Vec<TaskId>,
    /// Heads to which nothing more comes from outside.
    ended: usize,
    number: u64,
    /// Heads to which this round's probe has come back.
    back: usize,
    is_quiet: bool,
}

impl Loops {
    pub(crate) fn new(attempt: &Attempt, tasks: &Tasks) -> Self {
        let round = |head: NodeId| Round {
            heads: tasks.of[&head].clone(),
            ..Round::default()
        };
        let loops = attempt.graph.loops().into_iter();
        Self(
            loops
                .map(|around| (around.head, round(around.head)))
                .collect(),
        )
    }

    /// A checkpoint was triggered: its barriers must find their way into loops that are full.
    pub(crate) fn due(&self, checkpoint: CheckpointId, tasks: &Tasks) {
        for &head in self.0.values().flat_map(|round| &round.heads) {
            tasks.tell(head, Control::Due(checkpoint));
        }
    }

    /// Nothing more comes into its loop at `task`.
    pub(crate) fn ended(&mut self, task: TaskId, tasks: &Tasks) {
        let Some(round) = self.of(task) else { return };
        round.ended += 1;
        if round.ended == round.heads.len() {
            round.begin(tasks);
        }
    }

    /// The probe of round `number` is back at `task`.
    pub(crate) fn probed(&mut self, task: TaskId, number: u64, is_quiet: bool, tasks: &Tasks) {
        let Some(round) = self.of(task) else { return };
        if round.number != number {
            return;
        }
        round.back += 1;
        round.is_quiet &= is_quiet;
        if round.back < round.heads.len() {
            return;
        }
        if round.is_quiet {
            for &head in &round.heads {
                tasks.tell(head, Control::LoopEnded);
            }
        } else {
            round.begin(tasks);
        }
    }

    fn of(&mut self, task: TaskId) -> Option<&mut Round> {
        let mut rounds = self.0.values_mut();
        rounds.find(|round| round.heads.contains(&task))
    }
}

impl Round {
    fn begin(&mut self, tasks: &Tasks) {
        self.number += 1;
        self.back = 0;
        self.is_quiet = true;
        for &head in &self.heads {
            tasks.tell(head, Control::Probe(self.number));
        }
    }
}
