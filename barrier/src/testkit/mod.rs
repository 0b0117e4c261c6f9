//! A check for anyone's driver: it is told what went on at one task, and names the promise broken first.
//!
//! The machines decide, but an engine that reads a blocked channel, snapshots a record too late or
//! loses one while it captures is wrong all the same, and it shows only after a crash. Put a [`Watch`]
//! beside the driver in its tests (or in a debug build) and pass everything on:
//!
//! | call | who makes it | when |
//! |---|---|---|
//! | [`fed`](Watch::fed) | whoever feeds the task | for each record and marker put into an input channel |
//! | [`told`](Watch::told) | the driver | for each event it hands to its machine |
//! | [`did`](Watch::did) | the driver | for each thing it does |
//! | [`at_rest`](Watch::at_rest) | the test | at the end |
//!
//! The watch has a machine of its own, so it knows what the driver owes, whatever the driver believes.
//! It knows nothing of records but their numbers: each channel's are counted from 0 as they are fed.
//!
//! ```
//! use cutwater_barrier::align::{Channel, Event, Input};
//! use cutwater_barrier::testkit::{Did, Fed, Watch};
//! use cutwater_barrier::{Barrier, CheckpointId, Time};
//!
//! let mut watch = Watch::aligner([Input::Overtakable; 2], []);
//! let barrier = Barrier::checkpoint(CheckpointId::new(3), Time::ZERO);
//! for channel in [Channel(0), Channel(1)] {
//!     watch.fed(channel, Fed::Barrier(barrier))?;
//!     watch.fed(channel, Fed::Record)?;
//! }
//!
//! watch.told(Time::ZERO, Event::Barrier { channel: Channel(0), barrier })?;
//! let broken = watch.did(Did::Read { channel: Channel(0), record: 0 }).unwrap_err();
//! assert_eq!(broken.to_string(), "record 0 of channel 0 was read while the channel was blocked for checkpoint 3");
//! # Ok::<(), cutwater_barrier::testkit::Broken>(())
//! ```
//!
//! Exempt from semver: a new check may fail a driver that passed before.

mod broken;
mod inputs;
mod outputs;
mod taken;
mod watch;

pub use broken::{Broken, Owed};
pub use watch::Watch;

use crate::{Barrier, CheckpointId, align::Channel};

/// What is put into an input channel, in order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Fed {
    /// A record: the next number of the channel.
    Record,
    /// A barrier. That it is announced in a side lane as well need not be said.
    Barrier(Barrier),
    /// A cancel marker.
    Cancel(CheckpointId),
    /// Nothing follows.
    End,
}

/// What a driver did.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Did {
    /// It read a record and processed it.
    Read {
        /// From where.
        channel: Channel,
        /// The record's number there.
        record: u64,
    },
    /// It saved a copy of a record in flight, as it read it or as part of a capture.
    Saved {
        /// The checkpoint it is saved with.
        checkpoint: CheckpointId,
        /// The channel the record is, or was, queued in.
        channel: Channel,
        /// The record's number there.
        record: u64,
    },
    /// It has saved what a channel held before the barrier, and taken the barrier out.
    Captured {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The channel.
        channel: Channel,
    },
    /// An operator put out a record, which may wait in a buffer.
    Emitted {
        /// Into which output, counted from 0.
        output: usize,
    },
    /// Records left the buffer for the channel.
    Sent {
        /// Of which output.
        output: usize,
        /// How many.
        records: u64,
    },
    /// It put a barrier into an output.
    Forwarded {
        /// Into which.
        output: usize,
        /// The barrier.
        barrier: Barrier,
        /// Whether into its side lane as well.
        announced: bool,
    },
    /// It put a cancel marker into an output.
    ForwardedCancel {
        /// Into which.
        output: usize,
        /// The checkpoint given up.
        checkpoint: CheckpointId,
    },
    /// It fixed the view of all operators.
    Snapshotted {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It told the coordinator that its part is stored.
    Acknowledged {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It dropped what it had taken for a checkpoint.
    Aborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
}
