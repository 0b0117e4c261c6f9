//! Each record exactly once: in every completed checkpoint, and in the output at the end.
//!
//! The ledger believes nobody. It reads the store and the external system from outside, as a user
//! would, whenever the log may have grown. A checkpoint is right if for each record before the
//! positions of the sources, and for no other,
//!
//! ```text
//!   times in state + times that what is in flight will still bring  =  times it is to be seen
//!   times in output, visible or named by it + the same              =  times it is to be seen
//! ```
//!
//! With at-least-once the left side may be larger.

use std::collections::BTreeSet;

use cutwater_barrier::{CheckpointId, Generation, Kind};
use cutwater_storage::{Blobs, CheckpointStore, Options, layout, testkit::MemoryBlobs};

use crate::{
    coverage::Coverage,
    external::{External, Status, Token, token_of},
    job::{Job, Role},
    record::Id,
    stepped::at_once,
    stored::{self, Stored, uid},
};

#[derive(Debug)]
pub(crate) struct Ledger {
    memory: MemoryBlobs,
    store: Option<CheckpointStore>,
    newest: Option<CheckpointId>,
    generation: Option<Generation>,
    /// What some completed checkpoint names: only this may ever become visible.
    committable: BTreeSet<Token>,
}

impl Ledger {
    pub(crate) fn new(memory: MemoryBlobs) -> Self {
        Self {
            memory,
            store: None,
            newest: None,
            generation: None,
            committable: BTreeSet::new(),
        }
    }

    /// Checks every checkpoint that was completed since the last time.
    pub(crate) fn audit(&mut self, job: &Job, external: &External, coverage: &mut Coverage) {
        for token in external.committed() {
            assert!(
                self.committable.contains(&token),
                "transaction {token} is visible, and no completed checkpoint names it"
            );
        }
        let store = match self.store.take() {
            Some(mut store) => {
                at_once(store.refresh()).expect("the store is intact");
                store
            }
            None => at_once(CheckpointStore::open(
                self.memory.clone(),
                Options::default(),
            ))
            .expect("the store is intact"),
        };
        let new = store
            .list()
            .filter(|completed| self.newest < Some(completed.checkpoint));
        let new: Vec<CheckpointId> = new.map(|completed| completed.checkpoint).collect();
        for checkpoint in new {
            let stored = load(&store, checkpoint);
            assert!(
                self.generation <= Some(stored.generation),
                "checkpoint {checkpoint} of generation {} was completed after one of a newer generation",
                stored.generation
            );
            self.newest = Some(checkpoint);
            self.generation = Some(stored.generation);
            check(job, external, &stored, true);
            self.committable.extend(named(&stored));
            coverage.count("checkpoints completed");
            if stored.kind == Kind::Savepoint {
                coverage.count("savepoints completed");
            }
        }
        self.store = Some(store);
    }

    /// Checks that whoever stops as fenced has a successor.
    pub(crate) fn check_replaced(&self, generation: Generation) {
        let store = at_once(CheckpointStore::open(
            self.memory.clone(),
            Options::default(),
        ));
        let newest = store.expect("the store is intact").generation();
        assert!(
            newest > Some(generation),
            "generation {generation} stops as fenced, and nobody has taken over"
        );
    }

    /// The newest completed checkpoint.
    pub(crate) fn newest(&self) -> Option<CheckpointId> {
        self.newest
    }

    /// Checks the output of a job that has ended: what its last checkpoint covers is visible.
    pub(crate) fn end(&self, job: &Job, external: &External) {
        let store = self.store.as_ref().expect("audited before");
        let newest = self.newest.expect("a job ends with a checkpoint");
        let stored = load(store, newest);
        check(job, external, &stored, false);
        self.check_cleanable();
    }

    /// Checks, on a copy, that a successor can delete all that no retained checkpoint needs, and that it
    /// deletes nothing else.
    fn check_cleanable(&self) {
        let memory = self.memory.copy();
        let mut options = Options::default();
        options.keep = 1;
        let cleaned = at_once(async {
            let mut store = CheckpointStore::open(memory.clone(), options).await?;
            store.take_over().await?;
            store.apply_retention().await?;
            store.prune().await?;
            let mut named = BTreeSet::new();
            for completed in store.list() {
                named.insert(completed.metadata.clone());
                let metadata = store.load(completed.checkpoint).await?;
                stored::read(&store, &metadata).await?;
                named.extend(
                    metadata
                        .files()
                        .filter_map(|file| file.path().map(str::to_owned)),
                );
            }
            let mut left = memory.list("").await?;
            left.retain(|object| !object.path.starts_with(layout::LOG));
            Ok::<_, cutwater_storage::Error>((named, left))
        });
        let (named, left) = cleaned.expect("what is retained is intact");
        for object in left {
            let path = object.path;
            assert!(
                named.contains(&path),
                "{path} is needed by nobody, and is never deleted"
            );
        }
    }
}

fn load(store: &CheckpointStore, checkpoint: CheckpointId) -> Stored {
    let metadata = at_once(store.load(checkpoint)).expect("a completed checkpoint is intact");
    at_once(stored::read(store, &metadata)).expect("a completed checkpoint is intact")
}

/// The transactions that a checkpoint names.
fn named(stored: &Stored) -> impl Iterator<Item = Token> {
    let prepared = stored
        .operators
        .iter()
        .flat_map(|operator| &operator.prepared);
    prepared.map(token_of)
}

/// For each split the first record that is not before the cut.
fn positions(job: &Job, stored: &Stored) -> Vec<u16> {
    let end = |split: &crate::job::Split| split.records.unwrap_or(0);
    let mut positions: Vec<u16> = job.splits.iter().map(end).collect(); // If its reader has finished.
    for subtask in stored
        .operators
        .iter()
        .flat_map(|operator| &operator.subtasks)
    {
        for &(split, position) in &subtask.positions {
            positions[usize::from(split)] = position;
        }
    }
    positions
}

/// Checks that a checkpoint is a consistent cut. `is_named_output`: what it names counts as output.
fn check(job: &Job, external: &External, stored: &Stored, is_named_output: bool) {
    let checkpoint = stored.checkpoint;
    let positions = positions(job, stored);
    let mut found = Tally::new(job);
    for ((edge, _), records) in &stored.in_flight {
        let edge = &job.edges[*edge];
        assert!(
            !edge.exchange.is_strict(),
            "an edge that cannot be re-routed carries channel state in checkpoint {checkpoint}"
        );
        assert!(
            stored.kind == Kind::Checkpoint || edge.feedback,
            "savepoint {checkpoint} carries channel state"
        );
        for record in records {
            for (operator, &times) in job.seen(edge.to, record.laps).iter().enumerate() {
                found.add(operator, record.id, times);
            }
        }
    }
    for (number, operator) in stored.operators.iter().enumerate() {
        for subtask in &operator.subtasks {
            for (&id, &times) in subtask.counts.values().flatten() {
                found.add(number, id, times);
            }
        }
        if job.operators[number].role == Role::Sink {
            let mut rows = external.visible(&format!("sim/{}", uid(number)));
            for token in operator
                .prepared
                .iter()
                .map(token_of)
                .filter(|_| is_named_output)
            {
                let (status, more) = external.look(token).expect("prepared before it was named");
                match status {
                    Status::Prepared => rows.extend(more),
                    Status::Committed => {} // Among the visible ones.
                    Status::Open | Status::Aborted => {
                        panic!(
                            "checkpoint {checkpoint} names transaction {token}, which is {status:?}"
                        )
                    }
                }
            }
            for row in rows {
                found.add(number, Id::from_row(row), 1);
            }
        }
    }
    found.compare(job, &positions, checkpoint);
}

/// How often each record is accounted for at each operator.
struct Tally {
    times: Vec<u16>,
    splits: usize,
    places: usize,
}

impl Tally {
    fn new(job: &Job) -> Self {
        let places = usize::from(crate::task::POSITION_MAX) + 1;
        let splits = job.splits.len();
        Self {
            times: vec![0; job.operators.len() * splits * places],
            splits,
            places,
        }
    }

    fn slot(&mut self, operator: usize, id: Id) -> &mut u16 {
        let split = operator * self.splits + usize::from(id.split);
        &mut self.times[split * self.places + usize::from(id.position)]
    }

    fn add(&mut self, operator: usize, id: Id, times: u16) {
        *self.slot(operator, id) += times;
    }

    fn compare(mut self, job: &Job, positions: &[u16], checkpoint: CheckpointId) {
        for (operator, kept) in job.operators.iter().enumerate() {
            if !matches!(kept.role, Role::Count | Role::Sink) {
                continue;
            }
            for (split, &end) in (0..).zip(positions) {
                for position in 0..u16::try_from(self.places).expect("few places") {
                    let id = Id { split, position };
                    let expected = if position < end {
                        job.seen_of(id)[operator]
                    } else {
                        0
                    };
                    let times = *self.slot(operator, id);
                    let fine = if job.exactly_once {
                        times == expected
                    } else {
                        times >= expected
                    };
                    assert!(
                        fine,
                        "record {split}/{position} is {times} times at operator {operator} in checkpoint \
                         {checkpoint}, and should be {expected} times; its split was read up to {end}"
                    );
                }
            }
        }
    }
}
