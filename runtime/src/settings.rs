//! How a job is run: parallelism, checkpoints, restarts, and what it is restored from.

use std::{path::PathBuf, time::Duration};

use cutwater_barrier::{CheckpointId, Mode};
use cutwater_keygroups::MaxParallelism;
use cutwater_sink_2pc::{JobTimes, check_timeout};
use cutwater_state::Backend;

use crate::{
    Error, ErrorKind, Observer, Result,
    channel::Capacity,
    graph::{Graph, Make},
};

/// Everything about a run that is not the job itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Subtasks of every operator that does not say otherwise.
    pub parallelism: u16,
    /// Key groups, and so the most subtasks the job can ever have. `None`: what the restored
    /// checkpoint has, or a default for the parallelism.
    pub max_parallelism: Option<MaxParallelism>,
    /// When checkpoints are taken. `None`: only the last one, at the end of the input or at a stop.
    pub checkpoint_interval: Option<Duration>,
    /// The least time from the end of one checkpoint to the start of the next.
    pub checkpoint_pause: Duration,
    /// How long a checkpoint may take.
    pub checkpoint_timeout: Duration,
    /// How many checkpoints may be under way at once.
    pub concurrent_checkpoints: usize,
    /// How many checkpoints may fail in a row before the attempt counts as failed.
    pub tolerable_failures: u32,
    /// How many completed checkpoints are kept.
    pub retained_checkpoints: usize,
    /// A directory on a local disk, of this job alone, for second copies of the state files of the newest
    /// completed checkpoint. A restart reads a copy instead of the store where it is there and intact.
    /// (Flink's `execution.state-recovery.from-local`.)
    pub local_copies: Option<PathBuf>,
    /// What a checkpoint promises.
    pub guarantee: Guarantee,
    /// What a checkpoint stores of keyed state.
    pub snapshots: Snapshots,
    /// How barriers travel when channels are full: behind the records queued there, ahead of them, or
    /// ahead once the checkpoint has taken too long. A barrier that overtakes saves the records it
    /// leaves behind (unaligned checkpoints; Flink's `execution.checkpointing.unaligned`). The job's
    /// last checkpoint is always aligned.
    ///
    /// Nothing overtakes on broadcast edges and on forward edges into an operator with several inputs:
    /// there a barrier waits its turn. If a task with such an input also has others, back-pressure can
    /// keep that turn from ever coming. The checkpoint expires then, and the next ones are aligned until one
    /// completes: so allow such a job at least one of
    /// [`tolerable_failures`](Self::tolerable_failures), and a
    /// [`checkpoint_timeout`](Self::checkpoint_timeout) in which full channels are drained, but not much
    /// longer.
    pub barriers: Mode,
    /// Bounds what waits in front of a task to what it takes in this time, so that an aligned barrier
    /// waits about as long. `None`: as much as [`channel_capacity`](Self::channel_capacity) allows.
    pub debloat: Option<Duration>,
    /// Restore this checkpoint without its in-flight records, if they cannot be read. They are lost.
    pub ignore_in_flight: Option<CheckpointId>,
    /// What to do when an attempt has failed.
    pub restart: Restart,
    /// What to start from.
    pub restore: Restore,
    /// Where keyed state is.
    pub backend: Backend,
    /// Whether the restored checkpoint may hold state that the job no longer has. It is dropped.
    pub allow_dropped_state: bool,
    /// Records in a full batch.
    pub batch_size: usize,
    /// Batches that wait in one channel before its sender does.
    pub channel_capacity: usize,
    /// How long a record may wait in a half-filled batch.
    pub flush_interval: Duration,
    /// How long the job may be down and still find its prepared transactions at a target that aborts
    /// them by itself. A sink whose target would not wait so long is refused.
    pub downtime_max: Duration,
    /// Who is told of every step of a checkpoint.
    pub observer: Observer,
}

impl Default for Settings {
    /// One subtask, state in memory, a checkpoint a second of which the last is kept, restart as long as it
    /// helps, restore from the latest.
    fn default() -> Self {
        Self {
            parallelism: 1,
            max_parallelism: None,
            checkpoint_interval: Some(Duration::from_secs(1)),
            checkpoint_pause: Duration::ZERO,
            checkpoint_timeout: Duration::from_secs(600), // as Flink's default
            concurrent_checkpoints: 1,
            tolerable_failures: 0, // as Flink's default
            retained_checkpoints: 1,
            local_copies: None,
            guarantee: Guarantee::ExactlyOnce,
            snapshots: Snapshots::Incremental,
            barriers: Mode::Aligned,
            debloat: None,
            ignore_in_flight: None,
            restart: Restart::default(),
            restore: Restore::Latest,
            backend: Backend::memory(),
            allow_dropped_state: false,
            batch_size: 1024,
            channel_capacity: 8,
            flush_interval: Duration::from_millis(5),
            downtime_max: Duration::from_secs(3600),
            observer: Observer::default(),
        }
    }
}

impl Settings {
    /// How much may wait in each channel in the beginning.
    pub(crate) fn capacity(&self) -> Capacity {
        Capacity {
            batches: self.channel_capacity,
            records: match self.debloat {
                None => self.records_max(),
                // As long as nobody knows how slow the receiver is.
                Some(_) => self.batch_size,
            },
        }
    }

    /// Records that may wait in a channel if all batches are full.
    pub(crate) fn records_max(&self) -> usize {
        self.channel_capacity.saturating_mul(self.batch_size)
    }

    /// Refuses settings under which the job could not keep its promise.
    pub(crate) fn check(&self, graph: &Graph) -> Result<()> {
        let problem = |message: String| Err(Error::new(ErrorKind::Build, message));
        let is_zero = |node| graph.parallelism_of(node, self.parallelism) == 0;
        if (0..graph.nodes.len()).any(is_zero) {
            return problem("a parallelism of 0 runs nothing; use at least 1".to_owned());
        }
        if self.retained_checkpoints == 0 {
            return problem(
                "no checkpoint is retained, so none could be restored; keep at least 1".to_owned(),
            );
        }
        if self.batch_size == 0 || self.channel_capacity == 0 {
            return problem(
                "a batch or a channel of size 0 lets no record through; use at least 1".to_owned(),
            );
        }
        if self.concurrent_checkpoints > 1 && !graph.loops().is_empty() {
            return problem(
                "in a loop, a checkpoint gives up the one before it that is still on its way round, \
                 so with several at once none might complete; leave `concurrent_checkpoints` at 1"
                    .to_owned(),
            );
        }
        if self.guarantee == Guarantee::AtLeastOnce {
            if self.barriers != Mode::Aligned {
                return problem(
                    "a barrier that overtakes makes no sense with at-least-once, where no channel \
                     waits; leave `barriers` at `Mode::Aligned`"
                        .to_owned(),
                );
            }
            if !graph.loops().is_empty() {
                return problem(
                    "the records in a loop are logged between two barriers, which at-least-once does \
                     not wait for; run a job with loops exactly-once"
                        .to_owned(),
                );
            }
        }
        let times = JobTimes {
            checkpoint_interval: self.checkpoint_interval.unwrap_or_default(),
            checkpoint_timeout: self.checkpoint_timeout,
            downtime_max: self.downtime_max,
        };
        for node in &graph.nodes {
            if let Make::Sink(sink) = &node.make {
                check_timeout(sink.transaction_timeout(), times).map_err(|error| {
                    let message = format!("sink `{}` could lose transactions", sink.uid());
                    Error::new(ErrorKind::Build, message).with_source(error)
                })?;
            }
        }
        Ok(())
    }
}

/// What a checkpoint promises.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Guarantee {
    /// After a restart each record counts once in state. Channels are aligned.
    #[default]
    ExactlyOnce,
    /// After a restart a record may count twice in state. No channel ever waits for another.
    AtLeastOnce,
}

/// What a checkpoint stores of keyed state. Either restores what was written by the other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Snapshots {
    /// What has changed since the checkpoint before, whose files it names for the rest. (Flink's
    /// `execution.checkpointing.incremental`.)
    #[default]
    Incremental,
    /// Everything each time, in a form that every [backend](Settings::backend) can go on from: checkpoints have no file in common. Less in the store where most of the state
    /// changes from one checkpoint to the next.
    Full,
}

/// What to start from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Restore {
    /// The latest completed checkpoint, or nothing if there is none yet.
    #[default]
    Latest,
    /// This checkpoint, which must be retained.
    Checkpoint(CheckpointId),
    /// Nothing. What the directory holds stays until newer checkpoints push it out.
    Fresh,
}

/// What to do when an attempt has failed and another could succeed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Restart {
    /// Give up.
    Never,
    /// Wait `delay`, try again, at most `attempts` times without a checkpoint completed in between.
    FixedDelay {
        /// Restarts in a row.
        attempts: u32,
        /// Before each.
        delay: Duration,
    },
    /// Wait twice as long each time, from `first` to at most `longest`; back to `first` after a
    /// completed checkpoint. At most `attempts` times without one.
    Exponential {
        /// Restarts in a row.
        attempts: u32,
        /// Before the first.
        first: Duration,
        /// Before any.
        longest: Duration,
    },
}

impl Default for Restart {
    /// From a tenth of a second to ten seconds, ten times in a row.
    fn default() -> Self {
        Self::Exponential {
            attempts: 10,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(10),
        }
    }
}

impl Restart {
    /// How long to wait before restart number `failures` (from 1) since the last completed
    /// checkpoint; `None` to give up.
    pub fn delay(self, failures: u32) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::FixedDelay { attempts, delay } => (failures <= attempts).then_some(delay),
            Self::Exponential {
                attempts,
                first,
                longest,
            } => (failures <= attempts).then(|| {
                let doubled = first.saturating_mul(1 << (failures.saturating_sub(1)).min(31));
                doubled.min(longest)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_delay_doubles_up_to_the_longest_and_gives_up() {
        let restart = Restart::Exponential {
            attempts: 5,
            first: Duration::from_millis(10),
            longest: Duration::from_millis(60),
        };
        let delays: Vec<_> = (1..=6)
            .map(|n| restart.delay(n).map(|d| d.as_millis()))
            .collect();
        assert_eq!(
            delays,
            [Some(10), Some(20), Some(40), Some(60), Some(60), None]
        );
    }

    #[test]
    fn fixed_delay_gives_up_after_its_attempts() {
        let restart = Restart::FixedDelay {
            attempts: 1,
            delay: Duration::from_millis(5),
        };
        assert_eq!(restart.delay(1), Some(Duration::from_millis(5)));
        assert_eq!(restart.delay(2), None);
        assert_eq!(Restart::Never.delay(1), None);
    }
}
