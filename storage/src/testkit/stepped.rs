//! A store each call of which is one step of a schedule.

use std::{future::poll_fn, ops::Range, task::Poll};

use bytes::Bytes;

use crate::{Blobs, Create, Listed, Result, Upload};

/// Waits for one more poll. Whoever is not polled again has crashed here.
pub async fn step() {
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

/// A store that takes a [`step`] before every call that others can notice or that notices others: who
/// polls its users by hand decides in which order their calls take effect.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Stepped<B>(pub B);

impl<B: Blobs> Blobs for Stepped<B> {
    type Upload = SteppedUpload<B::Upload>;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        step().await;
        self.0.get(path).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        step().await;
        self.0.get_range(path, range).await
    }

    async fn upload(&self, path: &str) -> Result<Self::Upload> {
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

/// An upload to a [`Stepped`] store: one step, when it is finished.
#[derive(Debug)]
pub struct SteppedUpload<U>(U);

impl<U: Upload> Upload for SteppedUpload<U> {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.0.write(chunk).await
    }

    async fn finish(self) -> Result<()> {
        step().await;
        self.0.finish().await
    }
}
