//! Futures that somebody polls, step by step.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Something under way in a process. Dropped, it has crashed.
pub(crate) struct Doing<T>(Pin<Box<dyn Future<Output = T>>>);

impl<T> Doing<T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Goes on to the next step; what came of it, if it was the last.
    pub(crate) fn step(&mut self) -> Option<T> {
        match self
            .0
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

impl<T> fmt::Debug for Doing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doing").finish_non_exhaustive()
    }
}

/// Runs what takes no step to its end.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("what needs no step takes none"),
    }
}
