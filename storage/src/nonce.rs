//! Numbers that two processes do not draw alike.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use xxhash_rust::xxh64::xxh64;

/// Draws nonces. Clones draw from one sequence. From a seed it draws the same ones every time.
#[derive(Clone, Debug)]
pub(crate) struct Nonces {
    seed: u64,
    drawn: Arc<AtomicU64>,
}

impl Nonces {
    /// With a seed from the operating system's randomness, by way of the standard library.
    pub(crate) fn random() -> Self {
        Self::from_seed(RandomState::new().hash_one(std::process::id()))
    }

    /// The sequence that belongs to `seed`.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self {
            seed,
            drawn: Arc::default(),
        }
    }

    /// The next one.
    pub(crate) fn draw(&self) -> u64 {
        let turn = self.drawn.fetch_add(1, Ordering::Relaxed);
        xxh64(&turn.to_le_bytes(), self.seed)
    }
}
