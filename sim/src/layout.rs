//! The job of one attempt: its tasks, and the channels between them.

use std::fmt;

use cutwater_barrier::coordinate::{Plan, TaskId};
use cutwater_keygroups::Assignment;

use crate::{
    job::{Exchange, Job},
    random::Random,
    record::{MAX_PARALLELISM, Record},
};

/// Tasks and channels, by number; a channel's number is that of its [`Lane`](crate::lane::Lane).
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) tasks: Vec<Seat>,
    pub(crate) channels: Vec<Channel>,
    /// For each operator, which subtask owns which key groups.
    pub(crate) assignments: Vec<Assignment>,
}

/// For the transcript.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, seat) in self.tasks.iter().enumerate() {
            write!(f, "t{number} is {}.{}, reads", seat.operator, seat.subtask)?;
            for (index, &channel) in seat.inputs.iter().enumerate() {
                write!(f, " {index}: t{}", self.channels[channel].from)?;
            }
            f.write_str("; ")?;
        }
        Ok(())
    }
}

/// Where a task stands.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) operator: usize,
    pub(crate) subtask: u16,
    /// The channels it reads, over all its inputs.
    pub(crate) inputs: Vec<usize>,
    /// The channels it writes: for each output edge of the operator, one for each subtask reached.
    pub(crate) outputs: Vec<(usize, Vec<usize>)>,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) edge: usize,
    pub(crate) from: usize,
}

impl Layout {
    /// `restored` are the assignments of the attempt before, if there was one.
    pub(crate) fn draw(job: &Job, random: &mut Random, restored: Option<&[Assignment]>) -> Self {
        let rescale = restored.is_none() || random.percent(60);
        let slots: Vec<u16> = (0..job.slots)
            .map(|_| random.pick(&[1, 1, 2, 2, 2, 3, 4]))
            .collect();
        let assign = |(number, operator): (usize, &crate::job::Operator)| {
            let parallelism = slots[operator.slot];
            match restored.map(|restored| &restored[number]) {
                Some(old) if !rescale => old.clone(),
                Some(old) if random.percent(50) => old
                    .with_fewest_moves(parallelism)
                    .expect("at most max parallelism"),
                _ => Assignment::contiguous(parallelism, MAX_PARALLELISM)
                    .expect("at most max parallelism"),
            }
        };
        let assignments = job.operators.iter().enumerate().map(assign).collect();
        Self::new(job, assignments)
    }

    fn new(job: &Job, assignments: Vec<Assignment>) -> Self {
        let mut tasks = Vec::new();
        for (operator, assignment) in assignments.iter().enumerate() {
            for subtask in 0..assignment.parallelism() {
                tasks.push(Seat {
                    operator,
                    subtask,
                    inputs: Vec::new(),
                    outputs: Vec::new(),
                });
            }
        }
        let mut layout = Self {
            tasks,
            channels: Vec::new(),
            assignments,
        };
        for edge in 0..job.edges.len() {
            layout.connect(job, edge);
        }
        layout
    }

    fn connect(&mut self, job: &Job, number: usize) {
        let edge = &job.edges[number];
        for from in self.tasks_of(edge.from) {
            let mut lanes = Vec::new();
            for to in self.tasks_of(edge.to) {
                let opposite = self.tasks[from].subtask == self.tasks[to].subtask;
                if edge.exchange == Exchange::Forward && !opposite {
                    continue;
                }
                let channel = self.channels.len();
                self.tasks[to].inputs.push(channel);
                lanes.push(channel);
                self.channels.push(Channel { edge: number, from });
            }
            self.tasks[from].outputs.push((number, lanes));
        }
    }

    /// The tasks of an operator, by subtask.
    pub(crate) fn tasks_of(&self, operator: usize) -> Vec<usize> {
        let tasks = self.tasks.iter().enumerate();
        let of = tasks.filter(|(_, seat)| seat.operator == operator);
        of.map(|(task, _)| task).collect()
    }

    pub(crate) fn parallelism(&self, operator: usize) -> u16 {
        self.assignments[operator].parallelism()
    }

    /// The subtask of `operator` that owns the record's key.
    pub(crate) fn owner(&self, operator: usize, record: Record) -> u16 {
        self.assignments[operator].owner(record.group())
    }

    /// What the coordinator has to know. A feedback edge is no way for a barrier to come in.
    pub(crate) fn plan(&self, job: &Job) -> Plan {
        let mut plan = Plan::new();
        for seat in &self.tasks {
            let forward = |channel: &&usize| !job.edges[self.channels[**channel].edge].feedback;
            let inputs = seat.inputs.iter().filter(forward);
            plan.task(inputs.map(|&channel| TaskId(self.channels[channel].from)));
        }
        plan
    }
}
