//! A checkpoint's metadata, put together from the parts that tasks and coordinators contribute.

use std::{collections::BTreeMap, time::Duration};

use cutwater_barrier::{
    coordinate::Decision,
    stats::{CheckpointStats, TaskStats},
};
use cutwater_keygroups::Assignment;
use cutwater_sink_2pc::Prepared;
use cutwater_storage::{Metadata, Operator, Subtask};

use crate::{CheckpointSummary, attempt::Attempt, upload::TaskPart};

/// What belongs to a checkpoint under way and is not in the tasks' reports.
#[derive(Default)]
pub(crate) struct Beside {
    /// The state of each source's split coordinator, taken when the checkpoint was triggered.
    pub(crate) splits: BTreeMap<String, Vec<u8>>,
    /// What each sink must be able to commit once the checkpoint is complete.
    pub(crate) sealed: BTreeMap<String, Vec<Prepared>>,
    /// What it cost, once all reports are in: for people, and task by task.
    pub(crate) cost: Option<(CheckpointSummary, CheckpointStats)>,
}

/// The metadata of a checkpoint of which all reports are in.
pub(crate) fn metadata(
    attempt: &Attempt,
    task_names: &[String],
    decision: &Decision<TaskPart>,
    beside: &Beside,
) -> Metadata {
    let barrier = decision.barrier;
    let mut metadata = Metadata::decided(&attempt.job, decision, |task| task_names[task.0].clone());
    metadata.triggered_at_unix_ms = attempt.clock.unix_millis(barrier.triggered_at);
    for (node, operator) in attempt.graph.nodes.iter().enumerate() {
        let Some(uid) = &operator.uid else { continue };
        let parallelism = attempt.topology.parallelism_of(node);
        let mut described = match operator.grouping {
            None => Operator::new(operator.name),
            Some(grouping) => {
                let assignment = Assignment::contiguous(parallelism, attempt.max_parallelism)
                    .expect("the parallelism was checked against the max parallelism");
                Operator::keyed(operator.name, &assignment, grouping)
            }
        };
        described.max_parallelism = Some(attempt.max_parallelism); // Fixed for the whole job.
        described.coordinator = beside.splits.get(uid).cloned().map(Into::into);
        if let Some(sealed) = beside.sealed.get(uid) {
            described.set_prepared(sealed.iter().cloned());
        }
        described.subtasks = vec![Subtask::default(); usize::from(parallelism)];
        metadata.add(uid, described);
    }
    for report in &decision.reports {
        metadata.channels.extend(report.part.in_flight.clone());
        for (uid, part) in &report.part.operators {
            let operator = metadata.operators.get_mut(uid);
            let operator = operator.expect("tasks report operators of the graph");
            operator.subtasks[usize::from(report.part.subtask)] = part.clone();
        }
    }
    metadata
}

/// The slowest of each part, for people.
pub(crate) fn summary(decision: &Decision<TaskPart>) -> CheckpointSummary {
    let stats = &decision.stats;
    let slowest = |of: fn(&TaskStats) -> Duration| {
        stats.spread(of).map_or(Duration::ZERO, |spread| spread.max)
    };
    let reports = decision.reports.iter();
    let channels = reports.flat_map(|report| &report.part.in_flight);
    let sections = channels.flat_map(|state| &state.sections);
    CheckpointSummary {
        checkpoint: stats.barrier.checkpoint,
        duration: stats.duration(),
        start_delay: slowest(|task| task.start_delay),
        alignment: slowest(|task| task.alignment),
        sync: slowest(|task| task.sync),
        r#async: slowest(|task| task.async_),
        bytes: stats.sum(|task| task.bytes_written),
        records_in_flight: sections.map(|section| section.records).sum(),
        bytes_in_flight: stats.sum(|task| task.bytes_in_flight),
    }
}

/// Tells people what it cost.
pub(crate) fn log(summary: &CheckpointSummary) {
    tracing::info!(
        checkpoint = summary.checkpoint.get(),
        duration_us = micros(summary.duration),
        start_delay_us = micros(summary.start_delay),
        alignment_us = micros(summary.alignment),
        sync_us = micros(summary.sync),
        async_us = micros(summary.r#async),
        bytes = summary.bytes,
        records_in_flight = summary.records_in_flight,
        bytes_in_flight = summary.bytes_in_flight,
        "checkpoint completed"
    );
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
