//! Numbers, `bool` and `char` as keys.

use alloc::{borrow::ToOwned, string::String, vec::Vec};

use super::{DecodeError, Key, take};
use crate::{Grouping, KeyHash};

/// Flipping the sign bit makes the big-endian bytes of a signed number sort as the number does.
macro_rules! integer_key {
    ($($integer:ty, flip $flip:expr, hash $hash:expr;)+) => {$(
        impl Key for $integer {
            const GROUPING: Grouping = Grouping::Xxh64;

            #[inline]
            fn key_hash(&self) -> KeyHash {
                $hash(*self)
            }

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }

            #[inline]
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(take(bytes)?) ^ $flip)
            }

            fn schema() -> String {
                stringify!($integer).to_owned()
            }
        }
    )+};
}

integer_key! {
    u8, flip 0, hash unsigned;
    u16, flip 0, hash unsigned;
    u32, flip 0, hash unsigned;
    u64, flip 0, hash unsigned;
    i8, flip Self::MIN, hash signed;
    i16, flip Self::MIN, hash signed;
    i32, flip Self::MIN, hash signed;
    i64, flip Self::MIN, hash signed;
    u128, flip 0, hash |n: Self| KeyHash::of_bytes(&n.to_le_bytes());
    i128, flip Self::MIN, hash |n: Self| KeyHash::of_bytes(&n.to_le_bytes());
}

#[inline]
fn unsigned(number: impl Into<u64>) -> KeyHash {
    KeyHash::of_u64(number.into())
}

#[inline]
fn signed(number: impl Into<i64>) -> KeyHash {
    KeyHash::of_u64(number.into().cast_unsigned())
}

impl Key for bool {
    const GROUPING: Grouping = Grouping::Xxh64;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        unsigned(*self)
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        u8::from(*self).encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Value),
        }
    }

    fn schema() -> String {
        "bool".to_owned()
    }
}

impl Key for char {
    const GROUPING: Grouping = Grouping::Xxh64;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        unsigned(*self)
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Self::from_u32(u32::decode(bytes)?).ok_or(DecodeError::Value)
    }

    fn schema() -> String {
        "char".to_owned()
    }
}
