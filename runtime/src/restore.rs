//! What an attempt starts from: a checkpoint's metadata, dealt out to the job's operators by uid.
//!
//! Everything that would keep a restore from being complete is found before a task runs: unknown
//! uids, another number of key groups, an operator that changed its nature.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism, MaxParallelismOf};
use cutwater_sink_2pc::Prepared;
use cutwater_state::{Backend, KeyedStates, OperatorStates, Restored};
use cutwater_storage::{self as storage, InFlight};

use crate::{BoxError, Error, ErrorKind, Result, Settings, function::Subtask, graph::Graph};

/// The operator state that held what a writer hands to its successors.
const WRITER_STATE: &str = "writer";

/// The checkpoint that an attempt was restored from, or none.
pub(crate) struct RestorePoint {
    old: storage::RestorePoint,
    /// Records to put back into the job's edges.
    in_flight: Mutex<Vec<RestoredInFlight>>,
    tokio: tokio::runtime::Handle,
    allow_dropped_state: bool,
    backend: Backend,
}

/// What one channel of an edge held when the checkpoint was taken.
pub(crate) struct RestoredInFlight {
    pub(crate) edge: usize,
    /// The subtask that had sent it.
    pub(crate) from: u16,
    /// The subtask that had not processed it yet.
    pub(crate) to: u16,
    pub(crate) records: u64,
    pub(crate) bytes: Bytes,
}

impl RestorePoint {
    pub(crate) fn new(
        old: storage::RestorePoint,
        tokio: tokio::runtime::Handle,
        settings: &Settings,
    ) -> Self {
        Self {
            old,
            in_flight: Mutex::default(),
            tokio,
            allow_dropped_state: settings.allow_dropped_state,
            backend: settings.backend.clone(),
        }
    }

    pub(crate) fn checkpoint(&self) -> Option<CheckpointId> {
        self.old.checkpoint()
    }

    /// The job's max parallelism: what the checkpoint recorded, or the job sets, or the default.
    pub(crate) fn max_parallelism(
        &self,
        graph: &Graph,
        settings: &Settings,
    ) -> Result<MaxParallelism> {
        let uids = graph.nodes.iter().filter_map(|node| node.uid.as_deref());
        let operators: Vec<_> = uids
            .map(|uid| MaxParallelismOf {
                operator: uid,
                set: settings.max_parallelism,
                recorded: self
                    .old
                    .operator(uid)
                    .and_then(|operator| operator.max_parallelism),
            })
            .collect();
        let parallelism = (0..graph.nodes.len())
            .map(|node| graph.parallelism_of(node, settings.parallelism))
            .max()
            .unwrap_or(1);
        let max = MaxParallelism::agreed(&operators, parallelism).map_err(|conflict| {
            Error::new(ErrorKind::Restore, "the max parallelism does not fit").with_source(conflict)
        })?;
        if parallelism > max.get() {
            let message = format!(
                "parallelism {parallelism} is more than the job's {max} key groups; use at most \
                 {max} subtasks, or start without the checkpoint and with a larger max parallelism"
            );
            return Err(Error::new(ErrorKind::Restore, message));
        }
        Ok(max)
    }

    /// Refuses state of operators that the job no longer has.
    pub(crate) fn check_uids(&self, graph: &Graph) -> Result<()> {
        let Some(metadata) = self.old.metadata() else {
            return Ok(());
        };
        let is_known = |uid: &str| {
            let mut uids = graph.nodes.iter().filter_map(|node| node.uid.as_deref());
            uids.any(|known| known == uid)
        };
        let unknown: Vec<_> = metadata
            .operators
            .keys()
            .filter(|uid| !is_known(uid))
            .map(|uid| format!("`{uid}`"))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        self.drop_or_refuse(format!("the job has no operator {}", unknown.join(", ")))
    }

    /// Refuses states of an operator that it did not declare.
    pub(crate) fn check_declared(&self, uid: &str, what: &str, undeclared: &[&str]) -> Result<()> {
        if undeclared.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = undeclared.iter().map(|name| format!("`{name}`")).collect();
        self.drop_or_refuse(format!(
            "operator `{uid}` did not declare its {what} state {}",
            names.join(", ")
        ))
    }

    fn drop_or_refuse(&self, what: String) -> Result<()> {
        let checkpoint = self.checkpoint().map_or(0, CheckpointId::get);
        if self.allow_dropped_state {
            tracing::warn!(checkpoint, "dropping restored state: {what}");
            return Ok(());
        }
        let message = format!(
            "checkpoint {checkpoint} holds state that nobody would own: {what}; keep its uid and \
             name, or allow dropped state"
        );
        Err(Error::new(ErrorKind::Restore, message))
    }

    /// The keyed states of an operator for `groups`, to be declared.
    pub(crate) fn keyed_states<K: Key>(
        &self,
        uid: &str,
        groups: KeyGroupRange,
        max_parallelism: MaxParallelism,
    ) -> Result<KeyedStates<K>> {
        let old = self.old.keyed(uid).map(|old| {
            let tokio = self.tokio.clone();
            let read = old.read_by(move |read| tokio.block_on(read));
            Restored::new(old.manifest(), read)
        });
        KeyedStates::open(&self.backend, uid, groups, max_parallelism, old)
            .map_err(|error| self.unreadable(uid, error))
    }

    /// The operator states of one subtask, to be declared.
    pub(crate) fn operator_states(&self, uid: &str, subtask: Subtask) -> Result<OperatorStates> {
        let old = self.old.operator_states(uid);
        OperatorStates::restore(uid, subtask.index, subtask.parallelism, old)
            .map_err(|error| self.unreadable(uid, error))
    }

    /// A source's coordinator state, and the positions of all its old readers.
    pub(crate) fn splits(&self, uid: &str) -> Option<(Bytes, Vec<Vec<u8>>)> {
        let operator = self.old.operator(uid)?;
        let readers = operator
            .subtasks
            .iter()
            .map(|subtask| subtask.source.to_vec());
        Some((operator.coordinator.clone()?, readers.collect()))
    }

    /// A sink's transactions that the checkpoint decided to commit.
    pub(crate) fn prepared(&self, uid: &str) -> Vec<Prepared> {
        self.old.prepared(uid).map(Prepared::from).collect()
    }

    /// The pieces of writer state that fall to one subtask of a sink: each piece to exactly one.
    pub(crate) fn writer_state(&self, uid: &str, subtask: Subtask) -> Result<Vec<Vec<u8>>> {
        let Subtask {
            index, parallelism, ..
        } = subtask;
        let mut pieces = self.old.pieces(uid, index, parallelism);
        // Where version 1 of the metadata, which had no pieces, has them.
        let old = self.old.operator_states(uid);
        let older = OperatorStates::restore_list(uid, WRITER_STATE, index, parallelism, old)
            .map_err(|error| self.unreadable(uid, error))?;
        pieces.extend(older);
        Ok(pieces)
    }

    /// Reads the records in flight of all edges. Refuses those of edges that the job no longer has or
    /// that carry another type: they would be lost or misread.
    pub(crate) async fn read_in_flight(
        &mut self,
        graph: &Graph,
        settings: &Settings,
    ) -> Result<()> {
        let Some(metadata) = self.old.metadata() else {
            return Ok(());
        };
        if settings.ignore_in_flight == Some(metadata.checkpoint) {
            let checkpoint = metadata.checkpoint.get();
            tracing::warn!(
                checkpoint,
                "restoring without the records in flight, as asked"
            );
            return Ok(());
        }
        let edges: BTreeMap<String, usize> = (0..graph.edges.len())
            .map(|edge| (graph.name_of(edge), edge))
            .collect();
        let mut in_flight = Vec::new();
        for state in &metadata.channels {
            for section in &state.sections {
                let InFlight {
                    edge: name, record, ..
                } = section;
                let Some(&edge) = edges.get(name) else {
                    let what = format!(
                        "{} records were in flight on the edge `{name}`, which the job does not have",
                        section.records
                    );
                    self.drop_or_refuse(what)?;
                    continue;
                };
                let schema = (graph.edges[edge].schema)();
                if schema != *record {
                    let message = format!(
                        "the edge `{name}` now carries `{schema}`, but records in flight were saved \
                         as `{record}`; restore with the old type first and take an aligned \
                         checkpoint"
                    );
                    return Err(Error::new(ErrorKind::Restore, message));
                }
                let read = self
                    .old
                    .files()
                    .read(&state.file, section.range.clone())
                    .await;
                let bytes = read.map_err(|error| self.in_flight_unreadable(name, error))?;
                in_flight.push(RestoredInFlight {
                    edge,
                    from: section.from,
                    to: section.to,
                    records: section.records,
                    bytes,
                });
            }
        }
        self.in_flight = Mutex::new(in_flight);
        Ok(())
    }

    /// The edges that carry restored records, as long as these have not been taken.
    pub(crate) fn edges_in_flight(&self) -> BTreeSet<usize> {
        let in_flight = self.lock_in_flight();
        in_flight.iter().map(|restored| restored.edge).collect()
    }

    /// How many records there are to put back into edges.
    pub(crate) fn records_in_flight(&self) -> u64 {
        let in_flight = self.lock_in_flight();
        in_flight.iter().map(|restored| restored.records).sum()
    }

    /// Hands them over: they need not be kept as long as the attempt lasts.
    pub(crate) fn take_in_flight(&self) -> Vec<RestoredInFlight> {
        mem::take(&mut *self.lock_in_flight())
    }

    fn lock_in_flight(&self) -> MutexGuard<'_, Vec<RestoredInFlight>> {
        let in_flight = self.in_flight.lock();
        in_flight.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_flight_unreadable(&self, edge: &str, error: impl Into<BoxError>) -> Error {
        let checkpoint = self.checkpoint().map_or(0, CheckpointId::get);
        let message = format!(
            "the records in flight on the edge `{edge}` cannot be restored from checkpoint \
             {checkpoint}; restore another, or name this one in `ignore_in_flight` and lose them"
        );
        Error::new(ErrorKind::Restore, message).with_source(error)
    }

    fn unreadable(&self, uid: &str, error: impl Into<BoxError>) -> Error {
        let checkpoint = self.checkpoint().map_or(0, CheckpointId::get);
        let message = format!("operator `{uid}` cannot be restored from checkpoint {checkpoint}");
        Error::new(ErrorKind::Restore, message).with_source(error)
    }
}
