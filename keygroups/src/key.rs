//! What a job may partition by: a stable hash and an order-preserving codec.
//!
//! | type | hashed | encoded |
//! |---|---|---|
//! | `u8`…`u64`, `i8`…`i64`, `bool`, `char` | the value widened to 64 bits (with its sign), little-endian | big-endian in its own width, sign bit flipped |
//! | `u128`, `i128` | 16 bytes, little-endian | big-endian, sign bit flipped |
//! | `String`, `Box<str>`, `Arc<str>` | its UTF-8 bytes | the bytes, `00` as `00 FF`, then `00 01` |
//! | `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>` | its bytes | likewise |
//! | `[u8; N]` | its bytes | as it is |
//! | `()` | no bytes | no bytes |
//! | tuples of 2 to 4, [`key!`](crate::key!) types | [`KeyHash::then`] over the parts | the parts one after the other |
//! | [`Flink<T>`](crate::Flink) | see there | as `T` |
//!
//! So a key column may be widened (`i32` to `i64`) and every key keeps its group. Widening to 128
//! bits, or making a number a string, moves keys. `usize` is no key: its width is the platform's.

mod bytes;
mod compound;
mod number;

use alloc::{string::String, vec::Vec};
use core::fmt;

#[doc(hidden)]
pub use self::compound::{__grouping_of, __schema, __schema_of};
use crate::{Grouping, KeyHash};

/// A key: equal keys have equal hashes on every platform, in every process, in every release.
///
/// Never built on `std::hash::Hash`, whose results may change between compilers. For a type of
/// your own see [`key!`](crate::key!). Whoever implements it by hand promises:
///
/// - `a == b` exactly when `a` and `b` encode to the same bytes, and then their hashes are equal;
/// - `a < b` exactly when the bytes of `a` come before those of `b`;
/// - no encoding is the beginning of another, so that `decode` finds the end by itself;
/// - hash and encoding depend on the value alone: no address, no random order, no platform width.
pub trait Key: Clone + Eq + Ord + Send + Sync + fmt::Debug + 'static {
    /// How the hash picks the key group. Recorded in the checkpoint.
    const GROUPING: Grouping;

    /// The stable hash. Computed once, at the key-by; it travels with the record.
    fn key_hash(&self) -> KeyHash;

    /// Appends the bytes that stand for this key; their order is the order of keys.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes one key from the front of `bytes`.
    ///
    /// # Errors
    ///
    /// If the front of `bytes` is not what [`encode`](Self::encode) wrote.
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;

    /// What the encoding looks like, such as `(string, u64)`: equal for two types exactly when either
    /// decodes what the other encoded, to mean the same. Recorded in snapshots and compared on restore.
    fn schema() -> String;
}

/// How bytes fail to be an encoded key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// They end before the key does.
    Truncated,
    /// A `00` byte is followed by neither `FF` nor `01`.
    Escape,
    /// The text is not UTF-8.
    Utf8,
    /// The number is not one of the type's, such as 2 for a `bool`.
    Value,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the encoded key is cut short",
            Self::Escape => "the encoded key has an unknown escape",
            Self::Utf8 => "the encoded key is not UTF-8",
            Self::Value => "the encoded key is not a value of its type",
        })
    }
}

impl core::error::Error for DecodeError {}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}
