//! A job as data: nodes with uids, typed edges, and what makes them run.
//!
//! The graph knows no record types: a node holds the closure that makes its stages, an edge the one
//! that makes its exchange, and both were written where the types were still known (`stream.rs`).
//! How it is cut into tasks is a matter of
//! [`Topology`](crate::topology::Topology).

use std::{collections::BTreeSet, sync::Arc};

use cutwater_keygroups::Grouping;

use crate::{
    BoxError, Error, ErrorKind, Result,
    channel::Sender,
    sink::SinkNode,
    source::{SourceHead, SourceNode},
    stage::{AnyStage, Port},
    task::{Control, TaskContext},
};

pub(crate) type NodeId = usize;

/// The operators of a job and the edges between them.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
}

pub(crate) struct Node {
    /// Identifies state over restarts and versions of the program. Operators without state have none.
    pub(crate) uid: Option<String>,
    /// What it does, for people.
    pub(crate) name: &'static str,
    /// Subtasks, if not the job's.
    pub(crate) parallelism: Option<u16>,
    /// How its keys are divided into groups; `None` without keys.
    pub(crate) grouping: Option<Grouping>,
    pub(crate) make: Make,
    /// Makes one stage out of those of all consumers.
    pub(crate) join: fn(Vec<AnyStage>) -> AnyStage,
}

/// How a subtask of a node comes to life, on the thread that will run it.
#[derive(Clone)]
pub(crate) enum Make {
    Source(Arc<dyn SourceNode>),
    /// From the stage downstream, one stage for each input port.
    Operator(Arc<MakeOperator>),
    Sink(Arc<dyn SinkNode>),
}

pub(crate) type MakeOperator =
    dyn Fn(&mut TaskContext, AnyStage) -> Result<Vec<AnyStage>> + Send + Sync;

pub(crate) struct Edge {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// Which input of `to`: 0, or 1 for the second of a two-input operator.
    pub(crate) port: usize,
    pub(crate) routing: Routing,
    pub(crate) connect: Arc<Connect>,
    pub(crate) receive: fn(AnyStage) -> Box<dyn Port>,
    /// What its records look like in a checkpoint.
    pub(crate) schema: fn() -> String,
    pub(crate) replay: Replay,
}

/// Makes the stage that sends an edge's records into these channels.
pub(crate) type Connect = dyn Fn(&TaskContext, Vec<Sender<Control>>) -> AnyStage + Send + Sync;

/// Sends saved records through the exchange that [`Connect`] makes: their bytes, how many there are.
pub(crate) type Replay = fn(&[u8], u64, AnyStage) -> Result<(), BoxError>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Routing {
    /// To the subtask of the same number; in turn where the numbers of subtasks differ.
    Forward,
    /// By key group.
    Keyed,
    /// To every subtask.
    Broadcast,
    /// Back to the head of a loop, otherwise as forward.
    Feedback,
}

/// The nodes around which records circle.
pub(crate) struct Loop {
    pub(crate) head: NodeId,
    /// Those that both follow the head and lead to it, the head among them.
    pub(crate) nodes: BTreeSet<NodeId>,
}

impl Graph {
    /// Refuses what could not be recovered, with the remedy.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = |message: String| Err(Error::new(ErrorKind::Build, message));
        let unnamed = (0..self.nodes.len()).filter(|&node| self.nodes[node].uid.is_none());
        let generated: BTreeSet<_> = unnamed.map(|node| self.name_of_node(node)).collect();
        let mut uids = BTreeSet::new();
        for uid in self.nodes.iter().filter_map(|node| node.uid.as_deref()) {
            if uid.is_empty() {
                return problem(
                    "an operator has an empty uid; its state would have no name".into(),
                );
            }
            if generated.contains(uid) {
                return problem(format!(
                    "the uid `{uid}` is what an operator without one is called; choose another"
                ));
            }
            if !uids.insert(uid) {
                return problem(format!(
                    "two operators have the uid `{uid}`, so their states could not be told apart; rename one"
                ));
            }
        }
        let loops = self.loops();
        for (i, around) in loops.iter().enumerate() {
            let uid = self.nodes[around.head].uid.as_deref().unwrap_or_default();
            if around.nodes.len() < 2 {
                return problem(format!(
                    "what loop `{uid}` feeds back does not come from it; derive it from the stream \
                     that the loop's body is given"
                ));
            }
            let is_shared = |other: &Loop| !other.nodes.is_disjoint(&around.nodes);
            if loops[..i].iter().any(is_shared) {
                return problem(format!(
                    "loop `{uid}` shares operators with another; loops cannot be nested"
                ));
            }
        }
        if !self
            .nodes
            .iter()
            .any(|node| matches!(node.make, Make::Source(_)))
        {
            return problem("the job has no source, so it has nothing to do; add one".into());
        }
        Ok(())
    }

    /// The loops, one for each head.
    pub(crate) fn loops(&self) -> Vec<Loop> {
        let is_feedback = |edge: &&Edge| edge.routing == Routing::Feedback;
        let heads: BTreeSet<NodeId> = self
            .edges
            .iter()
            .filter(is_feedback)
            .map(|e| e.to)
            .collect();
        let around = |&head: &NodeId| {
            let ends = self.edges.iter().filter(is_feedback);
            let ends: Vec<_> = ends
                .filter(|edge| edge.to == head)
                .map(|e| e.from)
                .collect();
            let after = self.reachable(vec![head], |edge| (edge.from, edge.to));
            let before = self.reachable(ends, |edge| (edge.to, edge.from));
            Loop {
                head,
                nodes: after.intersection(&before).copied().collect(),
            }
        };
        heads.iter().map(around).collect()
    }

    /// The nodes that `start` leads to, itself included, over edges that are not feedback.
    fn reachable(
        &self,
        mut start: Vec<NodeId>,
        ends: impl Fn(&Edge) -> (NodeId, NodeId),
    ) -> BTreeSet<NodeId> {
        let mut reached = BTreeSet::new();
        while let Some(node) = start.pop() {
            if reached.insert(node) {
                let edges = self.edges.iter();
                let forward = edges.filter(|edge| edge.routing != Routing::Feedback);
                let next = forward.map(&ends).filter(|&(from, _)| from == node);
                start.extend(next.map(|(_, to)| to));
            }
        }
        reached
    }

    /// What an edge is called in checkpoints, in any program that builds the same job.
    pub(crate) fn name_of(&self, edge: usize) -> String {
        let Edge { from, to, port, .. } = self.edges[edge];
        let is_same = |other: &&Edge| (other.from, other.to, other.port) == (from, to, port);
        // A union of a stream with itself has the same edge twice.
        let earlier = self.edges[..edge].iter().filter(is_same).count();
        let (from, to) = (self.name_of_node(from), self.name_of_node(to));
        format!("{from} → {to} [{port}.{earlier}]")
    }

    /// An operator's uid, or else what it does and where it stands in the program.
    pub(crate) fn name_of_node(&self, node: NodeId) -> String {
        match &self.nodes[node].uid {
            Some(uid) => uid.clone(),
            None => format!("{} {node}", self.nodes[node].name),
        }
    }

    pub(crate) fn has_sinks(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| matches!(node.make, Make::Sink(_)))
    }

    pub(crate) fn parallelism_of(&self, node: NodeId, default: u16) -> u16 {
        self.nodes[node].parallelism.unwrap_or(default)
    }

    pub(crate) fn inputs_of(&self, node: NodeId) -> impl Iterator<Item = usize> {
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].to == node)
    }

    pub(crate) fn outputs_of(&self, node: NodeId) -> impl Iterator<Item = usize> {
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].from == node)
    }

    /// Makes the stage behind `node`: chained consumers, exchanges, or several of them.
    pub(crate) fn make_output(&self, node: NodeId, context: &mut TaskContext) -> Result<AnyStage> {
        let mut consumers = Vec::new();
        for edge in self.outputs_of(node) {
            consumers.push(if context.attempt.topology.is_chained(edge) {
                let mut heads = self.make_heads(self.edges[edge].to, context)?;
                heads.pop().expect("a chained operator has one input")
            } else {
                let senders = context.take_senders(edge);
                (self.edges[edge].connect)(context, senders)
            });
        }
        Ok((self.nodes[node].join)(consumers))
    }

    /// Makes the stages of `node` and all that is chained to it: one stage for each input.
    pub(crate) fn make_heads(
        &self,
        node: NodeId,
        context: &mut TaskContext,
    ) -> Result<Vec<AnyStage>> {
        match &self.nodes[node].make {
            Make::Operator(make) => {
                let downstream = self.make_output(node, context)?;
                make(context, downstream)
            }
            Make::Sink(sink) => Ok(vec![sink.make(context)?]),
            Make::Source(_) => unreachable!("nothing sends to a source"),
        }
    }

    /// Makes the head of a source's task.
    pub(crate) fn make_source(
        &self,
        node: NodeId,
        context: &mut TaskContext,
    ) -> Result<Option<Box<dyn SourceHead>>> {
        let Make::Source(source) = &self.nodes[node].make else {
            return Ok(None);
        };
        let downstream = self.make_output(node, context)?;
        source.make(context, downstream).map(Some)
    }
}
