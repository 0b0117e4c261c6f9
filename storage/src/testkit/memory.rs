//! Blobs in memory, on a disk whose power can be cut.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};

use crate::{Blobs, Create, Listed, Result, Upload, path};

/// Blobs in memory. Clones see the same blobs, as two processes see the same store.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    blobs: Arc<Mutex<BTreeMap<String, Blob>>>,
}

#[derive(Clone, Debug)]
struct Blob {
    bytes: Bytes,
    durable: bool,
}

impl MemoryBlobs {
    /// No blobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the blobs that no [`sync`](Blobs::sync) made durable.
    pub fn cut_power(&self) {
        self.lock().retain(|_, blob| blob.durable);
    }

    /// Replaces the bytes of a blob, as a failing disk would.
    pub fn overwrite(&self, path: &str, bytes: impl Into<Bytes>) {
        let blob = Blob {
            bytes: bytes.into(),
            durable: true,
        };
        self.lock().insert(path.to_owned(), blob);
    }

    /// What there is now, apart from this.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            blobs: Arc::new(Mutex::new(self.lock().clone())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Blob>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blobs for MemoryBlobs {
    type Upload = MemoryUpload;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        path::check(path)?;
        Ok(self.lock().get(path).map(|blob| blob.bytes.clone()))
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        path::check(path)?;
        Ok(self.lock().get(path).map(|blob| {
            let inside = |at: u64| {
                usize::try_from(at)
                    .unwrap_or(usize::MAX)
                    .min(blob.bytes.len())
            };
            let end = inside(range.end);
            blob.bytes.slice(inside(range.start).min(end)..end)
        }))
    }

    async fn upload(&self, path: &str) -> Result<MemoryUpload> {
        path::check(path)?;
        Ok(MemoryUpload {
            blobs: self.clone(),
            path: path.to_owned(),
            bytes: BytesMut::new(),
        })
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        for (path, blob) in self.lock().iter_mut() {
            blob.durable |= path.starts_with(prefix);
        }
        Ok(())
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        path::check(path)?;
        let mut blobs = self.lock();
        if let Some(there) = blobs.get(path) {
            return Ok(Create::Exists(there.bytes.clone()));
        }
        let durable = true;
        blobs.insert(path.to_owned(), Blob { bytes, durable });
        Ok(Create::Created)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        path::check(path)?;
        self.lock().remove(path);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let blobs = self.lock();
        let found = blobs.iter().filter(|(path, _)| path.starts_with(prefix));
        let listed = found.map(|(path, blob)| Listed {
            path: path.clone(),
            bytes: blob.bytes.len() as u64,
        });
        Ok(listed.collect())
    }

    async fn sweep(&self) -> Result<()> {
        Ok(())
    }
}

/// An upload to [`MemoryBlobs`].
#[derive(Debug)]
pub struct MemoryUpload {
    blobs: MemoryBlobs,
    path: String,
    bytes: BytesMut,
}

impl Upload for MemoryUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&chunk);
        Ok(())
    }

    async fn finish(self) -> Result<()> {
        let blob = Blob {
            bytes: self.bytes.freeze(),
            durable: false,
        };
        self.blobs.lock().insert(self.path, blob);
        Ok(())
    }
}
