//! A row in the cache: a value or the knowledge that there is none, and what became of it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers the flushes of one cache, from 1. A row that was written during `n` is in the backend once
/// flush `n` has been ingested.
pub(crate) type Epoch = u32;

/// A row as the cache keeps it.
#[derive(Debug)]
pub(crate) struct Row<S> {
    /// `None`: there is no such row, or there will be none.
    pub(crate) value: Option<S>,
    /// When it was last written; 0 if it is as it was read.
    written: Epoch,
    /// Whether it was accessed since the sweep last came by. Set by reads too, which must not count as
    /// writes to the table's block, so through a shared reference.
    is_referenced: AtomicBool,
}

impl<S> Row<S> {
    /// As it was read from the backend.
    pub(crate) fn clean(value: Option<S>) -> Self {
        Self::written(value, 0)
    }

    pub(crate) fn written(value: Option<S>, epoch: Epoch) -> Self {
        Self {
            value,
            written: epoch,
            is_referenced: AtomicBool::new(true),
        }
    }

    /// Before each access that may write.
    #[inline]
    pub(crate) fn write(&mut self, epoch: Epoch) -> &mut Option<S> {
        self.written = epoch;
        *self.is_referenced.get_mut() = true;
        &mut self.value
    }

    /// Lends the value to change, set or clear. To leave a row that is not there as it is, is no write.
    #[inline]
    pub(crate) fn lend<R>(&mut self, epoch: Epoch, f: impl FnOnce(&mut Option<S>) -> R) -> R {
        let before = (self.value.is_none(), self.written);
        // Written before `f`, which may panic and leave something there.
        let result = f(self.write(epoch));
        if let (true, written) = before
            && self.value.is_none()
        {
            self.written = written;
        }
        result
    }

    /// Whether it was written after the flush `ingested`, and so is here only.
    #[inline]
    pub(crate) fn is_dirty(&self, ingested: Epoch) -> bool {
        self.written > ingested
    }

    /// Notes an access.
    #[inline]
    pub(crate) fn touch(&self) {
        // Most rows that are hit are hit again before the sweep: no write then.
        if !self.is_referenced.load(Ordering::Relaxed) {
            self.is_referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets accesses; whether there was one.
    pub(crate) fn untouch(&self) -> bool {
        self.is_referenced.swap(false, Ordering::Relaxed)
    }
}

impl<S: Clone> Clone for Row<S> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            written: self.written,
            is_referenced: AtomicBool::new(false),
        }
    }
}
