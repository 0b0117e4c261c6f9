//! The stable hash of a key: XXH64 with seed 0.
//!
//! Written out here, so that the crate has no dependency and a key's group cannot change with
//! somebody else's release. Everything is `const` and free of platform-dependent widths; the tests
//! compare it with an independent implementation.

use core::fmt;

// The five primes of the XXH64 specification.
const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

/// A key's 64-bit hash. Key groups use its upper half, hash tables its lower half.
///
/// The halves are independent, so the keys of one group still spread over a whole table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a newtype: the 64 bits are all there is to it"
)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// XXH64 (seed 0) of the eight little-endian bytes of `word`, without a loop or a branch.
    ///
    /// This is what an integer key costs per record. It equals
    /// [`of_bytes(&word.to_le_bytes())`](Self::of_bytes).
    #[inline]
    pub const fn of_u64(word: u64) -> Self {
        Self(avalanche(absorb_word(P5.wrapping_add(8), word)))
    }

    /// XXH64 (seed 0) of `bytes`.
    pub const fn of_bytes(bytes: &[u8]) -> Self {
        Self(xxh64(bytes))
    }

    /// The hash of a key of several parts: `first.then(second).then(third)`.
    ///
    /// XXH64 (seed 0) of both hashes, little-endian, this one first. The order of parts matters.
    #[inline]
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let hash = absorb_word(P5.wrapping_add(16), self.0);
        Self(avalanche(absorb_word(hash, next.0)))
    }

    /// The half that picks the key group.
    #[inline]
    pub const fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The half that picks the slot in a hash table.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub const fn lower(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

const fn xxh64(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut hash = P5;
    if let Some((mut stripe, mut after)) = rest.split_first_chunk::<32>() {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        loop {
            let mut lane = 0;
            while lane < 4 {
                lanes[lane] = round(lanes[lane], word_at(stripe, lane * 8));
                lane += 1;
            }
            rest = after;
            let Some((next, beyond)) = after.split_first_chunk::<32>() else {
                break;
            };
            (stripe, after) = (next, beyond);
        }
        hash = lanes[0]
            .rotate_left(1)
            .wrapping_add(lanes[1].rotate_left(7))
            .wrapping_add(lanes[2].rotate_left(12))
            .wrapping_add(lanes[3].rotate_left(18));
        let mut lane = 0;
        while lane < 4 {
            hash = (hash ^ round(0, lanes[lane]))
                .wrapping_mul(P1)
                .wrapping_add(P4);
            lane += 1;
        }
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = absorb_word(hash, u64::from_le_bytes(*word));
        rest = after;
    }
    if let Some((half, after)) = rest.split_first_chunk::<4>() {
        let half = u32::from_le_bytes(*half) as u64;
        hash = (hash ^ half.wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        rest = after;
    }
    while let Some((byte, after)) = rest.split_first() {
        hash = (hash ^ (*byte as u64).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
        rest = after;
    }
    avalanche(hash)
}

const fn word_at(stripe: &[u8; 32], at: usize) -> u64 {
    let (_, from) = stripe.split_at(at);
    u64::from_le_bytes(*from.first_chunk().expect("a lane of the stripe"))
}

#[inline]
const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2))
        .rotate_left(31)
        .wrapping_mul(P1)
}

#[inline]
const fn absorb_word(hash: u64, word: u64) -> u64 {
    (hash ^ round(0, word))
        .rotate_left(27)
        .wrapping_mul(P1)
        .wrapping_add(P4)
}

/// Lets every input bit reach every output bit.
#[inline]
const fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use xxhash_rust::xxh64::xxh64 as reference;

    use super::KeyHash;

    #[test]
    fn equals_an_independent_xxh64_at_every_length() {
        let bytes: Vec<u8> = (0..300u32)
            .map(|i| (i * 151 + 7).to_le_bytes()[0])
            .collect();
        for length in 0..=bytes.len() {
            for start in 0..3.min(bytes.len() - length + 1) {
                let input = &bytes[start..start + length];
                assert_eq!(
                    KeyHash::of_bytes(input).0,
                    reference(input, 0),
                    "{length} bytes"
                );
            }
        }
    }

    #[test]
    fn the_short_paths_equal_the_long_one() {
        let mut word = 1u64;
        for _ in 0..10_000 {
            assert_eq!(KeyHash::of_u64(word).0, reference(&word.to_le_bytes(), 0));
            let both = [word.to_le_bytes(), (!word).to_le_bytes()].concat();
            assert_eq!(KeyHash(word).then(KeyHash(!word)).0, reference(&both, 0));
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
    }
}
