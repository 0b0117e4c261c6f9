//! The few things that a checkpoint needs from whatever stores it.
//!
//! [`LocalBlobs`](crate::LocalBlobs) is the implementation on `std::fs`; `OpendalBlobs` (feature
//! `opendal`) the one for object stores. [`SharedBlobs`] is any of them behind one clonable type,
//! so that what is built on top need not be generic.

mod local;
mod names;
#[cfg(feature = "opendal")]
mod opendal;
mod probe;
mod shared;

#[cfg(feature = "opendal")]
pub use self::opendal::{OpendalBlobs, OpendalUpload};
pub use local::{LocalBlobs, LocalUpload};
pub use probe::probe;
pub use shared::{SharedBlobs, SharedUpload};

use std::{future::Future, ops::Range};

use bytes::Bytes;

use crate::Result;

/// Named immutable byte strings: what an object store offers, and no more.
///
/// # Contract
///
/// - Paths are relative, `/`-separated, without empty, `.` or `..` segments; others are refused.
/// - A blob is visible whole or not at all, and only once its upload is finished.
/// - After a write returned, every `get` and `list`, of any process, sees it.
/// - `create` is linearizable: of any number of racing calls for one path exactly one answers
///   [`Create::Created`], and all others get that one's bytes.
/// - `create` is durable when it returns: no crash or power cut undoes it. An upload is durable
///   once a [`sync`](Self::sync) that covers it returned; until then a power cut may lose or tear
///   it, so nothing durable may point to it.
/// - `list` is ordered by path and never shows unfinished uploads.
/// - A failed call may or may not have taken effect, unless the error
///   [says otherwise](crate::Error::is_without_effect).
///
/// `testkit::conforms` examines an implementation. Implement the methods with plain `async fn`.
pub trait Blobs: Send + Sync + 'static {
    /// A blob being written.
    type Upload: Upload;

    /// The blob at `path`, or `None` if there is none.
    fn get(&self, path: &str) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// The bytes `range` of the blob at `path`, fewer if the blob ends before; `None` if there is
    /// no blob.
    fn get_range(
        &self,
        path: &str,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// Begins to write the blob at `path`, in chunks. One that is there is replaced at the end.
    fn upload(&self, path: &str) -> impl Future<Output = Result<Self::Upload>> + Send;

    /// Makes every upload below `prefix` that was finished through this handle or a clone durable.
    fn sync(&self, prefix: &str) -> impl Future<Output = Result<()>> + Send;

    /// Writes the blob at `path` unless there is one.
    fn create(&self, path: &str, bytes: Bytes) -> impl Future<Output = Result<Create>> + Send;

    /// Removes the blob at `path`; no error if there is none. Need not be durable: whoever deletes
    /// has noted before that he would, and does so again.
    fn delete(&self, path: &str) -> impl Future<Output = Result<()>> + Send;

    /// The blobs whose path starts with the characters of `prefix`, ordered by path.
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Vec<Listed>>> + Send;

    /// Removes what uploads of crashed processes left behind. An upload of another process that is
    /// still running may fail because of it, but is not torn.
    fn sweep(&self) -> impl Future<Output = Result<()>> + Send;
}

/// A blob being written. Dropped before [`finish`](Self::finish), it leaves nothing visible.
pub trait Upload: Send + 'static {
    /// Adds a chunk.
    fn write(&mut self, chunk: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Makes the blob visible.
    fn finish(self) -> impl Future<Output = Result<()>> + Send;
}

/// How a race for a path ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever ignores a lost race breaks the fence"
)]
pub enum Create {
    /// This call wrote the blob.
    Created,
    /// There was one already, with these bytes; nothing was written. They may be one's own, from a
    /// call whose reply was lost.
    Exists(Bytes),
}

/// One line of a listing.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "every store knows these two, few know more"
)]
pub struct Listed {
    /// Where the blob is.
    pub path: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What follows from [`Blobs`] alone.
pub trait BlobsExt: Blobs {
    /// Writes the blob at `path` in one go. Durable after the next [`sync`](Blobs::sync).
    fn put(&self, path: &str, bytes: Bytes) -> impl Future<Output = Result<()>> + Send {
        async move {
            let mut upload = self.upload(path).await?;
            upload.write(bytes).await?;
            upload.finish().await
        }
    }
}

impl<B: Blobs> BlobsExt for B {}
