//! The bytes of a barrier between processes.
//!
//! ```text
//!   0        1      2      3      4                12                20               28
//!   | version| kind | mode | then | checkpoint u64 | triggered_at u64| timeout u64 (v2)|
//! ```
//!
//! Integers are little-endian; `triggered_at` is in nanoseconds, `timeout` in milliseconds. Version 1
//! has aligned barriers only (mode 0); version 2 has those that may overtake (mode 1): at once if the
//! timeout is 0, else after it. An aligned barrier is still written as version 1, so that earlier
//! releases read it. A later version may append to the end, with another version byte; versions 1 and
//! 2 keep decoding (the golden bytes are in the tests below).

use alloc::vec::Vec;
use core::{error, fmt, time::Duration};

use crate::{Barrier, CheckpointId, Kind, Mode, Then, Time};

const ALIGNED: u8 = 1;
const OVERTAKING: u8 = 2;

/// Without the timeout, so of version 1.
const LENGTH: usize = 20;

impl Barrier {
    /// Appends the wire form to `into`: version 1 of an aligned barrier, version 2 of another.
    ///
    /// A trigger time past the year 2554 (counted from 1970) is written as the largest possible, and
    /// so is a timeout past 584 million years.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Checkpoint => 0,
            Kind::Savepoint => 1,
        };
        let (version, mode, timeout) = match self.mode {
            Mode::Aligned => (ALIGNED, 0, None),
            Mode::Unaligned => (OVERTAKING, 1, Some(0)),
            Mode::AlignedFor(timeout) => {
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                let millis = u64::try_from(millis).unwrap_or(u64::MAX);
                (OVERTAKING, 1, Some(millis))
            }
        };
        let then = match self.then {
            Then::Continue => 0,
            Then::Suspend => 1,
            Then::Drain => 2,
        };
        let nanos = u64::try_from(self.triggered_at.since_start().as_nanos()).unwrap_or(u64::MAX);
        into.extend_from_slice(&[version, kind, mode, then]);
        into.extend_from_slice(&self.checkpoint.get().to_le_bytes());
        into.extend_from_slice(&nanos.to_le_bytes());
        if let Some(millis) = timeout {
            into.extend_from_slice(&millis.to_le_bytes());
        }
    }

    /// Reads the wire form of exactly one barrier.
    ///
    /// # Errors
    ///
    /// When `bytes` are not what [`encode`](Self::encode) of this or an earlier release wrote. There
    /// is no guessing: a barrier that is understood by halves would cut in the wrong place.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let length = bytes.len();
        let wrong_length = WireError::Length { length };
        let &version = bytes.first().ok_or(wrong_length)?;
        if !matches!(version, ALIGNED | OVERTAKING) {
            return Err(WireError::Version { version });
        }
        let &[_, kind, mode, then, ref numbers @ ..] = bytes else {
            return Err(wrong_length);
        };
        let (&checkpoint, rest) = numbers.split_first_chunk::<8>().ok_or(wrong_length)?;
        let (&nanos, rest) = rest.split_first_chunk::<8>().ok_or(wrong_length)?;
        let timeout = match version {
            ALIGNED if rest.is_empty() => None,
            OVERTAKING => Some(rest.try_into().map_err(|_| wrong_length)?),
            _ => return Err(wrong_length),
        };
        let tag = |offset, tag| WireError::Tag { offset, tag };
        let mode = match (mode, timeout.map(u64::from_le_bytes)) {
            (0, None) => Mode::Aligned,
            (1, Some(0)) => Mode::Unaligned,
            (1, Some(millis)) => Mode::AlignedFor(Duration::from_millis(millis)),
            _ => return Err(tag(2, mode)),
        };
        let barrier = Self {
            checkpoint: CheckpointId::new(u64::from_le_bytes(checkpoint)),
            kind: match kind {
                0 => Kind::Checkpoint,
                1 => Kind::Savepoint,
                _ => return Err(tag(1, kind)),
            },
            mode,
            then: match then {
                0 => Then::Continue,
                1 => Then::Suspend,
                2 => Then::Drain,
                _ => return Err(tag(3, then)),
            },
            triggered_at: Time::new(Duration::from_nanos(u64::from_le_bytes(nanos))),
        };
        if barrier.with_mode(mode) == barrier {
            Ok(barrier)
        } else {
            Err(tag(2, 1)) // A savepoint or a last checkpoint that overtakes.
        }
    }
}

/// Bytes that are not a barrier this release can read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum WireError {
    /// Too short or too long.
    Length {
        /// The number of bytes given.
        length: usize,
    },
    /// A byte that stands for nothing.
    Tag {
        /// Where it is.
        offset: usize,
        /// What it is.
        tag: u8,
    },
    /// Written by a release that this one does not know.
    Version {
        /// The version named.
        version: u8,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { length } => {
                write!(
                    f,
                    "a barrier of version {ALIGNED} has {LENGTH} bytes, one of version {OVERTAKING} 8 more, not {length}"
                )
            }
            Self::Tag { offset, tag } => {
                write!(
                    f,
                    "byte {offset} of the barrier is {tag}, which means nothing there"
                )
            }
            Self::Version { version } => {
                write!(
                    f,
                    "the barrier has version {version}, this release reads up to {OVERTAKING}: update the reader first"
                )
            }
        }
    }
}

impl error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [(Barrier, &[u8]); 4] = [
        (
            Barrier::checkpoint(CheckpointId::new(42), Time::from_millis(1_000)),
            &[
                1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0x00, 0xca, 0x9a, 0x3b, 0, 0, 0, 0,
            ],
        ),
        (
            Barrier::savepoint(CheckpointId::new(0x0102_0304_0506_0708), Time::ZERO)
                .then(Then::Drain),
            &[1, 1, 0, 2, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            Barrier::checkpoint(CheckpointId::new(42), Time::ZERO).with_mode(Mode::Unaligned),
            &[
                2, 0, 1, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
        (
            Barrier::checkpoint(CheckpointId::new(42), Time::from_millis(1_000))
                .with_mode(Mode::AlignedFor(Duration::from_millis(300))),
            &[
                2, 0, 1, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0x00, 0xca, 0x9a, 0x3b, 0, 0, 0, 0, 44, 1, 0,
                0, 0, 0, 0, 0,
            ],
        ),
    ];

    fn encoded(barrier: Barrier) -> Vec<u8> {
        let mut bytes = Vec::new();
        barrier.encode(&mut bytes);
        bytes
    }

    #[test]
    fn both_versions_read_and_write_their_golden_bytes() {
        for (barrier, golden) in GOLDEN {
            assert_eq!(encoded(barrier), golden);
            assert_eq!(Barrier::decode(golden), Ok(barrier));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for (_, golden) in GOLDEN {
            for length in 0..golden.len() {
                let cut = Barrier::decode(&golden[..length]);
                assert_eq!(cut, Err(WireError::Length { length }));
            }
            let length = golden.len() + 1;
            let longer = Barrier::decode(&[golden, &[0]].concat());
            assert_eq!(longer, Err(WireError::Length { length }));
            for offset in 1..=3 {
                let mut bytes = golden.to_vec();
                bytes[offset] = 9;
                let tag = WireError::Tag { offset, tag: 9 };
                assert_eq!(Barrier::decode(&bytes), Err(tag));
            }
            let mut newer = golden.to_vec();
            newer[0] = 3;
            let version = WireError::Version { version: 3 };
            assert_eq!(Barrier::decode(&newer), Err(version));
        }
    }

    /// Case B03: not even a foreign sender makes a savepoint overtake.
    #[test]
    fn a_savepoint_or_last_checkpoint_that_overtakes_is_refused() {
        let (_, golden) = GOLDEN[2];
        for (offset, value) in [(1, 1), (3, 1), (3, 2)] {
            let mut bytes = golden.to_vec();
            bytes[offset] = value;
            let tag = WireError::Tag { offset: 2, tag: 1 };
            assert_eq!(Barrier::decode(&bytes), Err(tag));
        }
    }

    #[test]
    fn a_timeout_is_rounded_up_and_none_at_all_is_unaligned() {
        let sent = |timeout| {
            let barrier = Barrier::checkpoint(CheckpointId::new(1), Time::ZERO);
            let bytes = encoded(barrier.with_mode(Mode::AlignedFor(timeout)));
            Barrier::decode(&bytes).map(|barrier| barrier.mode)
        };
        assert_eq!(sent(Duration::ZERO), Ok(Mode::Unaligned));
        let millisecond = Duration::from_millis(1);
        let rounded = sent(Duration::from_nanos(1));
        assert_eq!(rounded, Ok(Mode::AlignedFor(millisecond)));
        assert_eq!(sent(millisecond), Ok(Mode::AlignedFor(millisecond)));
    }

    #[test]
    fn every_combination_survives_the_wire() {
        let timeout = Duration::from_millis(u64::MAX);
        for kind in [Kind::Checkpoint, Kind::Savepoint] {
            for then in [Then::Continue, Then::Suspend, Then::Drain] {
                for mode in [Mode::Aligned, Mode::AlignedFor(timeout), Mode::Unaligned] {
                    let barrier = Barrier {
                        kind,
                        ..Barrier::checkpoint(CheckpointId::new(u64::MAX), Time::from_millis(7))
                            .then(then)
                    }
                    .with_mode(mode);
                    assert_eq!(Barrier::decode(&encoded(barrier)), Ok(barrier));
                }
            }
        }
    }
}
