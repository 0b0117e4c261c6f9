//! What is left of rows as time goes by: asked by whoever comes across them, in threads of their own.
//!
//! A row that nobody writes to stays in the backend after it has expired. Backends write their rows anew from time
//! to time, and then may leave such rows out; a canonical snapshot leaves them out too.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::row_key::{self, StateId};
use crate::expiry::Left;

/// What is left of a row's value by now.
pub(crate) type LeftOfRow = dyn Fn(&[u8]) -> Left<Vec<u8>> + Send + Sync;

/// The states of one store whose rows expire.
#[derive(Default)]
pub(crate) struct Expired(RwLock<BTreeMap<StateId, Arc<LeftOfRow>>>);

impl Expired {
    /// From now on all rows of `state` are such as `left` reads.
    pub(crate) fn add(&self, state: StateId, left: Arc<LeftOfRow>) {
        let mut states = self.0.write().unwrap_or_else(PoisonError::into_inner);
        states.insert(state, left);
    }

    /// For a state whose rows expire.
    pub(crate) fn of(&self, state: StateId) -> Option<Arc<LeftOfRow>> {
        let states = self.0.read().unwrap_or_else(PoisonError::into_inner);
        states.get(&state).cloned()
    }

    /// Whether nothing is left of a row.
    pub(crate) fn is_over(&self, key: &[u8], value: &[u8]) -> bool {
        let left = row_key::state(key).and_then(|state| self.of(state));
        left.is_some_and(|left| matches!(left(value), Left::Nothing))
    }
}

impl fmt::Debug for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired").finish_non_exhaustive()
    }
}
