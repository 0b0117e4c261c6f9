//! A store each call of which is one step of a schedule.

use std::{
    future::poll_fn,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use cutwater_storage::{
    Blobs, Create, Listed, Result, Upload,
    testkit::{MemoryBlobs, MemoryUpload},
};

/// Waits for one more poll before every call that others can notice or that notices others.
#[derive(Clone, Debug)]
pub(crate) struct Stepped(pub(crate) MemoryBlobs);

async fn step() {
    let mut polled = false;
    poll_fn(|_| {
        if std::mem::replace(&mut polled, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

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

pub(crate) struct SteppedUpload(MemoryUpload);

impl Upload for SteppedUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.0.write(chunk).await
    }

    async fn finish(self) -> Result<()> {
        step().await;
        self.0.finish().await
    }
}

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
