//! Which keys the records of a window have.

/// Keys of a workload.
pub(crate) trait Draw {
    fn draw(&mut self) -> u64;
}

pub(crate) struct Uniform {
    random: u64,
    keys: u64,
}

impl Uniform {
    pub(crate) fn new(keys: u64) -> Self {
        Self {
            random: 0x9e37_79b9_7f4a_7c15,
            keys,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Draw for Uniform {
    fn draw(&mut self) -> u64 {
        self.next() % self.keys
    }
}

/// The n-th most frequent key has a share in proportion to `1 / n^skew`: drawn by the inverse of the integral of that.
pub(crate) struct Zipf {
    uniform: Uniform,
    skew: f64,
}

impl Zipf {
    pub(crate) fn new(keys: u64, skew: f64) -> Self {
        Self {
            uniform: Uniform::new(keys),
            skew,
        }
    }
}

impl Draw for Zipf {
    fn draw(&mut self) -> u64 {
        let keys = self.uniform.keys;
        let unit = self.uniform.next() as f64 / u64::MAX as f64;
        let power = 1.0 - self.skew;
        let rank = (1.0 - unit * (1.0 - (keys as f64).powf(power))).powf(1.0 / power) as u64;
        // Spread over the key space, as frequent keys are not neighbours.
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys
    }
}
