//! What a job may choose, and what an attempt is given.

use core::time::Duration;

use crate::{CheckpointId, Generation, Mode};

/// How often a job checkpoints and what it puts up with.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// From one periodic trigger to the next. `None`: only on request.
    pub interval: Option<Duration>,
    /// From the moment all tasks run to the first periodic trigger. Draw it at random, at most
    /// `interval`, so that jobs started together do not checkpoint together.
    pub initial_delay: Duration,
    /// From the *end* of a checkpoint, however it ended, to the next periodic trigger.
    pub min_pause: Duration,
    /// Checkpoints in progress at once, at least 1. Savepoints count but are not held back.
    pub concurrent_max: usize,
    /// The mode of checkpoints. Savepoints and the job's last checkpoint are aligned in any case.
    ///
    /// Unless this is [`Mode::Aligned`], one checkpoint is in progress at a time, whatever
    /// `concurrent_max` says: a task that records what one barrier overtook gives it up for a newer one.
    pub mode: Mode,
    /// Whether, after a checkpoint that expired, the next ones are aligned until one completes.
    ///
    /// For jobs with [`Strict`](crate::align::Input::Strict) inputs, where a checkpoint that overtakes can
    /// get stuck, however long it may take: a task holds back a channel whose barrier is in while it waits
    /// for a strict one, and through full channels that keeps the strict one's sender from its own cut. An
    /// aligned checkpoint takes until the channels are drained, but cannot get stuck: nothing behind a task
    /// that has not made its cut has made one, so nobody holds back what it sends.
    pub align_after_expiry: bool,
    /// From the trigger to the last acknowledgement.
    pub timeout: Duration,
    /// Checkpoints that may fail in a row; with one more the job fails. Only real failures count:
    /// a task that declined because it failed, a timeout, a decision that could not be stored.
    pub tolerable_failures: u32,
    /// Requests that may wait at once. With one more, the least important is refused.
    pub requests_max: usize,
    /// Checkpoints that the driver may be busy deleting ([`Event::Cleaning`]); with more, nothing new
    /// is triggered, so that a slow store does not fill up.
    ///
    /// [`Event::Cleaning`]: super::Event::Cleaning
    pub cleaning_max: usize,
}

impl Config {
    /// An aligned checkpoint every `interval`, one at a time, with Flink's defaults for the rest: no pause,
    /// 10 minutes of timeout, no tolerable failure.
    pub const fn every(interval: Duration) -> Self {
        Self {
            interval: Some(interval),
            initial_delay: interval,
            min_pause: Duration::ZERO,
            concurrent_max: 1,
            mode: Mode::Aligned,
            align_after_expiry: false,
            timeout: Duration::from_secs(600),
            tolerable_failures: 0,
            requests_max: 1_000,
            cleaning_max: 1,
        }
    }

    /// No periodic checkpoints, otherwise as [`every`](Self::every).
    pub const fn on_request() -> Self {
        let mut config = Self::every(Duration::ZERO);
        config.interval = None;
        config
    }

    /// Beyond it, a checkpoint waits for another one to end.
    pub(super) fn room(&self) -> usize {
        match self.mode {
            Mode::Aligned => self.concurrent_max.max(1),
            Mode::AlignedFor(_) | Mode::Unaligned => 1,
        }
    }
}

/// One execution attempt of a job, as the checkpoint log hands it out on take-over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// The fencing number. Acknowledgements of any other are not counted.
    pub generation: Generation,
    /// The first id to use: above every id that an earlier attempt may have used.
    pub first: CheckpointId,
    /// What the attempt was restored from.
    pub restored: Option<CheckpointId>,
}

impl Attempt {
    /// An attempt that starts fresh.
    pub const fn new(generation: Generation, first: CheckpointId) -> Self {
        Self {
            generation,
            first,
            restored: None,
        }
    }

    /// An attempt that starts from `checkpoint`, if that is one.
    ///
    /// # Panics
    ///
    /// Unless `checkpoint` is below the first id: ids strictly increase across attempts.
    #[must_use]
    pub fn restored(self, checkpoint: impl Into<Option<CheckpointId>>) -> Self {
        let restored = checkpoint.into();
        assert!(
            restored < Some(self.first),
            "the first id of an attempt is above the one it restores"
        );
        Self { restored, ..self }
    }
}
