//! Reads everything that a restore could ever need, and compares it with its checksum.

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;

use super::{CheckpointStore, load};
use crate::{Blobs, Completed, Error, ErrorKind, FileRef, Result, file};

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

/// Objects that were found to be what some checkpoint says: not read again for another that says the
/// same. One that says something else reads it again.
#[derive(Default)]
struct Intact(BTreeMap<String, (u64, u32, Vec<u64>)>);

impl Intact {
    fn contains(&self, file: &FileRef) -> bool {
        let known = file.path().and_then(|path| self.0.get(path));
        known.is_some_and(|(length, block_bytes, checksums)| {
            (*length, *block_bytes) == (file.length, file.block_bytes)
                && *checksums == file.checksums
        })
    }

    fn insert(&mut self, file: &FileRef) {
        if let Some(path) = file.path() {
            let known = (file.length, file.block_bytes, file.checksums.clone());
            self.0.insert(path.to_owned(), known);
        }
    }
}

impl CheckpointStore {
    /// Reads the log again, and everything that retained checkpoints name, and compares it with its
    /// checksums (CASES B63). `report` hears of every object once per checkpoint that needs it, in
    /// order; a fault does not end it. What several checkpoints name alike is read once. Writes nothing.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the log itself is; `Io` if the store fails.
    pub async fn verify(&mut self, mut report: impl FnMut(Verified)) -> Result<()> {
        self.refresh().await?;
        self.log.verify_trimmed().await?;
        let mut intact = Intact::default();
        for completed in self.list() {
            self.verify_checkpoint(completed, &mut intact, &mut report)
                .await?;
        }
        Ok(())
    }

    async fn verify_checkpoint(
        &self,
        completed: &Completed,
        intact: &mut Intact,
        report: &mut impl FnMut(Verified),
    ) -> Result<()> {
        let checkpoint = completed.checkpoint;
        let mut found = |object: &str, bytes, result| {
            report(Verified {
                checkpoint,
                object: object.to_owned(),
                bytes,
                result,
            });
        };
        let metadata = match load(&self.blobs, completed).await {
            Ok(metadata) => metadata,
            Err(e) => {
                if let Some(fault) = self.fault_of(checkpoint, e).await? {
                    found(&completed.metadata, completed.metadata_bytes, Err(fault));
                }
                return Ok(());
            }
        };
        found(&completed.metadata, completed.metadata_bytes, Ok(()));
        for file in metadata.files() {
            let result = match self.verify_file(file, intact).await {
                Ok(()) => Ok(()),
                Err(e) => match self.fault_of(checkpoint, e).await? {
                    Some(fault) => Err(fault),
                    None => return Ok(()),
                },
            };
            found(file.path().unwrap_or(&file.name), file.length, result);
        }
        Ok(())
    }

    /// The error if it is a finding, not a failure to read at all; `None` if the checkpoint is no
    /// longer there: a job may be running on the store, and have dropped it in the meantime.
    async fn fault_of(&self, checkpoint: CheckpointId, error: Error) -> Result<Option<Error>> {
        match error.kind() {
            ErrorKind::Corrupt | ErrorKind::Incompatible => {
                let is_gone = self.is_discarded_meanwhile(checkpoint).await?;
                Ok((!is_gone).then_some(error))
            }
            _ => Err(error),
        }
    }

    async fn verify_file(&self, file: &FileRef, intact: &mut Intact) -> Result<()> {
        if intact.contains(file) {
            return Ok(());
        }
        self.read_all(file).await?;
        intact.insert(file);
        Ok(())
    }

    async fn read_all(&self, file: &FileRef) -> Result<()> {
        let chunk = CHUNK_BLOCKS * u64::from(file.block_bytes);
        let mut start = 0;
        while start < file.length {
            let end = (start + chunk).min(file.length);
            file::read(&self.blobs, file, start..end).await?;
            start = end;
        }
        let Some(path) = file.path() else {
            return Ok(());
        };
        match self
            .blobs
            .get_range(path, file.length..file.length + 1)
            .await?
        {
            Some(more) if !more.is_empty() => {
                let reason = format!("goes on after its {} bytes", file.length);
                Err(Error::corrupt(path, reason).at(file.length))
            }
            _ => Ok(()),
        }
    }
}
