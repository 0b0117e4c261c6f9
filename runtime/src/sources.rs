//! The split coordinators of a job's sources, beside the job's coordinator.

use std::{collections::BTreeMap, sync::Arc};

use cutwater_barrier::{CheckpointId, coordinate::TaskId};

use crate::{
    Result,
    attempt::{Attempt, Tasks},
    graph::{Make, NodeId},
    source::Splits,
    task::Control,
};

/// One split coordinator for each source.
pub(crate) struct Sources {
    sources: BTreeMap<NodeId, Source>,
}

struct Source {
    uid: String,
    splits: Box<dyn Splits>,
    /// Whether all splits there will ever be are known.
    is_complete: bool,
}

impl Sources {
    /// Opens and restores them, and looks for splits once. Blocks.
    pub(crate) fn open(attempt: &Arc<Attempt>) -> Result<Self> {
        let mut sources = Self {
            sources: BTreeMap::new(),
        };
        for (node, operator) in attempt.graph.nodes.iter().enumerate() {
            let (Make::Source(source), Some(uid)) = (&operator.make, &operator.uid) else {
                continue;
            };
            let parallelism = attempt.topology.parallelism_of(node);
            let restored = attempt.restored.splits(uid);
            let restored = restored
                .as_ref()
                .map(|(state, readers)| (&state[..], &readers[..]));
            let splits = source.coordinator(parallelism, restored)?;
            let source = Source {
                uid: uid.clone(),
                splits,
                is_complete: false,
            };
            sources.sources.insert(node, source);
        }
        sources.discover()?;
        Ok(sources)
    }

    /// Looks for new splits. Blocks.
    pub(crate) fn discover(&mut self) -> Result<()> {
        for source in self.sources.values_mut() {
            if !source.is_complete {
                source.is_complete = source.splits.discover()?;
            }
        }
        Ok(())
    }

    pub(crate) fn are_complete(&self) -> bool {
        self.sources.values().all(|source| source.is_complete)
    }

    /// The reader of `task` has nothing to read.
    pub(crate) fn requested(&mut self, task: TaskId, tasks: &Tasks) {
        for (node, source) in &mut self.sources {
            if let Some(subtask) = tasks.of[node].iter().position(|&t| t == task) {
                source.splits.requested(subtask);
            }
        }
    }

    /// Passes on what readers are to be told.
    pub(crate) fn deliver(&mut self, tasks: &Tasks) {
        for (node, source) in &mut self.sources {
            while let Some((subtask, message)) = source.splits.poll() {
                tasks.tell(tasks.of[node][subtask], Control::Split(message));
            }
        }
    }

    /// The state of each, by uid.
    pub(crate) fn snapshot(&mut self, checkpoint: CheckpointId) -> BTreeMap<String, Vec<u8>> {
        let snapshot =
            |source: &mut Source| (source.uid.clone(), source.splits.snapshot(checkpoint));
        self.sources.values_mut().map(snapshot).collect()
    }

    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) {
        for source in self.sources.values_mut() {
            source.splits.completed(checkpoint);
        }
    }
}
