//! The small copyable token that stands for a declared state.

use std::{fmt, marker::PhantomData};

/// Names a declared state of type `S`, in the registry that it came from.
///
/// A handle used with another registry panics, or means the state of the same type and number there.
pub struct Handle<S> {
    number: usize,
    state: PhantomData<fn() -> S>,
}

impl<S> Handle<S> {
    pub(crate) const fn new(number: usize) -> Self {
        Self {
            number,
            state: PhantomData,
        }
    }

    pub(crate) const fn number(self) -> usize {
        self.number
    }
}

// Not derived: that would ask for a `Copy` state.
impl<S> Copy for Handle<S> {}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.number).finish()
    }
}
