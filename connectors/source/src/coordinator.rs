//! An enumerator and its assigner, as one thing that a runtime drives beside its coordinator.

use cutwater_barrier::CheckpointId;
use serde::{Deserialize, Serialize};

use crate::{
    Assigner, Effect, Enumerator as _, Event, Result, Source,
    codec::{decode, decode_splits, encode},
};

/// Finds the splits of `S`, deals them out and remembers which are where.
///
/// **Order.** An assignment is in the checkpoint of the coordinator or in that of the reader, never in
/// both or neither, if the driver (1) calls [`snapshot`](Self::snapshot) and sends the trigger of that
/// checkpoint to the readers in one step, and (2) sends assignments and triggers to a reader through
/// one FIFO channel.
#[derive(Debug)]
pub struct SplitCoordinator<S: Source> {
    enumerator: S::Enumerator,
    assigner: Assigner<S::Split>,
}

/// What stands in the checkpoint.
#[derive(Serialize, Deserialize)]
struct State {
    enumerator: Vec<u8>,
    assigner: Vec<u8>,
}

impl<S: Source> SplitCoordinator<S> {
    /// The coordinator of a job that starts from nothing. Call [`discover`](Self::discover) next.
    pub fn fresh(source: &S, parallelism: usize) -> Result<Self> {
        Ok(Self {
            enumerator: source.enumerator(None)?,
            assigner: Assigner::new(source.assignment(), parallelism),
        })
    }

    /// The coordinator of a restored job. `state` is what [`snapshot`](Self::snapshot) gave,
    /// `readers` the encoded snapshots of *all* readers of the old attempt, whatever their number.
    ///
    /// Call [`discover`](Self::discover) next, as after a fresh start: until it says that the input is
    /// complete, no reader hears that there are no more splits.
    pub fn restore<'a>(
        source: &S,
        parallelism: usize,
        state: &[u8],
        readers: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self> {
        let state: State = decode(state, "enumerator state")?;
        let mut splits = Vec::new();
        for reader in readers {
            splits.extend(decode_splits(reader)?);
        }
        Ok(Self {
            enumerator: source.enumerator(Some(&state.enumerator))?,
            assigner: Assigner::restore(source.assignment(), parallelism, &state.assigner, splits)?,
        })
    }

    /// Looks for new splits; blocks on the enumerator's I/O. True once there will never be more.
    pub fn discover(&mut self) -> Result<bool> {
        if !self.assigner.is_complete() {
            let discovery = self.enumerator.discover(self.assigner.known())?;
            self.assigner.handle(Event::Discovered(discovery));
        }
        Ok(self.assigner.is_complete())
    }

    /// Something happened. See [`Assigner::handle`].
    pub fn handle(&mut self, event: Event<S::Split>) {
        self.assigner.handle(event);
    }

    /// What to tell a reader next. See [`Assigner::poll`].
    pub fn poll(&mut self) -> Option<Effect<S::Split>> {
        self.assigner.poll()
    }

    /// The state for `checkpoint`. For the order to keep see the type.
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> Vec<u8> {
        encode(&State {
            enumerator: self.enumerator.state(),
            assigner: self.assigner.snapshot(checkpoint),
        })
    }

    /// Who has which splits.
    pub fn assigner(&self) -> &Assigner<S::Split> {
        &self.assigner
    }
}
