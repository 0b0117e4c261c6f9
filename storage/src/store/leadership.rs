//! Who leads.

use cutwater_barrier::{CheckpointId, Generation};

use crate::{Error, Result, SharedBlobs, layout, log};

/// What taking over gives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Term {
    /// The generation that this process now is.
    pub generation: Generation,
    /// The id of its first checkpoint, above every one used before.
    pub first: CheckpointId,
}

/// Asks whether a generation still leads. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Leadership {
    blobs: SharedBlobs,
    generation: Generation,
}

impl Leadership {
    pub(crate) fn new(blobs: SharedBlobs, generation: Generation) -> Self {
        Self { blobs, generation }
    }

    /// The generation asked about.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether it still leads, as the store has it at this moment.
    ///
    /// # Errors
    ///
    /// `Fenced` if not.
    pub async fn check(&self) -> Result<()> {
        match log::newest(&self.blobs).await? {
            Some(newest) if newest.generation == self.generation => Ok(()),
            Some(newest) => Err(log::fenced(newest.generation)),
            None => Err(Error::corrupt(
                layout::LOG,
                "was emptied while it was in use",
            )),
        }
    }
}
