//! Reads everything that a restore could ever need, and compares it with its checksum.

use cutwater_barrier::CheckpointId;

use super::{CheckpointStore, load};
use crate::{Blobs, Completed, Error, FileRef, Result, file, layout};

/// So much of a file is read at once.
const CHUNK_BLOCKS: u64 = 64;

/// What [`CheckpointStore::verify`] found about one object.
#[derive(Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The checkpoint that needs it.
    pub checkpoint: CheckpointId,
    /// The path of the object, or the name of a file that is within the metadata.
    pub object: String,
    /// How many bytes it should have.
    pub bytes: u64,
    /// What is wrong with it: `Corrupt` naming object and offset.
    pub result: Result<()>,
}

impl CheckpointStore {
    /// Reads the log again, and everything that retained checkpoints name, and compares it with its
    /// checksums (CASES B63). `report` hears of every object once per checkpoint that needs it, in
    /// order; a fault does not end it. Writes nothing.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the log itself is; `Io` if the store fails.
    pub async fn verify(&mut self, mut report: impl FnMut(Verified)) -> Result<()> {
        self.refresh().await?;
        for completed in self.list() {
            self.verify_checkpoint(completed, &mut report).await?;
        }
        Ok(())
    }

    async fn verify_checkpoint(
        &self,
        completed: &Completed,
        report: &mut impl FnMut(Verified),
    ) -> Result<()> {
        let mut found = |object: &str, bytes, result| {
            report(Verified {
                checkpoint: completed.checkpoint,
                object: object.to_owned(),
                bytes,
                result,
            });
        };
        let loaded = load(&self.blobs, completed).await;
        let (metadata, result) = match loaded {
            Ok(metadata) => (Some(metadata), Ok(())),
            Err(e) => (None, Err(faults_only(e)?)),
        };
        found(&completed.metadata, completed.metadata_bytes, result);
        let Some(metadata) = metadata else {
            return Ok(());
        };
        let folder = self
            .blobs
            .list(&layout::checkpoint(completed.checkpoint))
            .await?;
        for file in metadata.files() {
            let listed = folder
                .iter()
                .find(|object| Some(object.path.as_str()) == file.path());
            let result = match self.verify_file(file).await {
                Ok(()) => match listed {
                    Some(object) if object.bytes != file.length => {
                        let reason = format!("goes on after its {} bytes", file.length);
                        Err(Error::corrupt(&object.path, reason).at(file.length))
                    }
                    _ => Ok(()),
                },
                Err(e) => Err(faults_only(e)?),
            };
            found(file.path().unwrap_or(&file.name), file.length, result);
        }
        Ok(())
    }

    async fn verify_file(&self, file: &FileRef) -> Result<()> {
        let chunk = CHUNK_BLOCKS * u64::from(file.block_bytes);
        let mut start = 0;
        while start < file.length {
            let end = (start + chunk).min(file.length);
            file::read(&self.blobs, file, start..end).await?;
            start = end;
        }
        Ok(())
    }
}

/// A fault of the bytes is a finding; that they could not be read at all is an error.
fn faults_only(error: Error) -> Result<Error> {
    match error.kind() {
        crate::ErrorKind::Corrupt | crate::ErrorKind::Incompatible => Ok(error),
        _ => Err(error),
    }
}
