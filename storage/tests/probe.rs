//! A store that cannot keep two processes apart is found when it is opened (CASES B48).

use std::{future::poll_fn, ops::Range, task::Poll};

use bytes::Bytes;
use cutwater_storage::{
    Blobs, Create, ErrorKind, Listed, Result, probe,
    testkit::{MemoryBlobs, MemoryUpload},
};
use futures::executor::block_on;

/// Looks first and writes then, as several stores and OpenDAL's `fs` do.
#[derive(Default)]
struct LooksFirst {
    inner: MemoryBlobs,
    /// Whether others get their turn in between.
    yields: bool,
    /// Whether it looks at all.
    blind: bool,
}

impl Blobs for LooksFirst {
    type Upload = MemoryUpload;

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        let there = self.inner.get(path).await?;
        let mut polled = !self.yields;
        poll_fn(|context| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        match there {
            Some(there) if !self.blind => Ok(Create::Exists(there)),
            _ => {
                self.inner.overwrite(path, bytes);
                Ok(Create::Created)
            }
        }
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.inner.get(path).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.inner.get_range(path, range).await
    }

    async fn upload(&self, path: &str) -> Result<MemoryUpload> {
        self.inner.upload(path).await
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        self.inner.sync(prefix).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.inner.delete(path).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.inner.list(prefix).await
    }

    async fn sweep(&self) -> Result<()> {
        self.inner.sweep().await
    }
}

#[track_caller]
fn is_refused(blobs: &LooksFirst, because: &str) {
    let error = block_on(probe(blobs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(because), "{error}");
}

#[test]
fn an_honest_store_passes_and_nothing_is_left() {
    let blobs = LooksFirst::default();
    block_on(probe(&blobs)).unwrap();
    assert_eq!(block_on(blobs.list("")).unwrap(), []);
}

/// B48: the condition is ignored.
#[test]
fn a_store_that_overwrites_is_refused() {
    let blobs = LooksFirst {
        blind: true,
        ..LooksFirst::default()
    };
    is_refused(&blobs, "created twice");
}

/// B48: the condition is checked, and then the object is written.
#[test]
fn a_store_whose_races_have_several_winners_is_refused() {
    let blobs = LooksFirst {
        yields: true,
        ..LooksFirst::default()
    };
    is_refused(&blobs, "16 winners");
}
