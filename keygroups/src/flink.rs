//! Keys that land in the groups in which Flink puts them.
//!
//! Flink takes the key object's `hashCode`, scrambles it with one step of MurmurHash3
//! (`MathUtils.murmurHash`) and takes the remainder (`KeyGroupRangeAssignment`). Java's `hashCode`
//! has 32 bits and many collisions ("Aa" and "BB"), which is enough for groups but not for a hash
//! table, so only the upper half of our hash comes from it.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use crate::{DecodeError, Grouping, Key, KeyHash};

/// A key grouped as Flink groups the corresponding Java object.
///
/// The upper half of its hash is Flink's murmur value, `0..=i32::MAX`; the lower half is that of
/// `T`'s own hash. It compares and encodes as `T`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a newtype: the key is all there is to it"
)]
pub struct Flink<T>(pub T);

impl<T: Key + JavaHash> Key for Flink<T> {
    const GROUPING: Grouping = Grouping::Flink;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        let murmur = flink_murmur(self.0.java_hash());
        KeyHash(u64::from(murmur) << 32 | u64::from(self.0.key_hash().lower()))
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        T::decode(bytes).map(Self)
    }

    fn schema() -> String {
        T::schema()
    }
}

/// What `hashCode` of the corresponding Java object returns.
pub trait JavaHash {
    /// Java's hash of the value. Differs from value to value, and never from run to run.
    fn java_hash(&self) -> i32;
}

/// `java.lang.Byte`, `Short` and `Integer`: the value itself.
macro_rules! small_integer_hash {
    ($($integer:ty),+) => {$(
        impl JavaHash for $integer {
            #[inline]
            fn java_hash(&self) -> i32 {
                i32::from(*self)
            }
        }
    )+};
}
small_integer_hash!(i8, i16, i32);

/// `java.lang.Long`: both halves, xored.
impl JavaHash for i64 {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as Java's (int) cast")]
    fn java_hash(&self) -> i32 {
        (*self ^ (*self >> 32)) as i32
    }
}

/// `java.lang.Boolean`: two primes.
impl JavaHash for bool {
    #[inline]
    fn java_hash(&self) -> i32 {
        if *self { 1231 } else { 1237 }
    }
}

/// `java.lang.String`: over its UTF-16 units.
impl JavaHash for str {
    fn java_hash(&self) -> i32 {
        self.encode_utf16()
            .fold(0, |hash, unit| step(hash, i32::from(unit)))
    }
}

/// `java.util.Arrays.hashCode(byte[])`, over signed bytes. A bare `byte[]` has no stable
/// `hashCode`, and Flink refuses it as a key; this is the hash of its content.
impl JavaHash for [u8] {
    fn java_hash(&self) -> i32 {
        self.iter()
            .fold(1, |hash, byte| step(hash, i32::from(byte.cast_signed())))
    }
}

macro_rules! forwarded_hash {
    ($($owner:ty),+) => {$(
        impl JavaHash for $owner {
            fn java_hash(&self) -> i32 {
                (**self).java_hash()
            }
        }
    )+};
}
forwarded_hash!(String, Box<str>, Arc<str>, Vec<u8>, Box<[u8]>, Arc<[u8]>);

/// Flink's `Tuple2`, `Tuple3` and `Tuple4`.
macro_rules! tuple_hash {
    ($($first:ident $(, $part:ident)+;)+) => {$(
        impl<$first: JavaHash $(, $part: JavaHash)+> JavaHash for ($first, $($part),+) {
            #[expect(non_snake_case, reason = "a part is called by its type")]
            fn java_hash(&self) -> i32 {
                let ($first, $($part),+) = self;
                let hash = $first.java_hash();
                $(let hash = step(hash, $part.java_hash());)+
                hash
            }
        }
    )+};
}
tuple_hash! {
    A, B;
    A, B, C;
    A, B, C, D;
}

/// The polynomial of all of Java's composite hashes.
#[inline]
const fn step(hash: i32, next: i32) -> i32 {
    hash.wrapping_mul(31).wrapping_add(next)
}

/// `MathUtils.murmurHash`: one 4-byte step of MurmurHash3 (32 bits, seed 0), made non-negative.
#[inline]
const fn flink_murmur(java_hash: i32) -> u32 {
    let hash = java_hash
        .cast_unsigned()
        .wrapping_mul(0xCC9E_2D51)
        .rotate_left(15);
    let hash = hash.wrapping_mul(0x1B87_3593).rotate_left(13);
    let hash = hash.wrapping_mul(5).wrapping_add(0xE654_6B64) ^ 4;
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    match (hash ^ (hash >> 16)).cast_signed() {
        i32::MIN => 0, // has no positive counterpart; Flink says 0
        hash => hash.unsigned_abs(),
    }
}
