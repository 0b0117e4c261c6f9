//! Checkpoints that retention leaves alone because somebody reads them (CASES B50).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cutwater_barrier::CheckpointId;

/// How many pins each checkpoint has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Arc<Mutex<BTreeMap<CheckpointId, usize>>>);

impl Pins {
    pub(crate) fn pin(&self, checkpoint: CheckpointId) -> Pin {
        *self.lock().entry(checkpoint).or_default() += 1;
        Pin {
            checkpoint,
            pins: self.clone(),
        }
    }

    pub(crate) fn pinned(&self) -> BTreeSet<CheckpointId> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CheckpointId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a checkpoint from being dropped by retention. See
/// [`CheckpointStore::pin`](crate::CheckpointStore::pin).
#[derive(Debug)]
pub struct Pin {
    checkpoint: CheckpointId,
    pins: Pins,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        let count = pins
            .get_mut(&self.checkpoint)
            .expect("counted while a pin lives");
        *count -= 1;
        if *count == 0 {
            pins.remove(&self.checkpoint);
        }
    }
}
