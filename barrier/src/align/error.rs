//! Reports that cannot be true.

use core::{error, fmt};

use super::Channel;
use crate::CheckpointId;

/// An event that cannot follow the ones before it. The task should fail: what it reads is not what
/// the sender wrote.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AlignError {
    /// The channel had already ended.
    AfterFinish {
        /// The channel read.
        channel: Channel,
    },
    /// An aligned barrier was reported to have overtaken.
    AlignedOvertook {
        /// The channel it came on.
        channel: Channel,
        /// The checkpoint named.
        checkpoint: CheckpointId,
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
    /// A barrier overtook on a channel declared as [`Strict`](super::Input::Strict).
    StrictOvertaken {
        /// The channel it came on.
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
            Self::AlignedOvertook {
                channel,
                checkpoint,
            } => write!(
                f,
                "the aligned barrier of checkpoint {checkpoint} overtook on channel {}",
                channel.0
            ),
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
                "channel {} was read while blocked: ask reading() first",
                channel.0
            ),
            Self::StrictOvertaken { channel } => write!(
                f,
                "a barrier overtook on channel {}, which is strict",
                channel.0
            ),
            Self::UnknownChannel { channel } => write!(f, "the task has no channel {}", channel.0),
        }
    }
}

impl error::Error for AlignError {}
