//! State files: written as a stream, read by range, every byte under a checksum.
//!
//! A file is cut into blocks of equal size, the last one shorter, and each has its own checksum. So a
//! range is verified by reading the blocks it touches, and a fault is named by object and block. The
//! checksums stand in the [`FileRef`], which is in the checkpoint's metadata, not in the file: a file
//! replaced by another intact one is found as well.
//!
//! A small file is not an object of its own: its bytes are in its `FileRef`. With checkpoints every
//! few milliseconds of small state, the time goes into making objects durable, one by one.

mod handle;

pub use handle::{HandleReader, HandleWriter};

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use cutwater_barrier::{CheckpointId, Generation};
use xxhash_rust::xxh64::xxh64;

use crate::{
    Blobs, Error, ErrorKind, Result, SharedBlobs, SharedUpload, Upload, layout,
    local_copies::{Copying, LocalCopies},
    named::Named,
    nonce::Nonces,
};

/// A file that a checkpoint names: what it is, where it is, and how to know it is intact.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileRef {
    /// What its writer called it. Unique within one subtask's handle.
    pub name: String,
    /// Where its bytes are.
    pub content: Content,
    /// How many bytes it has.
    pub length: u64,
    /// How many bytes each block but the last has.
    pub block_bytes: u32,
    /// XXH64 (seed 0) of each block.
    pub checksums: Vec<u64>,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "there is no third place; one would be a new format"
)]
pub enum Content {
    /// In the object of this path.
    Object(String),
    /// Here. Then the checksum of the metadata covers them too.
    Inline(Bytes),
}

impl FileRef {
    /// The path of its object, or `None` if its bytes are inline.
    pub fn path(&self) -> Option<&str> {
        match &self.content {
            Content::Object(path) => Some(path),
            Content::Inline(_) => None,
        }
    }

    fn has(&self, range: &Range<u64>) -> bool {
        range.start <= range.end && range.end <= self.length
    }

    /// The blocks that `range` touches, as the range of bytes that they make up.
    fn blocks(&self, range: &Range<u64>) -> Range<u64> {
        let block = u64::from(self.block_bytes);
        let end = range.end.next_multiple_of(block).min(self.length);
        range.start / block * block..end
    }

    /// What errors about this file name.
    fn object(&self) -> String {
        match &self.content {
            Content::Object(path) => path.clone(),
            Content::Inline(_) => format!("inline file {}", self.name),
        }
    }

    /// The part `range` of `bytes`, which are those that were found at `blocks`, verified.
    fn cut(&self, bytes: Bytes, blocks: &Range<u64>, range: &Range<u64>) -> Result<Bytes> {
        if bytes.len() as u64 != blocks.end - blocks.start {
            let reason = format!(
                "ends early: it had {} bytes when it was written",
                self.length
            );
            return Err(Error::corrupt(self.object(), reason).at(blocks.start + bytes.len() as u64));
        }
        self.check(blocks.start, &bytes)?;
        let part = range.start - blocks.start..range.end - blocks.start;
        Ok(bytes.slice(to_usize(&part)?))
    }

    /// Checks that `bytes` are the blocks that begin at `start`.
    fn check(&self, start: u64, bytes: &Bytes) -> Result<()> {
        let block = self.block_bytes as usize;
        let first = usize::try_from(start / u64::from(self.block_bytes))
            .expect("blocks are counted in memory");
        for (chunk, (i, checksum)) in bytes
            .chunks(block)
            .zip(self.checksums.iter().enumerate().skip(first))
        {
            if xxh64(chunk, 0) != *checksum {
                let reason = format!(
                    "a block of {} bytes does not match its checksum",
                    chunk.len()
                );
                return Err(Error::corrupt(self.object(), reason)
                    .at(i as u64 * u64::from(self.block_bytes)));
            }
        }
        Ok(())
    }
}

/// Writes and reads the state files of one attempt. Cloning is cheap: give one to every task.
#[derive(Clone, Debug)]
pub struct StateFiles {
    blobs: SharedBlobs,
    local: Option<LocalCopies>,
    named: Named,
    generation: Generation,
    nonces: Nonces,
    sizes: Sizes,
}

/// How files are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) inline_max: usize,
    pub(crate) block: u32,
}

impl StateFiles {
    pub(crate) fn new(
        blobs: SharedBlobs,
        local: Option<LocalCopies>,
        named: Named,
        generation: Generation,
        nonces: Nonces,
        sizes: Sizes,
    ) -> Self {
        Self {
            blobs,
            local,
            named,
            generation,
            nonces,
            sizes,
        }
    }

    /// The attempt whose files these are.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Begins a file of `subtask` of the operator `uid`, for `checkpoint`. `name` is for people and
    /// for the reader of the manifest; a second file of the same name is another file.
    pub fn writer(
        &self,
        checkpoint: CheckpointId,
        uid: &str,
        subtask: u16,
        name: &str,
    ) -> StateFileWriter {
        let nonce = self.nonces.draw();
        StateFileWriter {
            blobs: self.blobs.clone(),
            local: self.local.clone(),
            path: layout::state_file(checkpoint, self.generation, uid, subtask, name, nonce),
            name: name.to_owned(),
            sizes: self.sizes,
            upload: None,
            copying: None,
            block: BytesMut::new(),
            written: 0,
            checksums: Vec::new(),
        }
    }

    /// As [`writer`](Self::writer), for a file that is in memory anyway.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails.
    pub async fn store(
        &self,
        checkpoint: CheckpointId,
        uid: &str,
        subtask: u16,
        name: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<FileRef> {
        let mut writer = self.writer(checkpoint, uid, subtask, name);
        writer.write(bytes).await?;
        writer.finish().await
    }

    /// The bytes `range` of `file`, verified. See [`CheckpointStore::read`](crate::CheckpointStore::read).
    ///
    /// # Errors
    ///
    /// `Corrupt` naming the object and the offset of the block.
    pub async fn read(&self, file: &FileRef, range: Range<u64>) -> Result<Bytes> {
        read_near(self.local.as_ref(), &self.blobs, file, range).await
    }
}

/// A state file being written. Dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct StateFileWriter {
    blobs: SharedBlobs,
    local: Option<LocalCopies>,
    path: String,
    name: String,
    sizes: Sizes,
    upload: Option<SharedUpload>,
    copying: Option<Copying>,
    /// The block that is not full yet; before the upload began, everything so far.
    block: BytesMut,
    written: u64,
    checksums: Vec<u64>,
}

impl StateFileWriter {
    /// Adds `chunk`. Holds at most one block in memory besides it.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails. The file is then lost; drop the writer.
    pub async fn write(&mut self, chunk: impl Into<Bytes>) -> Result<()> {
        let mut chunk = chunk.into();
        self.written += chunk.len() as u64;
        let held = self.block.len();
        if self.upload.is_some() || held + chunk.len() > self.sizes.inline_max {
            let block = self.sizes.block as usize;
            let missing = held.next_multiple_of(block) - held;
            if held > 0 && chunk.len() >= missing {
                self.block.extend_from_slice(&chunk.split_to(missing));
                let full = self.block.split().freeze();
                self.upload_blocks(full).await?;
            }
            if self.block.is_empty() && chunk.len() >= block {
                let full = chunk.split_to(chunk.len() / block * block);
                self.upload_blocks(full).await?;
            }
        }
        self.block.extend_from_slice(&chunk);
        Ok(())
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Ends the file, and says how to find it again. It becomes durable with the checkpoint that
    /// names it, in [`complete`](crate::CheckpointStore::complete).
    ///
    /// # Errors
    ///
    /// `Io` if the store fails. Nothing is visible then.
    pub async fn finish(mut self) -> Result<FileRef> {
        let content = if self.upload.is_none() && self.block.len() <= self.sizes.inline_max {
            let bytes = self.block.split().freeze();
            self.note_checksums(&bytes);
            Content::Inline(bytes)
        } else {
            let last = self.block.split().freeze();
            if !last.is_empty() {
                self.upload_blocks(last).await?;
            }
            let upload = self.upload.take().expect("more than nothing was written");
            upload.finish().await?;
            if let Some(copying) = self.copying.take() {
                copying.finish();
            }
            Content::Object(self.path)
        };
        Ok(FileRef {
            name: self.name,
            content,
            length: self.written,
            block_bytes: self.sizes.block,
            checksums: self.checksums,
        })
    }

    fn note_checksums(&mut self, blocks: &Bytes) {
        let each = blocks.chunks(self.sizes.block as usize);
        self.checksums.extend(each.map(|block| xxh64(block, 0)));
    }

    /// Uploads full blocks, or what is left at the end.
    async fn upload_blocks(&mut self, blocks: Bytes) -> Result<()> {
        self.note_checksums(&blocks);
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                self.copying = self.local.as_ref().map(|local| local.begin(&self.path));
                none.insert(self.blobs.upload(&self.path).await?)
            }
        };
        if let Some(copying) = &mut self.copying {
            copying.write(&blocks);
        }
        upload.write(blocks).await
    }
}

/// The bytes `range` of `file`, verified, from its local copy if that is there and intact.
async fn read_near(
    local: Option<&LocalCopies>,
    blobs: &SharedBlobs,
    file: &FileRef,
    range: Range<u64>,
) -> Result<Bytes> {
    if let (Some(local), Some(path)) = (local, file.path())
        && file.has(&range)
    {
        let blocks = file.blocks(&range);
        if let Some(bytes) = local.read(path, blocks.clone()) {
            match file.cut(bytes, &blocks, &range) {
                Ok(bytes) => return Ok(bytes),
                Err(_) => local.delete(path),
            }
        }
    }
    read(blobs, file, range).await
}

/// The bytes `range` of `file`, verified.
pub(crate) async fn read(blobs: &SharedBlobs, file: &FileRef, range: Range<u64>) -> Result<Bytes> {
    if !file.has(&range) {
        let reason = format!("bytes {range:?} were asked for, and it has {}", file.length);
        return Err(Error::new(ErrorKind::Misuse, file.object(), reason));
    }
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let blocks = file.blocks(&range);
    let bytes = match &file.content {
        Content::Inline(bytes) => bytes.slice(to_usize(&blocks)?),
        Content::Object(path) => {
            let Some(bytes) = blobs.get_range(path, blocks.clone()).await? else {
                return Err(Error::corrupt(
                    path,
                    "is missing, and a checkpoint names it",
                ));
            };
            bytes
        }
    };
    file.cut(bytes, &blocks, &range)
}

fn to_usize(range: &Range<u64>) -> Result<Range<usize>> {
    match (range.start.try_into(), range.end.try_into()) {
        (Ok(start), Ok(end)) => Ok(start..end),
        _ => Err(Error::new(
            ErrorKind::Misuse,
            "a range of a file",
            "is beyond this machine's memory",
        )),
    }
}
