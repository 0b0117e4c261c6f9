//! One task's side: what it does when barriers arrive on its input channels.
//!
//! [`Aligner`] and [`Tracker`] take the same events and answer with the same effects, so a driver
//! can hold either. A source is a task without channels: all it hears is [`Event::Triggered`]. It has nothing
//! to align, so it may as well do without a machine: on a trigger it sends the barrier into every
//! output, snapshots, and acknowledges.
//!
//! A driver's loop over its channels:
//!
//! ```
//! # use cutwater_barrier::{Barrier, CheckpointId, Time};
//! use cutwater_barrier::align::{AlignError, Aligner, Channel, Effect, Event};
//! # enum Item { Record(u64), Barrier(Barrier), Cancel(CheckpointId), End }
//! # fn turn(aligner: &mut Aligner, now: Time, channel: Channel, queue: &mut Vec<Item>) -> Result<(), AlignError> {
//! if aligner.is_blocked(channel) {
//!     return Ok(()); // leave its items where they are
//! }
//! match queue.pop() {
//!     Some(Item::Record(record)) => { /* process it: the machine need not know */ }
//!     Some(Item::Barrier(barrier)) => aligner.handle(now, Event::Barrier { channel, barrier })?,
//!     Some(Item::Cancel(checkpoint)) => aligner.handle(now, Event::Cancelled { channel, checkpoint })?,
//!     Some(Item::End) => aligner.handle(now, Event::Finished { channel })?,
//!     None => {}
//! }
//! while let Some(effect) = aligner.poll() {
//!     match effect {
//!         Effect::Forward(barrier) => { /* into every output, behind what was sent before */ }
//!         Effect::ForwardCancel(checkpoint) => { /* likewise */ }
//!         Effect::Snapshot { barrier, alignment } => { /* take it, acknowledge when it is stored */ }
//!         Effect::Abort { checkpoint, reason } => { /* decline, with a word in the log */ }
//!         Effect::Resume => { /* channels may be readable again */ }
//!     }
//! }
//! # Ok(()) }
//! ```

mod aligner;
mod over;
mod tracker;

use core::{error, fmt, time::Duration};

pub use aligner::Aligner;
pub use tracker::Tracker;

use crate::{Barrier, CheckpointId, Time};

/// An input channel of the task, counted from 0 over *all* its inputs: two inputs of 2 and 3
/// channels have the channels 0 to 4 (FLINK-18139 is what happens otherwise).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a channel is its index and nothing else"
)]
pub struct Channel(pub usize);

/// What happened at a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The coordinator had this task inject a barrier: it is a source, or everything upstream has
    /// finished. Records still queued in its channels come before the barrier.
    Triggered {
        /// The barrier to inject.
        barrier: Barrier,
    },
    /// The driver read a barrier from a channel, in order: everything sent before it has been read.
    Barrier {
        /// Where it was read.
        channel: Channel,
        /// What was read.
        barrier: Barrier,
    },
    /// The driver read a cancel marker from a channel: upstream has given up on a checkpoint.
    Cancelled {
        /// Where it was read.
        channel: Channel,
        /// The checkpoint given up.
        checkpoint: CheckpointId,
    },
    /// The coordinator gave up on a checkpoint. The notice may come before any barrier.
    Aborted {
        /// The checkpoint given up.
        checkpoint: CheckpointId,
    },
    /// The driver read the end of a channel.
    Finished {
        /// Where it was read.
        channel: Channel,
    },
    /// The deadline passed. Reporting it early is harmless.
    Woke,
}

/// What the task does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that skips an effect breaks exactly-once"
)]
pub enum Effect {
    /// Send the barrier into every output, behind what was sent before.
    Forward(Barrier),
    /// Send a cancel marker into every output: no barrier of this checkpoint will come from here.
    ForwardCancel(CheckpointId),
    /// Snapshot the operators: every record processed so far belongs to the checkpoint, and none
    /// may be processed before their view is fixed. Comes right after its [`Forward`](Self::Forward).
    Snapshot {
        /// The checkpoint, and what follows it.
        barrier: Barrier,
        /// What the wait for the barrier cost, for [`TaskStats::new`](crate::stats::TaskStats::new).
        alignment: Alignment,
    },
    /// This task takes no part in the checkpoint. Unless the coordinator gave it up itself, decline.
    Abort {
        /// The checkpoint given up.
        checkpoint: CheckpointId,
        /// Why.
        reason: AbortReason,
    },
    /// Channels that delivered the barrier may be read again. Ask `is_blocked`: a newer checkpoint may
    /// already hold back another.
    Resume,
}

/// Why a task gives up a checkpoint that it had begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AbortReason {
    /// The coordinator said so.
    Aborted,
    /// Upstream sent a cancel marker.
    Cancelled,
    /// A newer checkpoint came first, so the barriers still missing will not come.
    Subsumed,
    /// Too many checkpoints were in progress at once.
    Crowded,
}

/// When a checkpoint's barriers came to a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Alignment {
    /// When the coordinator triggered, on its clock.
    pub triggered_at: Time,
    /// When the first barrier came.
    pub first_at: Time,
    /// When the last one came, or the last open channel ended.
    pub last_at: Time,
}

impl Alignment {
    /// From trigger to first barrier: the time in queues upstream. Zero if clocks disagree.
    pub fn start_delay(&self) -> Duration {
        self.first_at - self.triggered_at
    }

    /// From first to last barrier. Zero with a single channel.
    pub fn duration(&self) -> Duration {
        self.last_at - self.first_at
    }
}

/// An event that cannot follow the ones before it. The task should fail: what it reads is not what
/// the sender wrote.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AlignError {
    /// The channel had already ended.
    AfterFinish {
        /// The channel read.
        channel: Channel,
    },
    /// The same barrier came twice on one channel.
    Duplicate {
        /// The channel read.
        channel: Channel,
        /// The checkpoint named twice.
        checkpoint: CheckpointId,
    },
    /// The driver read a channel that is blocked.
    ReadWhileBlocked {
        /// The channel read.
        channel: Channel,
    },
    /// The task has no such channel.
    UnknownChannel {
        /// The channel named.
        channel: Channel,
    },
}

impl fmt::Display for AlignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterFinish { channel } => {
                write!(f, "channel {} was read after its end", channel.0)
            }
            Self::Duplicate {
                channel,
                checkpoint,
            } => write!(
                f,
                "second barrier of checkpoint {checkpoint} on channel {}",
                channel.0
            ),
            Self::ReadWhileBlocked { channel } => write!(
                f,
                "channel {} was read while blocked: ask is_blocked first",
                channel.0
            ),
            Self::UnknownChannel { channel } => write!(f, "the task has no channel {}", channel.0),
        }
    }
}

impl error::Error for AlignError {}
