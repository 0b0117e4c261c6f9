//! Any [`Blobs`] behind one type.

use std::{fmt, future::Future, ops::Range, pin::Pin, sync::Arc};

use bytes::Bytes;

use crate::{Blobs, Create, Listed, Result, Upload};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Any [`Blobs`], shared. Cloning is cheap; all clones are one handle.
#[derive(Clone)]
pub struct SharedBlobs(Arc<dyn ErasedBlobs>);

impl SharedBlobs {
    /// Shares `blobs`.
    pub fn new(blobs: impl Blobs) -> Self {
        Self(Arc::new(blobs))
    }
}

impl fmt::Debug for SharedBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBlobs").finish_non_exhaustive()
    }
}

/// An [`Upload`] of a [`SharedBlobs`].
pub struct SharedUpload(Box<dyn ErasedUpload>);

impl fmt::Debug for SharedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedUpload").finish_non_exhaustive()
    }
}

impl Blobs for SharedBlobs {
    type Upload = SharedUpload;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.0.get(path).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.0.get_range(path, range).await
    }

    async fn upload(&self, path: &str) -> Result<SharedUpload> {
        self.0.upload(path).await
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        self.0.sync(prefix).await
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        self.0.create(path, bytes).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.0.delete(path).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.0.list(prefix).await
    }

    async fn sweep(&self) -> Result<()> {
        self.0.sweep().await
    }
}

impl Upload for SharedUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.0.write(chunk).await
    }

    async fn finish(self) -> Result<()> {
        self.0.finish().await
    }
}

/// [`Blobs`] in the form that `dyn` needs: one allocation a call, next to an I/O each.
trait ErasedBlobs: Send + Sync {
    fn get<'a>(&'a self, path: &'a str) -> Boxed<'a, Option<Bytes>>;
    fn get_range<'a>(&'a self, path: &'a str, range: Range<u64>) -> Boxed<'a, Option<Bytes>>;
    fn upload<'a>(&'a self, path: &'a str) -> Boxed<'a, SharedUpload>;
    fn sync<'a>(&'a self, prefix: &'a str) -> Boxed<'a, ()>;
    fn create<'a>(&'a self, path: &'a str, bytes: Bytes) -> Boxed<'a, Create>;
    fn delete<'a>(&'a self, path: &'a str) -> Boxed<'a, ()>;
    fn list<'a>(&'a self, prefix: &'a str) -> Boxed<'a, Vec<Listed>>;
    fn sweep(&self) -> Boxed<'_, ()>;
}

impl<B: Blobs> ErasedBlobs for B {
    fn get<'a>(&'a self, path: &'a str) -> Boxed<'a, Option<Bytes>> {
        Box::pin(Blobs::get(self, path))
    }

    fn get_range<'a>(&'a self, path: &'a str, range: Range<u64>) -> Boxed<'a, Option<Bytes>> {
        Box::pin(Blobs::get_range(self, path, range))
    }

    fn upload<'a>(&'a self, path: &'a str) -> Boxed<'a, SharedUpload> {
        Box::pin(async move {
            let upload = Blobs::upload(self, path).await?;
            Ok(SharedUpload(Box::new(upload)))
        })
    }

    fn sync<'a>(&'a self, prefix: &'a str) -> Boxed<'a, ()> {
        Box::pin(Blobs::sync(self, prefix))
    }

    fn create<'a>(&'a self, path: &'a str, bytes: Bytes) -> Boxed<'a, Create> {
        Box::pin(Blobs::create(self, path, bytes))
    }

    fn delete<'a>(&'a self, path: &'a str) -> Boxed<'a, ()> {
        Box::pin(Blobs::delete(self, path))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Boxed<'a, Vec<Listed>> {
        Box::pin(Blobs::list(self, prefix))
    }

    fn sweep(&self) -> Boxed<'_, ()> {
        Box::pin(Blobs::sweep(self))
    }
}

trait ErasedUpload: Send {
    fn write(&mut self, chunk: Bytes) -> Boxed<'_, ()>;
    fn finish(self: Box<Self>) -> Boxed<'static, ()>;
}

impl<U: Upload> ErasedUpload for U {
    fn write(&mut self, chunk: Bytes) -> Boxed<'_, ()> {
        Box::pin(Upload::write(self, chunk))
    }

    fn finish(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(Upload::finish(*self))
    }
}
