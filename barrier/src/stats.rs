//! Where the time and the bytes of a checkpoint went.
//!
//! "The checkpoint is slow" is answered by *which part*: the barrier's way ([`start_delay`]), the
//! wait for the last channel ([`alignment`]), the stop for the snapshot ([`sync`]), or writing it
//! ([`async_`]); and by *which task*.
//!
//! [`start_delay`]: TaskStats::start_delay
//! [`alignment`]: TaskStats::alignment
//! [`sync`]: TaskStats::sync
//! [`async_`]: TaskStats::async_

use alloc::vec::Vec;
use core::time::Duration;

use crate::{Barrier, Time, align::Alignment, coordinate::TaskId};

/// What one task spent on its part of one checkpoint. It sends this with its acknowledgement.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct TaskStats {
    /// From the trigger to the task's first barrier: time in queues upstream. It compares two
    /// clocks if coordinator and task are on two hosts.
    pub start_delay: Duration,
    /// From the task's first to its last barrier: time that channels were held back or recorded. 0
    /// for a single channel.
    pub alignment: Duration,
    /// The stop of the task for its snapshot.
    pub sync: Duration,
    /// From the end of the stop until all files were in the store.
    pub async_: Duration,
    /// Bytes of records processed between first and last barrier.
    pub bytes_during_alignment: u64,
    /// Bytes of in-flight records saved as channel state.
    pub bytes_in_flight: u64,
    /// Bytes written for this checkpoint: the delta.
    pub bytes_written: u64,
    /// Bytes that the checkpoint refers to, written now or before.
    pub bytes_full: u64,
}

impl TaskStats {
    /// The part that the aligner measured; the driver fills in the rest.
    pub fn new(alignment: Alignment) -> Self {
        Self {
            start_delay: alignment.start_delay(),
            alignment: alignment.duration(),
            ..Self::default()
        }
    }

    /// From the trigger until the files were in the store, as far as the task can tell.
    pub fn total(&self) -> Duration {
        [self.start_delay, self.alignment, self.sync, self.async_]
            .into_iter()
            .fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// One checkpoint over all its tasks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// What was triggered, and when.
    pub barrier: Barrier,
    /// When the last acknowledgement came in.
    pub acked_at: Time,
    /// Each task that acknowledged, by task.
    pub tasks: Vec<AckedTask>,
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct AckedTask {
    /// Who.
    pub task: TaskId,
    /// When, on the coordinator's clock.
    pub at: Time,
    /// What it spent.
    pub stats: TaskStats,
}

impl AckedTask {
    pub(crate) const fn new(task: TaskId, at: Time, stats: TaskStats) -> Self {
        Self { task, at, stats }
    }
}

impl CheckpointStats {
    pub(crate) fn new(barrier: Barrier, acked_at: Time, tasks: Vec<AckedTask>) -> Self {
        Self {
            barrier,
            acked_at,
            tasks,
        }
    }

    /// From the trigger to the last acknowledgement, on one clock.
    pub fn duration(&self) -> Duration {
        self.acked_at - self.barrier.triggered_at
    }

    /// The task that acknowledged last. `None` if all had finished before.
    pub fn slowest(&self) -> Option<&AckedTask> {
        // Of two at the same time, the one that was busier itself.
        self.tasks
            .iter()
            .max_by_key(|acked| (acked.at, acked.stats.total()))
    }

    /// The spread of one measurement over the tasks, for example `|task| task.sync`.
    /// `None` if all had finished before.
    ///
    /// ```
    /// # fn explain(stats: &cutwater_barrier::stats::CheckpointStats) -> Option<()> {
    /// let sync = stats.spread(|task| task.sync)?;
    /// let _line = format!("sync at most {:?}, by task {}", sync.max, sync.max_by);
    /// # Some(()) }
    /// ```
    pub fn spread<T: Ord + Copy>(&self, of: impl Fn(&TaskStats) -> T) -> Option<Spread<T>> {
        let values = || {
            self.tasks
                .iter()
                .map(|acked| (of(&acked.stats), acked.task))
        };
        let (min, min_by) = values().min_by_key(|&(value, _)| value)?;
        let (max, max_by) = values().max_by_key(|&(value, _)| value)?;
        Some(Spread {
            min,
            min_by,
            max,
            max_by,
        })
    }

    /// One measurement added up over the tasks, for example `|task| task.bytes_written`.
    pub fn sum(&self, of: impl Fn(&TaskStats) -> u64) -> u64 {
        self.tasks
            .iter()
            .map(|acked| of(&acked.stats))
            .fold(0, u64::saturating_add)
    }
}

/// The least and the most of one measurement, and whose they are.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Spread<T> {
    /// The least.
    pub min: T,
    /// The first task with it.
    pub min_by: TaskId,
    /// The most.
    pub max: T,
    /// The last task with it.
    pub max_by: TaskId,
}
