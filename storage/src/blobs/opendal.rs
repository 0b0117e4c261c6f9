//! Blobs in whatever OpenDAL speaks to: S3 and what is like it, and many more.
//!
//! `create` is one conditional put (`If-None-Match: *` on S3), never a multipart upload: several stores
//! forget the condition there (CASES B48). Whether the store keeps the condition is not a question
//! of its capability flags either; [`open`](OpendalBlobs::open) tries it.

use std::ops::Range;

use bytes::Bytes;
use opendal::{EntryMode, ErrorKind as Kind, Operator};

use super::probe::probe;
use crate::{Blobs, Create, Error, ErrorKind, Listed, Result, Upload, path};

/// An upload goes out in parts of this size. S3 asks for at least 5 MiB, and for at most 10,000.
const PART_BYTES: usize = 8 << 20;

/// Blobs behind an OpenDAL operator. Cloning is cheap.
///
/// Retries, timeouts, limits and metrics are layers of the operator; they may be put on it as one
/// likes, as every call here may be repeated.
#[derive(Clone, Debug)]
pub struct OpendalBlobs {
    operator: Operator,
}

impl OpendalBlobs {
    /// Uses `operator`, after trying whether it can decide a race.
    ///
    /// # Errors
    ///
    /// `Unsupported` if it cannot, naming what failed. A store like that could let two processes
    /// complete one checkpoint. `Unsupported` also for OpenDAL's own `fs`, which shows half-written
    /// files and does not sync directories: use [`LocalBlobs`](crate::LocalBlobs).
    pub async fn open(operator: Operator) -> Result<Self> {
        let blobs = Self::read_only(operator);
        let scheme = blobs.operator.info().scheme().to_string();
        if scheme == "fs" {
            let reason =
                "is not durable and shows half-written files: use LocalBlobs for a local directory";
            return Err(Error::new(ErrorKind::Unsupported, scheme, reason));
        }
        probe(&blobs).await?;
        Ok(blobs)
    }

    /// Uses `operator` without trying anything, which would write. To read only: as a fence, it is
    /// not to be trusted.
    pub fn read_only(operator: Operator) -> Self {
        Self { operator }
    }
}

impl Blobs for OpendalBlobs {
    type Upload = OpendalUpload;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        path::check(path)?;
        match self.operator.read(path).await {
            Ok(bytes) => Ok(Some(bytes.to_bytes())),
            Err(e) if e.kind() == Kind::NotFound => Ok(None),
            Err(e) => Err(failed(path, "read", e)),
        }
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        path::check(path)?;
        let read = async |range| self.operator.read_with(path).range(range).await;
        let error = if range.is_empty() {
            None
        } else {
            match read(range.clone()).await {
                Ok(bytes) => return Ok(Some(bytes.to_bytes())),
                Err(e) if e.kind() == Kind::NotFound => return Ok(None),
                Err(e) => Some(e),
            }
        };
        // Stores answer a range beyond the end in many ways. Most calls are not, and need one trip.
        let length = match self.operator.stat(path).await {
            Ok(about) => about.content_length(),
            Err(e) if e.kind() == Kind::NotFound => return Ok(None),
            Err(e) => return Err(failed(path, "read", e)),
        };
        match error {
            Some(e) if range.end <= length => return Err(failed(path, "read", e)),
            _ if range.is_empty() || range.start >= length => return Ok(Some(Bytes::new())),
            _ => {}
        }
        let bytes = read(range.start..length)
            .await
            .map_err(|e| failed(path, "read", e))?;
        Ok(Some(bytes.to_bytes()))
    }

    async fn upload(&self, path: &str) -> Result<OpendalUpload> {
        path::check(path)?;
        let writer = self.operator.writer_with(path).chunk(PART_BYTES).await;
        Ok(OpendalUpload {
            writer: writer.map_err(|e| failed(path, "begin to write", e))?,
            path: path.to_owned(),
        })
    }

    /// Object stores answer a put once it is durable.
    async fn sync(&self, _prefix: &str) -> Result<()> {
        Ok(())
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        path::check(path)?;
        loop {
            match self
                .operator
                .write_with(path, bytes.clone())
                .if_not_exists(true)
                .await
            {
                Ok(_) => return Ok(Create::Created),
                Err(e) if matches!(e.kind(), Kind::ConditionNotMatch | Kind::AlreadyExists) => {}
                Err(e) if e.kind() == Kind::Unsupported => {
                    let reason =
                        "the store has no conditional put, which decides races between processes";
                    let error = Error::new(ErrorKind::Unsupported, path, reason);
                    return Err(error.with_source(e).without_effect());
                }
                Err(e) => return Err(failed(path, "create", e)),
            }
            if let Some(there) = self.get(path).await? {
                return Ok(Create::Exists(there));
            }
            // Deleted between the two calls, so the path is free again.
        }
    }

    async fn delete(&self, path: &str) -> Result<()> {
        path::check(path)?;
        self.operator
            .delete(path)
            .await
            .map_err(|e| failed(path, "delete", e))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let folder = prefix
            .rsplit_once('/')
            .map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let entries = match self.operator.list_with(&folder).recursive(true).await {
            Ok(entries) => entries,
            Err(e) if e.kind() == Kind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(prefix, "list", e)),
        };
        let blobs = entries
            .into_iter()
            .filter(|entry| entry.metadata().mode() == EntryMode::FILE);
        let mut found: Vec<_> = blobs
            .map(|entry| Listed {
                path: entry.path().to_owned(),
                bytes: entry.metadata().content_length(),
            })
            .filter(|blob| blob.path.starts_with(prefix))
            .collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Parts of unfinished uploads are not visible; the store's own lifecycle rule removes them.
    async fn sweep(&self) -> Result<()> {
        Ok(())
    }
}

/// An upload to an [`OpendalBlobs`].
#[allow(missing_debug_implementations, reason = "OpenDAL's writer has none")]
pub struct OpendalUpload {
    writer: opendal::Writer,
    path: String,
}

impl Upload for OpendalUpload {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.writer
            .write(chunk)
            .await
            .map_err(|e| failed(&self.path, "write", e))
    }

    async fn finish(mut self) -> Result<()> {
        match self.writer.close().await {
            Ok(_) => Ok(()),
            Err(e) => Err(failed(&self.path, "finish", e)),
        }
    }
}

fn failed(object: &str, doing: &str, error: opendal::Error) -> Error {
    let reason = format!("could not {doing}: {}", error.kind());
    Error::new(ErrorKind::Io, object, reason).with_source(error)
}
