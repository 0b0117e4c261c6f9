//! How a graph is cut into tasks and channels for one attempt, given its parallelism.
//!
//! ```text
//!   source(2) ──forward──▶ map(2) ══keyed══▶ totals(3) ──forward──▶ sink(3)
//!   └────── chain, 2 tasks ──────┘ 2×3       └──────── chain, 3 tasks ────┘
//!                                  channels
//! ```

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use cutwater_barrier::align::Input;

use crate::{
    graph::{Edge, Graph, NodeId, Routing},
    probe::Membership,
};

/// A graph's layout.
pub(crate) struct Topology {
    graph: Arc<Graph>,
    /// Subtasks of every operator that does not say otherwise.
    parallelism: u16,
    /// Edges that need channels although they could be chained: restored records are in flight there.
    unchained: BTreeSet<usize>,
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

/// The channels of one edge at the gate of one subtask.
pub(crate) struct Inputs {
    pub(crate) edge: usize,
    pub(crate) channels: Range<usize>,
}

impl Topology {
    pub(crate) fn new(graph: Arc<Graph>, parallelism: u16, unchained: BTreeSet<usize>) -> Self {
        Self {
            graph,
            parallelism,
            unchained,
        }
    }

    pub(crate) fn parallelism_of(&self, node: NodeId) -> u16 {
        self.graph.parallelism_of(node, self.parallelism)
    }

    /// Whether both ends of `edge` run on one thread.
    pub(crate) fn is_chained(&self, edge: usize) -> bool {
        let to = self.graph.edges[edge].to;
        self.is_pointwise(edge)
            && self.graph.inputs_of(to).count() == 1
            && !self.unchained.contains(&edge)
    }

    /// Whether subtask `i` of the producer sends to subtask `i` of the consumer only.
    pub(crate) fn is_pointwise(&self, edge: usize) -> bool {
        let Edge {
            from, to, routing, ..
        } = self.graph.edges[edge];
        matches!(routing, Routing::Forward | Routing::Feedback)
            && self.parallelism_of(from) == self.parallelism_of(to)
    }

    /// What barriers may do in the channels of `edge`. Its records can be dealt out anew after a
    /// rescale if they go by key or to anybody, and then a barrier may overtake them.
    pub(crate) fn input(&self, edge: usize) -> Input {
        match self.graph.edges[edge].routing {
            Routing::Feedback => Input::Feedback,
            Routing::Keyed => Input::Overtakable,
            Routing::Forward if !self.is_pointwise(edge) => Input::Overtakable,
            // Where a record enters its loop must not matter: `iterate` demands it.
            Routing::Forward if self.enters_loop(edge) => Input::Overtakable,
            Routing::Forward | Routing::Broadcast => Input::Strict,
        }
    }

    /// Whether there are channels in which nothing overtakes.
    pub(crate) fn has_strict_channels(&self) -> bool {
        let is_strict = |edge| self.input(edge) == Input::Strict && !self.is_chained(edge);
        (0..self.graph.edges.len()).any(is_strict)
    }

    fn enters_loop(&self, edge: usize) -> bool {
        let to = self.graph.edges[edge].to;
        let mut inputs = self.graph.inputs_of(to);
        inputs.any(|input| self.graph.edges[input].routing == Routing::Feedback)
    }

    /// Cuts the graph into tasks. Sources come first, as the order of nodes is topological but for
    /// feedback edges.
    pub(crate) fn chains(&self) -> Vec<Chain> {
        let graph = &self.graph;
        let is_head = |&node: &NodeId| !graph.inputs_of(node).any(|edge| self.is_chained(edge));
        (0..graph.nodes.len())
            .filter(is_head)
            .map(|head| {
                let mut nodes = vec![head];
                let mut next = 0;
                while let Some(&node) = nodes.get(next) {
                    let chained = graph.outputs_of(node).filter(|&edge| self.is_chained(edge));
                    nodes.extend(chained.map(|edge| graph.edges[edge].to));
                    next += 1;
                }
                Chain {
                    nodes,
                    parallelism: self.parallelism_of(head),
                }
            })
            .collect()
    }

    /// The place in a loop of the task whose chain begins with `head`.
    pub(crate) fn loop_of(&self, head: NodeId) -> Option<Membership> {
        let chains = self.chains();
        let chain = chains.iter().find(|chain| chain.head() == head)?;
        let around = self.graph.loops().into_iter().find(|around| {
            let mut nodes = chain.nodes.iter();
            nodes.any(|node| around.nodes.contains(node))
        })?;
        Some(Membership {
            head: around.head,
            is_head: around.head == head,
        })
    }

    /// The channels of each edge into `node` at the gate of one of its subtasks.
    pub(crate) fn inputs_of(&self, node: NodeId) -> Vec<Inputs> {
        let mut start = 0;
        let inputs = |edge: usize| {
            let channels = start..start + self.channels_of(edge);
            start = channels.end;
            Inputs { edge, channels }
        };
        self.graph.inputs_of(node).map(inputs).collect()
    }

    /// Where subtask `from` of an edge's producer sends: the target subtasks, and its channel there.
    pub(crate) fn targets_of(&self, edge: usize, from: u16) -> (Range<u16>, usize) {
        let to = self.graph.edges[edge].to;
        let first = self
            .inputs_of(to)
            .into_iter()
            .find(|inputs| inputs.edge == edge)
            .map(|inputs| inputs.channels.start)
            .expect("an edge is an input of its consumer");
        if self.is_pointwise(edge) {
            (from..from + 1, first)
        } else {
            (0..self.parallelism_of(to), first + usize::from(from))
        }
    }

    /// How many channels `edge` has into one subtask of its consumer.
    fn channels_of(&self, edge: usize) -> usize {
        if self.is_pointwise(edge) {
            1
        } else {
            usize::from(self.parallelism_of(self.graph.edges[edge].from))
        }
    }
}
