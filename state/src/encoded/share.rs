//! One memory budget for the row caches of a process, in equal parts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What a row costs beside itself: its place in an index, and blocks that are not full.
const fn cost(entry: usize) -> u64 {
    let entry = entry as u64;
    entry + entry / 2 + 9
}

/// Bytes for all row caches together.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    caches: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            caches: AtomicU64::new(0),
        })
    }
}

/// One cache's part of the budget, which gets smaller when there are more.
#[derive(Debug)]
pub(crate) struct Share(Arc<Budget>);

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Self {
        budget.caches.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(budget))
    }

    /// How many rows fit, if each takes `entry` bytes in a table and `owned` elsewhere. At least one.
    #[inline]
    pub(crate) fn rows_max(&self, entry: usize, owned: u64) -> usize {
        let bytes = self.0.bytes / self.0.caches.load(Ordering::Relaxed);
        let rows = (bytes / (cost(entry) + owned)).max(1);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.caches.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Share};

    #[test]
    fn caches_have_equal_parts() {
        let budget = Budget::new(100_000);
        let first = Share::of(&budget);
        assert_eq!(first.rows_max(16, 0), 100_000 / 33);
        let second = Share::of(&budget);
        assert_eq!(first.rows_max(16, 0), 50_000 / 33);
        assert_eq!(first.rows_max(16, 67), 500);
        drop(first);
        assert_eq!(second.rows_max(16, 0), 100_000 / 33);
        assert_eq!(second.rows_max(1 << 20, 0), 1);
    }
}
