//! A task's part of a checkpoint: fixed in the task, written to the store, read back by anybody.
//!
//! The state of each key group is a file of its own. One that a confirmed checkpoint has as well is not stored
//! again but named, as an incremental backend would do.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation, Kind, coordinate::Decision};
use cutwater_keygroups::{Grouping, KeyGroup, KeyGroupSet};
use cutwater_sink_2pc::Prepared;
use cutwater_storage::{
    ChannelState, CheckpointStore, InFlight as InFlightSection, Metadata, Operator,
    PreparedTransaction, Result, StateFiles, Subtask,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    job::{Job, Role},
    layout::Layout,
    record::{Id, Record},
};

/// How often each record was seen, by key group.
pub(crate) type Counts = BTreeMap<KeyGroup, BTreeMap<Id, u16>>;

/// The files of a task's state: for each key group the name and the bytes.
pub(crate) type Files = BTreeMap<KeyGroup, (String, Bytes)>;

/// A channel across attempts: its edge, and the subtask that sent.
pub(crate) type ChannelName = (usize, u16);

/// Records on their way, in sections, in the order in which they have to be processed.
///
/// What was itself restored and is not processed yet comes first. Another subtask may have sent it than
/// sends the same keys now, so the names of channels do not give that order.
pub(crate) type InFlight = Vec<(ChannelName, Vec<Record>)>;

/// What a task fixed at its cut, before anything of it is stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frozen {
    pub(crate) files: Files,
    /// Those of the files that may be named instead of stored.
    pub(crate) shared: BTreeSet<KeyGroup>,
    /// Of each split it reads, the next record.
    pub(crate) positions: Vec<(u8, u16)>,
    /// Channel state.
    pub(crate) in_flight: InFlight,
    pub(crate) prepared: Vec<Prepared>,
}

/// What the coordinator gets: the report `R` of the machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) subtask: Subtask,
    pub(crate) in_flight: Option<ChannelState>,
    pub(crate) prepared: Vec<Prepared>,
    /// Files that are named again, and files that were to be but are there no more.
    pub(crate) reused: usize,
    pub(crate) gone: usize,
}

/// What identifies an operator in a checkpoint.
pub(crate) fn uid(operator: usize) -> String {
    format!("operator-{operator}")
}

fn edge_name(edge: usize) -> String {
    format!("edge-{edge}")
}

fn edge_number(name: &str) -> usize {
    let number = name
        .strip_prefix("edge-")
        .and_then(|number| number.parse().ok());
    number.expect("written by `edge_name`")
}

/// Writes a part's files.
pub(crate) async fn store(
    files: StateFiles,
    checkpoint: CheckpointId,
    (operator, subtask): (usize, u16),
    groups: KeyGroupSet,
    frozen: Frozen,
) -> Result<Part> {
    let uid = uid(operator);
    let mut part = Part {
        subtask: Subtask::default(),
        in_flight: None,
        prepared: frozen.prepared,
        reused: 0,
        gone: 0,
    };
    part.subtask.source = encode(&frozen.positions);
    if !frozen.files.is_empty() {
        let mut handle = files.handle(checkpoint, &uid, subtask);
        for (group, (name, bytes)) in frozen.files {
            let is_shared = frozen.shared.contains(&group);
            if is_shared && handle.reuse(&name) {
                part.reused += 1;
            } else {
                part.gone += usize::from(is_shared);
                handle.store(&name, bytes).await?;
            }
        }
        let handle = handle.finish(groups.ranges().iter().copied(), Bytes::new());
        part.subtask.keyed.push(handle);
    }
    let mut in_flight = files.channel_state(checkpoint, &uid, subtask);
    for ((edge, from), records) in frozen.in_flight {
        let count = records.len() as u64;
        in_flight.channel(InFlightSection::new(
            edge_name(edge),
            "record",
            from,
            subtask,
            count,
        ));
        for record in records {
            in_flight.write(encode(&record)).await?;
        }
    }
    part.in_flight = in_flight.finish().await?;
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
    metadata.mode = barrier.mode;
    let mut subtasks: Vec<Subtask> = vec![Subtask::default(); layout.tasks.len()];
    for task in &decision.finished {
        subtasks[task.0].finished = true;
    }
    for report in &decision.reports {
        subtasks[report.task.0] = report.part.subtask.clone();
        metadata.channels.extend(report.part.in_flight.clone());
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
    pub(crate) in_flight: InFlight,
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
    pub(crate) files: Files,
    pub(crate) positions: Vec<(u8, u16)>,
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
            groups: groups
                .map(|ranges| ranges.iter().copied().collect())
                .collect(),
            subtasks,
            prepared: operator
                .prepared
                .iter()
                .map(|one| Prepared::new(one.checkpoint, one.token.to_vec()))
                .collect(),
        });
    }
    let mut in_flight = InFlight::new();
    for channels in &metadata.channels {
        for section in &channels.sections {
            let bytes = store.read(&channels.file, section.range.clone()).await?;
            let mut rest = &bytes[..];
            let mut records = Vec::new();
            for _ in 0..section.records {
                let (record, after) = postcard::take_from_bytes(rest).expect("written by `store`");
                records.push(record);
                rest = after;
            }
            in_flight.push(((edge_number(&section.edge), section.from), records));
        }
    }
    Ok(Stored {
        checkpoint: metadata.checkpoint,
        generation: metadata.generation,
        kind: metadata.kind,
        operators,
        in_flight,
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
        let (group, counts): (u16, BTreeMap<Id, u16>) = decode(&bytes);
        let group = KeyGroup::new(group);
        let twice = read.counts.insert(group, counts);
        assert_eq!(twice, None, "key group {group} is there twice");
        read.files.insert(group, (file.name.clone(), bytes));
    }
    Ok(read)
}

/// The file of a key group.
pub(crate) fn file(group: KeyGroup, counts: &BTreeMap<Id, u16>) -> Bytes {
    encode(&(group.get(), counts))
}

fn encode(value: &impl Serialize) -> Bytes {
    postcard::to_stdvec(value).expect("plain data").into()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    postcard::from_bytes(bytes).expect("written by `store`, and verified by its checksum")
}
