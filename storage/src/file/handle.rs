//! The files of one snapshot of keyed state: stored or reused one after the other, read by name.

use std::{io, ops::Range};

use bytes::Bytes;
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;

use super::read_near;
use crate::{
    Error, ErrorKind, FileRef, KeyedHandle, Result, SharedBlobs, StateFiles,
    local_copies::LocalCopies,
};

impl StateFiles {
    /// Begins the snapshot that subtask `subtask` of the operator `uid` writes for `checkpoint`.
    ///
    /// ```
    /// # use cutwater_storage::{KeyedHandle, Result, StateFiles};
    /// # use cutwater_barrier::CheckpointId;
    /// # use cutwater_keygroups::KeyGroupRange;
    /// # async fn upload(files: &StateFiles, checkpoint: CheckpointId) -> Result<KeyedHandle> {
    /// let mut handle = files.handle(checkpoint, "totals", 0);
    /// handle.store("keyed-7-0", "alice 950, bob 280").await?;
    /// Ok(handle.finish([KeyGroupRange::new(0, 128)], "manifest"))
    /// # }
    /// ```
    pub fn handle(&self, checkpoint: CheckpointId, uid: &str, subtask: u16) -> HandleWriter {
        HandleWriter {
            files: self.clone(),
            checkpoint,
            uid: uid.to_owned(),
            subtask,
            listed: Vec::new(),
        }
    }

    /// What reads the files of `handle` by their names, as a state backend asks for them.
    pub fn reader(&self, handle: &KeyedHandle) -> HandleReader {
        HandleReader {
            blobs: self.blobs.clone(),
            local: self.local.clone(),
            files: handle.files.clone(),
        }
    }
}

/// Stores the files of one handle. What it has stored is deleted with the checkpoint, also if the handle
/// is never finished.
#[derive(Debug)]
pub struct HandleWriter {
    files: StateFiles,
    checkpoint: CheckpointId,
    uid: String,
    subtask: u16,
    listed: Vec<FileRef>,
}

impl HandleWriter {
    /// Stores a file, by the name under which the state backend will ask for it.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails.
    pub async fn store(&mut self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        let Self {
            checkpoint,
            subtask,
            ..
        } = *self;
        let stored = self
            .files
            .store(checkpoint, &self.uid, subtask, name, bytes);
        self.listed.push(stored.await?);
        Ok(())
    }

    /// As [`store`](Self::store), piece by piece: needs memory for one piece and one block.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails, or a piece cannot be had.
    pub async fn stream(
        &mut self,
        name: &str,
        pieces: impl IntoIterator<Item = io::Result<impl Into<Bytes>>>,
    ) -> Result<()> {
        let Self {
            checkpoint,
            subtask,
            ..
        } = *self;
        let mut writer = self.files.writer(checkpoint, &self.uid, subtask, name);
        for piece in pieces {
            let piece = piece.map_err(|e| {
                Error::new(ErrorKind::Io, name, "could not be read to be stored").with_source(e)
            })?;
            writer.write(piece).await?;
        }
        self.listed.push(writer.finish().await?);
        Ok(())
    }

    /// Lists the file `name` that a handle of this operator in a retained checkpoint lists; `false` if there
    /// is none, or if there are several of that name.
    ///
    /// From here on the file is not deleted, until it is known whether this handle's checkpoint completes.
    pub fn reuse(&mut self, name: &str) -> bool {
        let named = &self.files.named;
        let file = named.promise(self.checkpoint, &self.uid, name);
        let is_there = file.is_some();
        self.listed.extend(file);
        is_there
    }

    /// The handle of all that was stored or reused, for the checkpoint's metadata: state of the key groups
    /// `groups`, in which the backend finds its way by `manifest`.
    pub fn finish(
        self,
        groups: impl IntoIterator<Item = KeyGroupRange>,
        manifest: impl Into<Bytes>,
    ) -> KeyedHandle {
        KeyedHandle::new(groups.into_iter().collect(), manifest, self.listed)
    }
}

/// Reads the files of one handle, whichever generation wrote them.
#[derive(Clone, Debug)]
pub struct HandleReader {
    blobs: SharedBlobs,
    local: Option<LocalCopies>,
    files: Vec<FileRef>,
}

impl HandleReader {
    /// The bytes `range` of the file that its writer called `name`, verified.
    ///
    /// # Errors
    ///
    /// `Corrupt` naming the object and the offset of the block, or if the handle names no such file.
    pub async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let Some(file) = self.files.iter().find(|file| file.name == name) else {
            let object = format!("state file {name}");
            return Err(Error::corrupt(
                object,
                "is not named by the checkpoint's metadata",
            ));
        };
        read_near(self.local.as_ref(), &self.blobs, file, range).await
    }
}
