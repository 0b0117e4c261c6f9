//! A store each call of which is one step of the schedule, and futures that somebody polls.

use std::{
    fmt,
    future::poll_fn,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use cutwater_storage::{
    Blobs, Create, Listed, Result, Upload,
    testkit::{FaultyBlobs, FaultyUpload, MemoryBlobs},
};

/// Waits for one more poll. Whoever is not polled again has crashed here.
pub(crate) async fn step() {
    let mut polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            Poll::Ready(())
        } else {
            context.waker().wake_by_ref(); // An executor may go on at once; a schedule decides when.
            Poll::Pending
        }
    })
    .await;
}

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

/// The store of the simulation: in memory, with faults, and stopped before every call that others can
/// notice or that notices others.
#[derive(Clone, Debug)]
pub(crate) struct Stepped(pub(crate) FaultyBlobs<MemoryBlobs>);

impl Blobs for Stepped {
    type Upload = SteppedUpload;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        step().await;
        self.0.get(path).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        step().await;
        self.0.get_range(path, range).await
    }

    async fn upload(&self, path: &str) -> Result<SteppedUpload> {
        Ok(SteppedUpload(self.0.upload(path).await?))
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        step().await;
        self.0.sync(prefix).await
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        step().await;
        self.0.create(path, bytes).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        step().await;
        self.0.delete(path).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        step().await;
        self.0.list(prefix).await
    }

    async fn sweep(&self) -> Result<()> {
        self.0.sweep().await
    }
}

#[derive(Debug)]
pub(crate) struct SteppedUpload(FaultyUpload<MemoryBlobs>);

impl Upload for SteppedUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.0.write(chunk).await
    }

    async fn finish(self) -> Result<()> {
        step().await;
        self.0.finish().await
    }
}
