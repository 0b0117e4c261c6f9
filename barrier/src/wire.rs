//! The bytes of a barrier between processes.
//!
//! ```text
//!   0        1      2      3      4                12                20
//!   | version| kind | mode | then | checkpoint u64 | triggered_at u64|
//! ```
//!
//! Integers are little-endian; `triggered_at` is in nanoseconds. A later version may append to the
//! end, with another version byte; version 1 keeps decoding (the golden bytes are in the tests below).

use alloc::vec::Vec;
use core::{error, fmt, time::Duration};

use crate::{Barrier, CheckpointId, Kind, Mode, Then, Time};

const VERSION: u8 = 1;
const LENGTH: usize = 20;

impl Barrier {
    /// Appends the wire form, version 1, to `into`.
    ///
    /// A trigger time past the year 2554 (counted from 1970) is written as the largest possible.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Checkpoint => 0,
            Kind::Savepoint => 1,
        };
        let mode = match self.mode {
            Mode::Aligned => 0,
        };
        let then = match self.then {
            Then::Continue => 0,
            Then::Suspend => 1,
            Then::Drain => 2,
        };
        let nanos = u64::try_from(self.triggered_at.since_start().as_nanos()).unwrap_or(u64::MAX);
        into.extend_from_slice(&[VERSION, kind, mode, then]);
        into.extend_from_slice(&self.checkpoint.get().to_le_bytes());
        into.extend_from_slice(&nanos.to_le_bytes());
    }

    /// Reads the wire form of exactly one barrier.
    ///
    /// # Errors
    ///
    /// When `bytes` are not what [`encode`](Self::encode) of this or an earlier release wrote. There
    /// is no guessing: a barrier that is understood by halves would cut in the wrong place.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let Some((&version, _)) = bytes.split_first() else {
            return Err(WireError::Length { length: 0 });
        };
        if version != VERSION {
            return Err(WireError::Version { version });
        }
        let &[_, kind, mode, then, ref numbers @ ..] = bytes else {
            return Err(WireError::Length {
                length: bytes.len(),
            });
        };
        let length = bytes.len();
        let (&checkpoint, nanos) = numbers
            .split_first_chunk::<8>()
            .ok_or(WireError::Length { length })?;
        let nanos: [u8; 8] = nanos.try_into().map_err(|_| WireError::Length { length })?;
        Ok(Self {
            checkpoint: CheckpointId::new(u64::from_le_bytes(checkpoint)),
            kind: match kind {
                0 => Kind::Checkpoint,
                1 => Kind::Savepoint,
                tag => return Err(WireError::Tag { offset: 1, tag }),
            },
            mode: match mode {
                0 => Mode::Aligned,
                tag => return Err(WireError::Tag { offset: 2, tag }),
            },
            then: match then {
                0 => Then::Continue,
                1 => Then::Suspend,
                2 => Then::Drain,
                tag => return Err(WireError::Tag { offset: 3, tag }),
            },
            triggered_at: Time::new(Duration::from_nanos(u64::from_le_bytes(nanos))),
        })
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
                    "a barrier of version {VERSION} has {LENGTH} bytes, not {length}"
                )
            }
            Self::Tag { offset, tag } => {
                write!(
                    f,
                    "byte {offset} of the barrier is {tag}, which means nothing in version {VERSION}"
                )
            }
            Self::Version { version } => {
                write!(
                    f,
                    "the barrier has version {version}, this release reads {VERSION}: update the reader first"
                )
            }
        }
    }
}

impl error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [(Barrier, [u8; LENGTH]); 2] = [
        (
            Barrier::checkpoint(CheckpointId::new(42), Time::from_millis(1_000)),
            [
                1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0x00, 0xca, 0x9a, 0x3b, 0, 0, 0, 0,
            ],
        ),
        (
            Barrier::savepoint(CheckpointId::new(0x0102_0304_0506_0708), Time::ZERO)
                .then(Then::Drain),
            [1, 1, 0, 2, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];

    #[test]
    fn version_1_reads_and_writes_its_golden_bytes() {
        for (barrier, golden) in GOLDEN {
            let mut bytes = Vec::new();
            barrier.encode(&mut bytes);
            assert_eq!(bytes, golden);
            assert_eq!(Barrier::decode(&golden), Ok(barrier));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let (_, golden) = GOLDEN[1];
        for length in 0..LENGTH {
            let cut = Barrier::decode(&golden[..length]);
            assert_eq!(cut, Err(WireError::Length { length }));
        }
        let longer = [&golden[..], &[0]].concat();
        assert_eq!(
            Barrier::decode(&longer),
            Err(WireError::Length { length: 21 })
        );
        for offset in 1..=3 {
            let mut bytes = golden;
            bytes[offset] = 9;
            assert_eq!(
                Barrier::decode(&bytes),
                Err(WireError::Tag { offset, tag: 9 })
            );
        }
        let mut newer = golden;
        newer[0] = 2;
        assert_eq!(
            Barrier::decode(&newer),
            Err(WireError::Version { version: 2 })
        );
    }

    #[test]
    fn every_combination_survives_the_wire() {
        for kind in [Kind::Checkpoint, Kind::Savepoint] {
            for then in [Then::Continue, Then::Suspend, Then::Drain] {
                let barrier = Barrier {
                    kind,
                    ..Barrier::checkpoint(CheckpointId::new(u64::MAX), Time::from_millis(7))
                        .then(then)
                };
                let mut bytes = Vec::new();
                barrier.encode(&mut bytes);
                assert_eq!(Barrier::decode(&bytes), Ok(barrier));
            }
        }
    }
}
