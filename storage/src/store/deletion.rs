//! What is deleted, and when: derived from what retained checkpoints name, never counted.
//!
//! Invariant: before an object is deleted, the log says that its checkpoint is discarded (or the
//! checkpoint was never completed, which the log says too), no retained checkpoint names it, and none
//! in progress was promised that it may name it. So a crash leaves at worst something undeleted, which
//! the next leader deletes.

use std::collections::BTreeSet;

use cutwater_barrier::CheckpointId;

use super::{CheckpointStore, load};
use crate::{Blobs, ErrorKind, Listed, Result, layout, log::Decision, named::objects_of};

/// What became of a checkpoint that failed, or seemed to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "who ignores one of them aborts what is committed"
)]
pub enum Fate {
    /// It is not complete and never will be; its files are deleted. Abort what it prepared.
    Discarded,
    /// It is complete: only the reply was lost. Go on as if [`complete`](CheckpointStore::complete)
    /// had succeeded.
    Completed,
}

/// What [`CheckpointStore::apply_retention`] did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Deleted {
    /// Checkpoints that can no longer be restored from.
    pub discarded: Vec<CheckpointId>,
    /// How many objects were deleted.
    pub objects: usize,
}

impl CheckpointStore {
    /// Deletes the files that a failed checkpoint left, after making sure that it failed.
    ///
    /// # Errors
    ///
    /// `Fenced`, and the successor knows its fate. After `Io` it is open still: ask again, or end the
    /// attempt and let recovery find out.
    pub async fn discard_failed(&mut self, checkpoint: CheckpointId) -> Result<Fate> {
        let generation = self.term()?.generation;
        self.log.settle_instead(Decision::Discarded(checkpoint), |undecided| {
            matches!(undecided, Decision::Completed(completed) if completed.checkpoint == checkpoint)
        }).await?;
        if self.state().get(checkpoint).is_some() {
            return Ok(Fate::Completed);
        }
        self.named.failed(checkpoint);
        for object in self.blobs.list(&layout::checkpoint(checkpoint)).await? {
            // Only one's own: another generation's checkpoint of this id is another one.
            if layout::generation_of(&object.path) == Some(generation) {
                self.blobs.delete(&object.path).await?;
            }
        }
        // Its id is not used again, though nothing else tells of it. After the deletions, as those
        // may have been what makes room for an entry.
        if self.state().next_id() <= checkpoint {
            self.log
                .append(generation, Decision::Discarded(checkpoint))
                .await?;
        }
        self.log.state_mut().forget(checkpoint);
        Ok(Fate::Discarded)
    }

    /// Drops the checkpoints that need not be kept, and what previous runs left undeleted.
    ///
    /// Kept are the newest ones, as many as the options say, savepoints, what is not noted as
    /// committed, and what is pinned.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the metadata of a retained checkpoint cannot be read: then nothing is deleted, as
    /// nobody knows what it needs. An error leaves the rest to the next call.
    pub async fn apply_retention(&mut self) -> Result<Deleted> {
        let generation = self.term()?.generation;
        self.read_named().await?;
        let pinned = self.pins.pinned();
        let expired = self.state().expired(self.options.keep.max(1), &pinned);
        for checkpoint in &expired {
            self.log
                .append(generation, Decision::Discarded(*checkpoint))
                .await?;
            self.named.remove(*checkpoint);
        }
        let objects = self.delete_discarded().await?;
        while let Some(decision) = self.state().restate(self.options.log_entries) {
            self.log.append(generation, decision).await?;
        }
        self.log.trim().await?;
        Ok(Deleted {
            discarded: expired,
            objects,
        })
    }

    /// Deletes what only discarded checkpoints name.
    async fn delete_discarded(&mut self) -> Result<usize> {
        let mut deleted = 0;
        let discarded: Vec<_> = self
            .state()
            .discarded()
            .map(|(id, known)| (id, known.cloned()))
            .collect();
        for (id, completed) in discarded {
            let folder = self.blobs.list(&layout::checkpoint(id)).await?;
            let mut objects: BTreeSet<_> = folder.into_iter().map(|object| object.path).collect();
            if let Some(completed) = completed {
                match load(&self.blobs, &completed).await {
                    Ok(metadata) => objects.extend(objects_of(&metadata)),
                    // Gone since an earlier run, which deletes it last; or damaged, and what else
                    // it named is found by `orphans`.
                    Err(e) if e.kind() == ErrorKind::Corrupt => {}
                    Err(e) => return Err(e),
                }
                // Last, as it says what is left to delete.
                objects.remove(&completed.metadata);
                let is_promised = objects.iter().any(|object| self.named.is_promised(object));
                deleted += self.delete_unnamed(objects).await?;
                if is_promised {
                    continue; // once more when it is known whether another checkpoint has it
                }
                self.blobs.delete(&completed.metadata).await?;
                deleted += 1;
            } else {
                deleted += self.delete_unnamed(objects).await?;
            }
            self.log.state_mut().forget(id);
        }
        Ok(deleted)
    }

    async fn delete_unnamed(&self, objects: BTreeSet<String>) -> Result<usize> {
        let mut deleted = 0;
        for object in objects {
            if !self.is_named(&object) {
                self.blobs.delete(&object).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    fn is_named(&self, object: &str) -> bool {
        self.named.names(object) || self.named.is_promised(object)
    }

    /// Objects that nobody needs: of generations before the leading one, and named by no retained
    /// checkpoint. What the leading generation has in progress is not among them.
    ///
    /// # Errors
    ///
    /// As [`apply_retention`](Self::apply_retention).
    pub async fn orphans(&mut self) -> Result<Vec<Listed>> {
        let mut orphans = Vec::new();
        for prefix in [layout::CHECKPOINTS, layout::SHARED, layout::PROBE] {
            orphans.extend(self.blobs.list(prefix).await?);
        }
        self.refresh().await?;
        self.read_named().await?;
        let leading = self.state().generation();
        orphans.retain(|object| {
            let old = layout::generation_of(&object.path)
                .is_some_and(|generation| Some(generation) < leading);
            let metadata = self
                .list()
                .any(|completed| completed.metadata == object.path);
            old && !metadata && !self.is_named(&object.path)
        });
        Ok(orphans)
    }

    /// Deletes the [`orphans`](Self::orphans), and says which.
    ///
    /// # Errors
    ///
    /// As [`apply_retention`](Self::apply_retention).
    pub async fn prune(&mut self) -> Result<Vec<Listed>> {
        let leading = self.leadership()?;
        let orphans = self.orphans().await?;
        leading.check().await?;
        for object in &orphans {
            self.blobs.delete(&object.path).await?;
        }
        Ok(orphans)
    }
}
