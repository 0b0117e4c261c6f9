//! A job as data: nodes with uids, typed edges, and how they are cut into tasks.
//!
//! The graph knows no record types: a node holds the closure that makes its stages, an edge the one
//! that makes its exchange, and both were written where the types were still known (`stream.rs`).
//! It knows no executor either.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use cutwater_keygroups::Grouping;

use crate::{
    Error, ErrorKind, Result,
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
}

/// Makes the stage that sends an edge's records into these channels.
pub(crate) type Connect = dyn Fn(&TaskContext, Vec<Sender<Control>>) -> AnyStage + Send + Sync;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Routing {
    /// To the subtask of the same number; in turn where the numbers of subtasks differ.
    Forward,
    /// By key group.
    Keyed,
    /// To every subtask.
    Broadcast,
}

/// Nodes that run on one thread, because only forward edges connect them.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The head, whose input the task reads, then those chained to it.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) parallelism: u16,
}

impl Chain {
    pub(crate) fn head(&self) -> NodeId {
        self.nodes[0]
    }
}

impl Graph {
    /// Refuses what could not be recovered, with the remedy.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = |message: String| Err(Error::new(ErrorKind::Build, message));
        let mut uids = BTreeSet::new();
        for uid in self.nodes.iter().filter_map(|node| node.uid.as_deref()) {
            if uid.is_empty() {
                return problem(
                    "an operator has an empty uid; its state would have no name".into(),
                );
            }
            if !uids.insert(uid) {
                return problem(format!(
                    "two operators have the uid `{uid}`, so their states could not be told apart; rename one"
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

    /// Whether both ends of `edge` run on one thread.
    pub(crate) fn is_chained(&self, edge: usize, default_parallelism: u16) -> bool {
        let Edge {
            from, to, routing, ..
        } = self.edges[edge];
        routing == Routing::Forward
            && self.inputs_of(to).count() == 1
            && self.parallelism_of(from, default_parallelism)
                == self.parallelism_of(to, default_parallelism)
    }

    /// Cuts the graph into tasks. Sources come first, as the order of `nodes` is topological.
    pub(crate) fn chains(&self, default_parallelism: u16) -> Vec<Chain> {
        let is_head = |&node: &NodeId| {
            !self
                .inputs_of(node)
                .any(|edge| self.is_chained(edge, default_parallelism))
        };
        (0..self.nodes.len())
            .filter(is_head)
            .map(|head| {
                let mut nodes = vec![head];
                let mut next = 0;
                while let Some(&node) = nodes.get(next) {
                    let chained = self
                        .outputs_of(node)
                        .filter(|&edge| self.is_chained(edge, default_parallelism));
                    nodes.extend(chained.map(|edge| self.edges[edge].to));
                    next += 1;
                }
                Chain {
                    nodes,
                    parallelism: self.parallelism_of(head, default_parallelism),
                }
            })
            .collect()
    }

    /// Whether subtask `i` of the producer sends to subtask `i` of the consumer only.
    pub(crate) fn is_pointwise(&self, edge: usize, default_parallelism: u16) -> bool {
        let Edge {
            from, to, routing, ..
        } = self.edges[edge];
        routing == Routing::Forward
            && self.parallelism_of(from, default_parallelism)
                == self.parallelism_of(to, default_parallelism)
    }

    /// How many channels `edge` has into one subtask of its consumer.
    pub(crate) fn channels_of(&self, edge: usize, default_parallelism: u16) -> usize {
        if self.is_pointwise(edge, default_parallelism) {
            1
        } else {
            usize::from(self.parallelism_of(self.edges[edge].from, default_parallelism))
        }
    }

    /// The channels of each edge into `node` at the gate of one of its subtasks.
    pub(crate) fn channel_ranges(
        &self,
        node: NodeId,
        default_parallelism: u16,
    ) -> Vec<(usize, Range<usize>)> {
        let mut start = 0;
        let range = |edge: usize| {
            let channels = start..start + self.channels_of(edge, default_parallelism);
            start = channels.end;
            (edge, channels)
        };
        self.inputs_of(node).map(range).collect()
    }

    /// Makes the stage behind `node`: chained consumers, exchanges, or several of them.
    pub(crate) fn make_output(&self, node: NodeId, context: &mut TaskContext) -> Result<AnyStage> {
        let mut consumers = Vec::new();
        for edge in self.outputs_of(node) {
            consumers.push(if self.is_chained(edge, context.default_parallelism()) {
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
