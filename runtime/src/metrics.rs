//! A job's figures for a metrics system, through the [`metrics`] facade: install any exporter.
//!
//! | metric | kind, unit | labels |
//! |---|---|---|
//! | `cutwater_checkpoints_total` | counter | `job`, `outcome` (`completed`, `aborted`) |
//! | `cutwater_checkpoint_latest` | gauge, id | `job` |
//! | `cutwater_checkpoint_duration_seconds` | histogram, trigger to last acknowledgement | `job` |
//! | `cutwater_checkpoint_start_delay_seconds` | histogram, trigger to a task's first barrier | `job`, `task` |
//! | `cutwater_checkpoint_alignment_seconds` | histogram, first to last barrier | `job`, `task` |
//! | `cutwater_checkpoint_sync_seconds` | histogram, the task's stop for its snapshot | `job`, `task` |
//! | `cutwater_checkpoint_async_seconds` | histogram, until all was in the store | `job`, `task` |
//! | `cutwater_checkpoint_aligned_bytes` | histogram, processed between first and last barrier | `job`, `task` |
//! | `cutwater_checkpoint_in_flight_bytes` | histogram, saved as channel state | `job`, `task` |
//! | `cutwater_checkpoint_written_bytes` | histogram, the delta | `job`, `task` |
//! | `cutwater_checkpoint_full_bytes` | histogram, referred to | `job`, `task` |
//! | `cutwater_restarts_total` | counter | `job` |
//!
//! [`metrics`]: https://docs.rs/metrics

use cutwater_barrier::stats::{CheckpointStats, TaskStats};
use metrics::{counter, gauge, histogram};

/// One job's metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    job: String,
}

impl Metrics {
    pub(crate) fn of(job: &str) -> Self {
        Self {
            job: job.to_owned(),
        }
    }

    /// `names` are the labels of the tasks.
    pub(crate) fn completed(&self, stats: &CheckpointStats, names: &[String]) {
        self.over("completed");
        gauge!("cutwater_checkpoint_latest", "job" => self.job.clone())
            .set(approximate(stats.barrier.checkpoint.get()));
        histogram!("cutwater_checkpoint_duration_seconds", "job" => self.job.clone())
            .record(stats.duration());
        for acked in &stats.tasks {
            self.task(&names[acked.task.0], &acked.stats);
        }
    }

    pub(crate) fn aborted(&self) {
        self.over("aborted");
    }

    pub(crate) fn restarted(&self) {
        counter!("cutwater_restarts_total", "job" => self.job.clone()).increment(1);
    }

    fn over(&self, outcome: &'static str) {
        counter!("cutwater_checkpoints_total", "job" => self.job.clone(), "outcome" => outcome)
            .increment(1);
    }

    fn task(&self, task: &str, stats: &TaskStats) {
        let labels = [("job", self.job.clone()), ("task", task.to_owned())];
        histogram!("cutwater_checkpoint_start_delay_seconds", &labels).record(stats.start_delay);
        histogram!("cutwater_checkpoint_alignment_seconds", &labels).record(stats.alignment);
        histogram!("cutwater_checkpoint_sync_seconds", &labels).record(stats.sync);
        histogram!("cutwater_checkpoint_async_seconds", &labels).record(stats.async_);
        for (name, bytes) in [
            (
                "cutwater_checkpoint_aligned_bytes",
                stats.bytes_during_alignment,
            ),
            ("cutwater_checkpoint_in_flight_bytes", stats.bytes_in_flight),
            ("cutwater_checkpoint_written_bytes", stats.bytes_written),
            ("cutwater_checkpoint_full_bytes", stats.bytes_full),
        ] {
            histogram!(name, &labels).record(approximate(bytes));
        }
    }
}

/// Metrics are floats: exact up to 2^53.
fn approximate(value: u64) -> f64 {
    value as f64
}
