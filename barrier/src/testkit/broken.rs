//! The promises, each by the way it is broken.

use core::{error, fmt};

use crate::{
    Barrier, CheckpointId,
    align::{AlignError, Channel, Effect},
};

/// A promise that a driver broke.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Broken {
    /// It reported an event that cannot be.
    Rejected(AlignError),
    /// It read a channel whose barrier is in.
    ReadWhileBlocked {
        /// The channel.
        channel: Channel,
        /// The record it read.
        record: u64,
        /// The checkpoint that the channel waits for.
        checkpoint: CheckpointId,
    },
    /// It read a record before, or again after, it was its turn: the channel is no FIFO.
    ReadOutOfOrder {
        /// The channel.
        channel: Channel,
        /// The record it read.
        record: u64,
        /// The record whose turn it was.
        due: u64,
    },
    /// It read a record that lies behind a marker it has not reported.
    ReadPastMarker {
        /// The channel.
        channel: Channel,
        /// The record it read.
        record: u64,
        /// The checkpoint of the marker; `None` for the end of the channel.
        checkpoint: Option<CheckpointId>,
    },
    /// It processed a record while something was still to be done first.
    ProcessedEarly {
        /// The channel.
        channel: Channel,
        /// The record.
        record: u64,
        /// What should have come first.
        owed: Owed,
    },
    /// An operator put out a record while something was still to be done first.
    EmittedEarly {
        /// The output.
        output: usize,
        /// What should have come first.
        owed: Owed,
    },
    /// It reported a marker that is not the next item of the channel.
    MisreportedMarker {
        /// The channel.
        channel: Channel,
        /// The checkpoint of the marker; `None` for the end of the channel.
        checkpoint: Option<CheckpointId>,
        /// The record that is before it, if any.
        unread: Option<u64>,
    },
    /// It did not do what it was told.
    Skipped {
        /// What.
        owed: Owed,
    },
    /// It did something before its turn.
    OutOfOrder {
        /// What it did.
        did: Owed,
        /// What should have come first.
        owed: Owed,
    },
    /// It did something that it was not told to do.
    Unasked {
        /// What.
        did: Owed,
    },
    /// It put a barrier into an output, but not this one.
    ForwardedOther {
        /// The output.
        output: usize,
        /// What it should have put in.
        barrier: Barrier,
    },
    /// It left records in a buffer that should be before the barrier.
    LeftBehind {
        /// The output.
        output: usize,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// How many records are behind the barrier.
        records: u64,
    },
    /// It sent the barrier in order only, though it may overtake.
    NotAnnounced {
        /// The output.
        output: usize,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It had a barrier overtake where it must not.
    AnnouncedInOrder {
        /// The output.
        output: usize,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It sent records that no operator put out.
    SentTooMany {
        /// The output.
        output: usize,
    },
    /// It acknowledged without a record that was in flight.
    NotSaved {
        /// The channel.
        channel: Channel,
        /// The record.
        record: u64,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It saved a record a second time, or after a later one.
    SavedAgain {
        /// The channel.
        channel: Channel,
        /// The record.
        record: u64,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It saved a record that is in the snapshot already.
    SavedProcessed {
        /// The channel.
        channel: Channel,
        /// The record.
        record: u64,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It saved a record that will be sent again.
    SavedBehindBarrier {
        /// The channel.
        channel: Channel,
        /// The record.
        record: u64,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// It acknowledged although more may have to be saved.
    AcknowledgedEarly {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What should have come first. `None`: not all barriers are in.
        owed: Option<Owed>,
    },
    /// It named an input or output that the task does not have.
    Unknown {
        /// Which one.
        index: usize,
    },
}

/// What a driver does on behalf of a machine, as a message names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Owed {
    /// [`Effect::Forward`].
    Forward(CheckpointId),
    /// [`Effect::ForwardCancel`].
    ForwardCancel(CheckpointId),
    /// [`Effect::Snapshot`].
    Snapshot(CheckpointId),
    /// [`Effect::Capture`].
    Capture(CheckpointId, Channel),
    /// [`Effect::Acknowledge`].
    Acknowledge(CheckpointId),
    /// [`Effect::Abort`].
    Abort(CheckpointId),
    /// The copy of a record in flight.
    Copy(CheckpointId, Channel),
}

impl Owed {
    /// What an effect obliges the driver to. [`Effect::Resume`] is advice only.
    pub(super) fn by(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Forward(barrier) => Some(Self::Forward(barrier.checkpoint)),
            Effect::ForwardCancel(checkpoint) => Some(Self::ForwardCancel(checkpoint)),
            Effect::Snapshot(barrier) => Some(Self::Snapshot(barrier.checkpoint)),
            Effect::Capture {
                checkpoint,
                channel,
            } => Some(Self::Capture(checkpoint, channel)),
            Effect::Acknowledge { checkpoint, .. } => Some(Self::Acknowledge(checkpoint)),
            Effect::Abort { checkpoint, .. } => Some(Self::Abort(checkpoint)),
            Effect::Resume => None,
        }
    }
}

impl fmt::Display for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(checkpoint) => write!(f, "Forward of checkpoint {checkpoint}"),
            Self::ForwardCancel(checkpoint) => {
                write!(f, "ForwardCancel of checkpoint {checkpoint}")
            }
            Self::Snapshot(checkpoint) => write!(f, "Snapshot of checkpoint {checkpoint}"),
            Self::Capture(checkpoint, channel) => {
                write!(
                    f,
                    "Capture of channel {} for checkpoint {checkpoint}",
                    channel.0
                )
            }
            Self::Acknowledge(checkpoint) => write!(f, "Acknowledge of checkpoint {checkpoint}"),
            Self::Abort(checkpoint) => write!(f, "Abort of checkpoint {checkpoint}"),
            Self::Copy(checkpoint, channel) => {
                write!(
                    f,
                    "a copy from channel {} for checkpoint {checkpoint}",
                    channel.0
                )
            }
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(error) => write!(f, "the driver reported what cannot be: {error}"),
            Self::ReadWhileBlocked {
                channel: Channel(channel),
                record,
                checkpoint,
            } => write!(
                f,
                "record {record} of channel {channel} was read while the channel was blocked for checkpoint {checkpoint}"
            ),
            Self::ReadOutOfOrder {
                channel: Channel(channel),
                record,
                due,
            } => write!(
                f,
                "record {record} of channel {channel} was read when it was the turn of record {due}"
            ),
            Self::ReadPastMarker {
                channel: Channel(channel),
                record,
                checkpoint: Some(checkpoint),
            } => write!(
                f,
                "record {record} of channel {channel} was read, and the marker of checkpoint {checkpoint} before it not reported"
            ),
            Self::ReadPastMarker {
                channel: Channel(channel),
                record,
                checkpoint: None,
            } => write!(
                f,
                "record {record} of channel {channel} was read behind the end of the channel"
            ),
            Self::ProcessedEarly {
                channel: Channel(channel),
                record,
                owed: Owed::Snapshot(checkpoint),
            } => write!(
                f,
                "record {record} of channel {channel} was processed between Forward and Snapshot of checkpoint {checkpoint}"
            ),
            Self::ProcessedEarly {
                channel: Channel(channel),
                record,
                owed,
            } => write!(
                f,
                "record {record} of channel {channel} was processed before {owed}"
            ),
            Self::EmittedEarly { output, owed } => {
                write!(f, "a record was emitted into output {output} before {owed}")
            }
            Self::MisreportedMarker {
                channel: Channel(channel),
                checkpoint,
                unread,
            } => {
                match checkpoint {
                    Some(checkpoint) => write!(f, "the marker of checkpoint {checkpoint}")?,
                    None => write!(f, "the end")?,
                }
                write!(f, " was reported on channel {channel}, ")?;
                match unread {
                    Some(record) => write!(f, "and record {record} before it not read"),
                    None => write!(f, "where it is not the next item"),
                }
            }
            Self::Skipped { owed } => write!(f, "{owed} was skipped"),
            Self::OutOfOrder { did, owed } => write!(f, "{did} came before {owed}"),
            Self::Unasked { did } => write!(f, "{did} was not asked for"),
            Self::ForwardedOther { output, barrier } => write!(
                f,
                "what went into output {output} is not the barrier of checkpoint {} as it was to be forwarded ({:?})",
                barrier.checkpoint, barrier.mode
            ),
            Self::LeftBehind {
                output,
                checkpoint,
                records,
            } => write!(
                f,
                "{records} records emitted into output {output} before the barrier of checkpoint {checkpoint} are behind it"
            ),
            Self::NotAnnounced { output, checkpoint } => write!(
                f,
                "the barrier of checkpoint {checkpoint} was forwarded into output {output} behind records that it should have overtaken"
            ),
            Self::AnnouncedInOrder { output, checkpoint } => write!(
                f,
                "the barrier of checkpoint {checkpoint} overtook in output {output}, where it has to keep its place"
            ),
            Self::SentTooMany { output } => {
                write!(
                    f,
                    "more records were sent into output {output} than emitted"
                )
            }
            Self::NotSaved {
                channel: Channel(channel),
                record,
                checkpoint,
            } => write!(
                f,
                "record {record} of channel {channel} was in flight at checkpoint {checkpoint}, which was acknowledged without it"
            ),
            Self::SavedAgain {
                channel: Channel(channel),
                record,
                checkpoint,
            } => write!(
                f,
                "record {record} of channel {channel} was saved with checkpoint {checkpoint} twice, or out of order"
            ),
            Self::SavedProcessed {
                channel: Channel(channel),
                record,
                checkpoint,
            } => write!(
                f,
                "record {record} of channel {channel} was saved with checkpoint {checkpoint}, whose snapshot has it already"
            ),
            Self::SavedBehindBarrier {
                channel: Channel(channel),
                record,
                checkpoint,
            } => write!(
                f,
                "record {record} of channel {channel} was saved with checkpoint {checkpoint}, behind whose barrier it is"
            ),
            Self::AcknowledgedEarly {
                checkpoint,
                owed: Some(owed),
            } => write!(f, "checkpoint {checkpoint} was acknowledged before {owed}"),
            Self::AcknowledgedEarly {
                checkpoint,
                owed: None,
            } => write!(
                f,
                "checkpoint {checkpoint} was acknowledged before its last barrier, or a second time"
            ),
            Self::Unknown { index } => {
                write!(f, "the task was said to have no input or output {index}")
            }
        }
    }
}

impl error::Error for Broken {}
