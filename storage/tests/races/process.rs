//! Futures that a schedule polls, one step after the other.

use std::{
    pin::Pin,
    task::{Context, Waker},
};

/// A future that somebody else decides when to poll. Dropped, it has crashed.
pub(crate) struct Process(Option<Pin<Box<dyn Future<Output = ()>>>>);

impl Process {
    pub(crate) fn new(future: impl Future<Output = ()> + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Runs up to the next call to the store.
    pub(crate) fn step(&mut self) {
        let Some(future) = &mut self.0 else { return };
        if future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            self.0 = None;
        }
    }

    /// Runs to its end, which must come.
    pub(crate) fn finish(&mut self) {
        for _ in 0..100_000 {
            if !self.is_running() {
                return;
            }
            self.step();
        }
        panic!("a process does not come to its end");
    }

    pub(crate) fn crash(&mut self) {
        self.0 = None;
    }
}
