//! What each task of a new attempt starts with: state by key group, splits, and records on their way.

use std::collections::{BTreeMap, VecDeque};

use cutwater_keygroups::RescalePlan;

use crate::{
    job::{Exchange, Job},
    layout::Layout,
    record::Record,
    stored::{ChannelName, Counts, Files, Stored},
};

/// A task's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) counts: Counts,
    /// What holds the counts in the store.
    pub(crate) files: Files,
    pub(crate) positions: BTreeMap<u8, u16>,
    /// To be processed before anything is read.
    pub(crate) in_flight: VecDeque<(ChannelName, Record)>,
    pub(crate) finished: bool,
}

/// The beginnings of all tasks of `layout`, by number.
pub(crate) fn beginnings(job: &Job, layout: &Layout, stored: Option<&Stored>) -> Vec<Beginning> {
    let mut all: Vec<Beginning> = layout.tasks.iter().map(|_| Beginning::default()).collect();
    for operator in 0..job.operators.len() {
        let tasks = layout.tasks_of(operator);
        for (place, split) in job.splits_of(operator).enumerate() {
            let position = stored.map_or(0, |stored| position(job, stored, operator, split));
            all[tasks[place % tasks.len()]]
                .positions
                .insert(split, position);
        }
        if let Some(stored) = stored {
            restore(job, layout, operator, stored, &tasks, &mut all);
        }
    }
    all
}

/// A split that no subtask reports belonged to one that has finished.
fn position(job: &Job, stored: &Stored, operator: usize, split: u8) -> u16 {
    let subtasks = stored.operators[operator].subtasks.iter();
    let mut positions = subtasks.flat_map(|subtask| &subtask.positions);
    match positions.find(|(reported, _)| *reported == split) {
        Some(&(_, position)) => position,
        None => job.splits[usize::from(split)]
            .records
            .expect("only a bounded source finishes"),
    }
}

fn restore(
    job: &Job,
    layout: &Layout,
    operator: usize,
    stored: &Stored,
    tasks: &[usize],
    all: &mut [Beginning],
) {
    let old = &stored.operators[operator];
    let assignment = &layout.assignments[operator];
    let plan = RescalePlan::new(&old.groups, assignment).expect("an assignment of this job");
    for (subtask, &task) in (0..).zip(tasks) {
        for read in plan.reads(subtask) {
            let handle = &old.subtasks[read.handle];
            let groups = handle.counts.iter();
            let wanted = groups.filter(|(group, _)| read.groups.contains(**group));
            let wanted = wanted.map(|(group, counts)| (*group, counts.clone()));
            all[task].counts.extend(wanted);
            let files = handle.files.iter();
            let wanted = files.filter(|(group, _)| read.groups.contains(**group));
            let wanted = wanted.map(|(group, file)| (*group, file.clone()));
            all[task].files.extend(wanted);
        }
    }
    let mut turn = 0;
    for &((edge, from), ref records) in &stored.in_flight {
        for &record in records.iter().filter(|_| job.edges[edge].to == operator) {
            let owner = reroute(job, layout, edge, record, &mut turn);
            all[tasks[owner]]
                .in_flight
                .push_back(((edge, from), record));
        }
    }
    if old.subtasks.len() == tasks.len() {
        for (&task, subtask) in tasks.iter().zip(&old.subtasks) {
            all[task].finished = subtask.finished && has_no_input(job, layout, task, all);
        }
    }
}

/// A task that had finished begins as finished if nobody will send it anything. After a rescale
/// somebody may: then it begins anew, finds nothing to do, and finishes again.
fn has_no_input(job: &Job, layout: &Layout, task: usize, all: &[Beginning]) -> bool {
    let inputs = layout.tasks[task]
        .inputs
        .iter()
        .map(|&lane| &layout.channels[lane]);
    all[task].in_flight.is_empty()
        && inputs
            .filter(|channel| !job.edges[channel.edge].feedback)
            .all(|channel| all[channel.from].finished)
}

/// The subtask that takes over a record: the owner of its key, or whoever's turn it is.
fn reroute(job: &Job, layout: &Layout, edge: usize, record: Record, turn: &mut usize) -> usize {
    let edge = &job.edges[edge];
    match edge.exchange {
        Exchange::Keyed => usize::from(layout.owner(edge.to, record)),
        Exchange::Rebalance => {
            *turn += 1;
            *turn % usize::from(layout.parallelism(edge.to))
        }
        Exchange::Forward | Exchange::Broadcast => {
            unreachable!("an edge that cannot be re-routed carries no channel state")
        }
    }
}
