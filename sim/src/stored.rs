//! A task's part of a checkpoint: fixed in the task, written to the store, read back by anybody.

use std::collections::BTreeMap;

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation, Kind, coordinate::Decision};
use cutwater_keygroups::{Grouping, KeyGroup, KeyGroupSet};
use cutwater_sink_2pc::Prepared;
use cutwater_storage::{
    CheckpointStore, KeyedHandle, Metadata, Operator, PreparedTransaction, Result, StateFiles,
    Subtask,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    job::{Job, Role},
    layout::Layout,
    record::{Id, Record},
};

/// How often each record was seen, by key group.
pub(crate) type Counts = BTreeMap<KeyGroup, BTreeMap<Id, u16>>;

/// A record that was on its way, and the edge it was on.
pub(crate) type InFlight = (u8, Record);

/// What a task fixed at its cut, before anything of it is stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frozen {
    pub(crate) counts: Counts,
    /// Of each split it reads, the next record.
    pub(crate) positions: Vec<(u8, u16)>,
    /// Channel state, in order.
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) prepared: Vec<Prepared>,
}

/// What the coordinator gets: the report `R` of the machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) subtask: Subtask,
    pub(crate) prepared: Vec<Prepared>,
}

/// What identifies an operator in a checkpoint.
pub(crate) fn uid(operator: usize) -> String {
    format!("operator-{operator}")
}

const COUNTS: &str = "counts";
const IN_FLIGHT: &str = "in-flight";

/// Writes a part's files.
pub(crate) async fn store(
    files: StateFiles,
    checkpoint: CheckpointId,
    (operator, subtask): (usize, u16),
    groups: KeyGroupSet,
    frozen: Frozen,
) -> Result<Part> {
    let mut written = Vec::new();
    let plain: Vec<(u16, Vec<(Id, u16)>)> = frozen
        .counts
        .iter()
        .map(|(group, counts)| (group.get(), counts.iter().map(|(&id, &n)| (id, n)).collect()))
        .collect();
    let uid = uid(operator);
    for (name, bytes) in [
        (COUNTS, (!plain.is_empty()).then(|| encode(&plain))),
        (
            IN_FLIGHT,
            (!frozen.in_flight.is_empty()).then(|| encode(&frozen.in_flight)),
        ),
    ] {
        if let Some(bytes) = bytes {
            written.push(files.store(checkpoint, &uid, subtask, name, bytes).await?);
        }
    }
    let mut part = Part {
        subtask: Subtask::default(),
        prepared: frozen.prepared,
    };
    part.subtask.source = encode(&frozen.positions);
    if !written.is_empty() {
        let handle = KeyedHandle::new(groups.ranges().to_vec(), Bytes::new(), written);
        part.subtask.keyed.push(handle);
    }
    Ok(part)
}

/// What makes a decision a checkpoint. `sealed` is, for each sink, what has to be committed after it.
pub(crate) fn metadata(
    job: &Job,
    layout: &Layout,
    decision: &Decision<Part>,
    sealed: &BTreeMap<usize, Vec<Prepared>>,
) -> Metadata {
    let barrier = decision.barrier;
    let mut metadata = Metadata::new("sim", barrier.checkpoint, decision.generation, barrier.kind);
    let mut subtasks: Vec<Subtask> = vec![Subtask::default(); layout.tasks.len()];
    for task in &decision.finished {
        subtasks[task.0].finished = true;
    }
    for report in &decision.reports {
        subtasks[report.task.0] = report.part.subtask.clone();
    }
    for (number, assignment) in layout.assignments.iter().enumerate() {
        let mut operator = Operator::keyed(uid(number), assignment, Grouping::Xxh64);
        for task in layout.tasks_of(number) {
            operator.subtasks.push(subtasks[task].clone());
        }
        operator.finished = operator.subtasks.iter().all(|subtask| subtask.finished);
        if job.operators[number].role == Role::Sink {
            let prepared = sealed.get(&number).into_iter().flatten();
            operator.prepared = prepared
                .map(|one| PreparedTransaction::new(one.checkpoint, one.token.clone()))
                .collect();
        }
        metadata.operators.insert(uid(number), operator);
    }
    metadata
}

/// A checkpoint as it was read back.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) generation: Generation,
    pub(crate) kind: Kind,
    pub(crate) operators: Vec<StoredOperator>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredOperator {
    pub(crate) groups: Vec<KeyGroupSet>,
    pub(crate) subtasks: Vec<StoredSubtask>,
    pub(crate) prepared: Vec<Prepared>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StoredSubtask {
    pub(crate) finished: bool,
    pub(crate) counts: Counts,
    pub(crate) positions: Vec<(u8, u16)>,
    pub(crate) in_flight: Vec<InFlight>,
}

/// Reads everything that a checkpoint names.
pub(crate) async fn read(store: &CheckpointStore, metadata: &Metadata) -> Result<Stored> {
    let mut operators = Vec::new();
    for number in 0..metadata.operators.len() {
        let operator = &metadata.operators[&uid(number)];
        let mut subtasks = Vec::new();
        for subtask in &operator.subtasks {
            subtasks.push(read_subtask(store, subtask).await?);
        }
        let groups = operator.assignment.iter();
        operators.push(StoredOperator {
            groups: groups.map(|ranges| ranges.iter().copied().collect()).collect(),
            subtasks,
            prepared: operator
                .prepared
                .iter()
                .map(|one| Prepared::new(one.checkpoint, one.token.to_vec()))
                .collect(),
        });
    }
    Ok(Stored {
        checkpoint: metadata.checkpoint,
        generation: metadata.generation,
        kind: metadata.kind,
        operators,
    })
}

async fn read_subtask(store: &CheckpointStore, subtask: &Subtask) -> Result<StoredSubtask> {
    let mut read = StoredSubtask {
        finished: subtask.finished,
        ..StoredSubtask::default()
    };
    if !subtask.source.is_empty() {
        read.positions = decode(&subtask.source);
    }
    for file in subtask.keyed.iter().flat_map(|handle| &handle.files) {
        let bytes = store.read(file, 0..file.length).await?;
        if file.name == COUNTS {
            let plain: Vec<(u16, Vec<(Id, u16)>)> = decode(&bytes);
            let groups = plain.into_iter();
            read.counts = groups
                .map(|(group, counts)| (KeyGroup::new(group), counts.into_iter().collect()))
                .collect();
        } else {
            read.in_flight = decode(&bytes);
        }
    }
    Ok(read)
}

fn encode(value: &impl Serialize) -> Bytes {
    postcard::to_stdvec(value).expect("plain data").into()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    postcard::from_bytes(bytes).expect("written by `store`, and verified by its checksum")
}
