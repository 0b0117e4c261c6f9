//! One task's side: what it does when barriers arrive on its input channels.
//!
//! [`Aligner`] and [`Tracker`] take the same events and answer with the same effects, so a driver
//! can hold either. A source is a task without channels: all it hears is [`Event::Triggered`]. It has nothing
//! to align, so it may as well do without a machine: on a trigger it sends the barrier into every
//! output, snapshots, and acknowledges.
//!
//! # Channels
//!
//! A channel is FIFO, with a *side lane* if barriers may overtake on it: a barrier that
//! [`may_overtake`](Barrier::may_overtake) keeps its place among the records and is announced in the
//! side lane as well. Which of the two a driver meets first decides what it reports. An engine whose
//! jobs only ever align needs no side lanes, and meets neither `Capture` nor a recorded channel.
//!
//! A driver's loop over its channels:
//!
//! ```
//! # use cutwater_barrier::{Barrier, CheckpointId, Time};
//! use cutwater_barrier::align::{AlignError, Aligner, Channel, Effect, Event, Reading};
//! # enum Item { Record(u64), Barrier(Barrier), Cancel(CheckpointId), End }
//! # fn turn(aligner: &mut Aligner, now: Time, channel: Channel, queue: &mut Vec<Item>) -> Result<(), AlignError> {
//! let reading = aligner.reading(channel);
//! if reading == Reading::Blocked {
//!     return Ok(()); // leave its items where they are
//! }
//! match queue.pop() {
//!     Some(Item::Record(record)) => {
//!         if reading == Reading::Recorded { /* keep a copy: it was in flight at the cut */ }
//!         /* process it: the machine need not know */
//!     }
//!     Some(Item::Barrier(barrier)) => aligner.handle(now, Event::Barrier { channel, barrier })?,
//!     Some(Item::Cancel(checkpoint)) => aligner.handle(now, Event::Cancelled { channel, checkpoint })?,
//!     Some(Item::End) => aligner.handle(now, Event::Finished { channel })?,
//!     None => {}
//! }
//! while let Some(effect) = aligner.poll() {
//!     match effect {
//!         Effect::Forward(barrier) => { /* into every output, and the side lane if it may overtake */ }
//!         Effect::ForwardCancel(checkpoint) => { /* into every output */ }
//!         Effect::Snapshot(barrier) => { /* fix the operators' view; it can be stored meanwhile */ }
//!         Effect::Capture { checkpoint, channel } => { /* copy what is queued before the barrier */ }
//!         Effect::Acknowledge { checkpoint, alignment } => { /* once all of it is stored */ }
//!         Effect::Abort { checkpoint, reason } => { /* drop it, decline, with a word in the log */ }
//!         Effect::Resume => { /* channels may be readable again */ }
//!     }
//! }
//! # Ok(()) }
//! ```

mod aligner;
mod channels;
mod error;
mod over;
mod tracker;

use core::time::Duration;

pub use aligner::Aligner;
pub use error::AlignError;
pub use tracker::Tracker;

use crate::{Barrier, CheckpointId, Time};

/// An input channel of the task, counted from 0 over *all* its inputs: two inputs of 2 and 3
/// channels have the channels 0 to 4 (FLINK-18139 is what happens otherwise).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a channel is its index and nothing else"
)]
pub struct Channel(pub usize);

/// What a channel is to a checkpoint. It is fixed by the edge of the job graph that the channel
/// belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever declares an edge decides among these"
)]
pub enum Input {
    /// Nothing overtakes: its records cannot find their way again after a rescaling (pointwise,
    /// broadcast and custom-partitioned edges). The cut waits for its barrier in every mode, and it never
    /// carries channel state. Other channels of the same task are free to (F074); a job in which some do
    /// wants [`align_after_expiry`](crate::coordinate::Config::align_after_expiry).
    Strict,
    /// Barriers may overtake.
    Overtakable,
    /// The back edge of a loop. The cut never waits for it: its barrier comes back through the loop only
    /// after this task has sent it there. From the cut until then, what is read from it is recorded, in
    /// *every* mode. In the cycle it closes, no other channel may be one.
    ///
    /// A checkpoint that begins before the barrier of the last one is back gives that one up. So have
    /// [one in progress](crate::coordinate::Config::concurrent_max) at a time.
    Feedback,
}

/// How a channel is to be read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that reads another way breaks exactly-once"
)]
pub enum Reading {
    /// Nothing is to be heeded. Always so while no checkpoint is in progress.
    Free,
    /// What is read is in flight: besides being processed, each record is saved with the
    /// [`current`](Aligner::current) checkpoint.
    Recorded,
    /// It must not be read for now: what comes next belongs to a later checkpoint. Its side lane may be
    /// read.
    Blocked,
}

/// What happened at a task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The coordinator had this task inject a barrier: it is a source, or everything upstream has
    /// finished. Records still queued in its channels come before the barrier.
    Triggered {
        /// The barrier to inject.
        barrier: Barrier,
    },
    /// A barrier came by the side lane, ahead of records that were sent before it. It keeps its place
    /// among them: should reading reach it, the driver reports a [`Barrier`](Self::Barrier) as well.
    /// Also for a barrier that only will overtake after its timeout. A repeated or late one is ignored.
    Overtook {
        /// Where it came. Blocked or not, but not [`Strict`](Input::Strict).
        channel: Channel,
        /// What came.
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that skips an effect breaks exactly-once"
)]
pub enum Effect {
    /// Send the barrier into every output, behind what was sent before. If it
    /// [`may_overtake`](Barrier::may_overtake), announce it in the side lanes of those outputs that have one.
    ///
    /// An [`Unaligned`](crate::Mode::Unaligned) barrier must not wait for room in such an output: what
    /// this task still buffers for it goes before the barrier, even beyond the channel's bound.
    Forward(Barrier),
    /// Send a cancel marker into every output: no barrier of this checkpoint will come from here.
    ForwardCancel(CheckpointId),
    /// Snapshot the operators: every record processed so far belongs to the checkpoint, and none
    /// may be processed before their view is fixed. Comes right after its [`Forward`](Self::Forward).
    Snapshot(Barrier),
    /// Save the records that are queued in the channel before the barrier, and take the barrier out, so
    /// that it will not be reported as [`Event::Barrier`]. The records stay and are processed later.
    ///
    /// They follow, in this order, what was read from the channel while it was
    /// [`Recorded`](Reading::Recorded).
    Capture {
        /// The checkpoint they are saved with.
        checkpoint: CheckpointId,
        /// Where they are.
        channel: Channel,
    },
    /// Nothing will be added to this task's part of the checkpoint. Acknowledge it when it is stored.
    Acknowledge {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What the wait for barriers cost, for [`TaskStats::new`](crate::stats::TaskStats::new).
        alignment: Alignment,
    },
    /// This task takes no part in the checkpoint: drop what was taken for it. Unless the coordinator gave
    /// it up itself, decline.
    Abort {
        /// The checkpoint given up.
        checkpoint: CheckpointId,
        /// Why.
        reason: AbortReason,
    },
    /// Channels that delivered the barrier may be read again. Ask anew: a newer checkpoint may already
    /// hold back another.
    Resume,
}

/// Why a task gives up a checkpoint that it had begun.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AbortReason {
    /// The coordinator said so.
    Aborted,
    /// Upstream sent a cancel marker.
    Cancelled,
    /// A newer checkpoint came first: the barriers still missing will not come, or too late.
    Subsumed,
    /// Too many checkpoints were in progress at once.
    Crowded,
}

/// When a checkpoint's barriers came to a task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Alignment {
    /// When the coordinator triggered, on its clock.
    pub triggered_at: Time,
    /// When the first barrier was reached in order or, if none was, when the cut was made. One that
    /// has only been announced is still on its way.
    pub first_at: Time,
    /// When the last one came, in order or not, or the last channel without one ended.
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
