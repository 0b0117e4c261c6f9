//! A job: tasks, and the channels between them.

use cutwater_barrier::Mode;
use cutwater_barrier::align::Input;
use cutwater_barrier::coordinate::{Config, Plan, Request, RequestId, TaskId};

use crate::Budget;

/// A set of records: one bit each.
pub(crate) type Records = u32;

pub(crate) struct Job {
    pub(crate) budget: Budget,
    pub(crate) edges: Vec<Edge>,
    mode: Mode,
    /// Whether sources finish after their records. If not, they stay and take part in checkpoints.
    pub(crate) ends: bool,
    savepoint: bool,
}

/// A channel. Its number at the receiver is its place among the edges into it.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) input: Input,
}

impl Job {
    /// Tasks without inputs are sources; the others send each record they read to all outputs, once.
    pub(crate) fn new(mode: Mode, budget: Budget) -> Self {
        Self {
            budget,
            edges: Vec::new(),
            mode,
            ends: false,
            savepoint: false,
        }
    }

    pub(crate) fn edge(mut self, from: usize, to: usize, input: Input) -> Self {
        self.edges.push(Edge { from, to, input });
        self
    }

    pub(crate) fn with_ends(self) -> Self {
        Self { ends: true, ..self }
    }

    pub(crate) fn with_savepoint(self) -> Self {
        Self {
            savepoint: true,
            ..self
        }
    }

    pub(crate) fn tasks(&self) -> std::ops::Range<usize> {
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        0..ends.max().map_or(0, |last| last + 1)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The edges into a task, in the order of its channels.
    pub(crate) fn inputs(&self, task: usize) -> impl Iterator<Item = usize> {
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].to == task)
    }

    pub(crate) fn outputs(&self, task: usize) -> impl Iterator<Item = usize> {
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].from == task)
    }

    /// The number that an edge has at its receiver.
    pub(crate) fn channel(&self, edge: usize) -> usize {
        let inputs = self.inputs(self.edges[edge].to);
        inputs.take_while(|&input| input != edge).count()
    }

    pub(crate) fn is_source(&self, task: usize) -> bool {
        self.inputs(task).next().is_none()
    }

    /// The record that a source emits at a position.
    pub(crate) fn record(&self, source: usize, position: u8) -> u8 {
        let source = u8::try_from(source).expect("a handful of sources");
        source * self.budget.records + position
    }

    /// What has passed an edge when all input has been processed.
    pub(crate) fn expected(&self, edge: usize) -> Records {
        let from = self.edges[edge].from;
        if self.is_source(from) {
            let positions = 0..self.budget.records;
            return positions.map(|at| 1 << self.record(from, at)).sum();
        }
        let forward = |&input: &usize| self.edges[input].input != Input::Feedback;
        let inputs = self.inputs(from).filter(forward);
        inputs.fold(0, |all, input| all | self.expected(input))
    }

    /// Who feeds whom, without the back edges.
    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        for task in self.tasks() {
            let edges = self.inputs(task).map(|edge| self.edges[edge]);
            let forward = edges.filter(|edge| edge.input != Input::Feedback);
            plan.task(forward.map(|edge| TaskId(edge.from)));
        }
        plan
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::on_request();
        config.mode = self.mode;
        config.tolerable_failures = u32::MAX;
        // At once, unless the mode or a loop forbids it.
        let has_loop = self.edges.iter().any(|edge| edge.input == Input::Feedback);
        config.concurrent_max = if has_loop { 1 } else { 2 };
        config
    }

    pub(crate) fn request(&self, number: u8) -> Request {
        let id = RequestId(number.into());
        if self.savepoint && number == 2 {
            Request::savepoint(id)
        } else {
            Request::checkpoint(id)
        }
    }
}
