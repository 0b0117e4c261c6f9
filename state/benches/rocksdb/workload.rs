//! Which keys the records have.

/// Draws keys.
pub(crate) struct Draw {
    random: u64,
    keys: u64,
    skew: Option<f64>,
}

impl Draw {
    /// Each key as often as any other.
    pub(crate) fn uniform(keys: u64) -> Self {
        Self {
            random: 0x9e37_79b9_7f4a_7c15,
            keys,
            skew: None,
        }
    }

    /// The n-th most frequent key has a share in proportion to `1 / n^skew`.
    pub(crate) fn zipf(keys: u64, skew: f64) -> Self {
        Self {
            skew: Some(skew),
            ..Self::uniform(keys)
        }
    }

    pub(crate) fn key(&mut self) -> u64 {
        let random = self.random();
        let Some(skew) = self.skew else {
            return random % self.keys;
        };
        // By the inverse of the shares' integral.
        let unit = random as f64 / u64::MAX as f64;
        let power = 1.0 - skew;
        let rank = (1.0 - unit * (1.0 - (self.keys as f64).powf(power))).powf(1.0 / power) as u64;
        // Spread over the key space, as frequent keys are not neighbours.
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.keys
    }

    /// Any number.
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
