//! The identifiers that every crate of the workspace shares.

use core::fmt;

/// Names one attempt to checkpoint a job. Larger is newer; an id is never reused, also not after a
/// failed attempt, so a late message of an old attempt is always recognisable.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CheckpointId(u64);

/// The fencing number of one execution attempt of a job. Larger is newer. It travels from the
/// coordinator through storage paths, state files and sink transactions, and is checked at each
/// boundary: whoever holds an older one has been replaced and must stop.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Generation(u64);

macro_rules! raw {
    ($name:ident) => {
        impl $name {
            /// Wraps a raw number, for example one read from a wire format.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw number, for example to write it to a wire format.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The one after this.
            ///
            /// # Panics
            ///
            /// After `u64::MAX`, which no job reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

raw!(CheckpointId);
raw!(Generation);
