//! The choice of where keyed states are.

use std::{fmt, sync::Arc};

use crate::{ByteBackend, encoded::Budget};

/// Where the keyed states of a job are. Clones mean the same place, and share its memory.
#[derive(Clone, Default)]
pub struct Backend(Option<RowBackend>);

#[derive(Clone)]
pub(crate) struct RowBackend {
    pub(crate) backend: Arc<dyn ByteBackend>,
    pub(crate) budget: Arc<Budget>,
}

impl Backend {
    /// In memory, typed: the fastest. The default.
    pub fn memory() -> Self {
        Self::default()
    }

    /// In a byte backend, with typed rows in memory in front of it, all states of the job together within
    /// [`memory`](ByteBackend::memory).
    pub fn rows(backend: impl ByteBackend) -> Self {
        let budget = Budget::new(backend.memory());
        Self(Some(RowBackend {
            backend: Arc::new(backend),
            budget,
        }))
    }

    /// Its name: `memory`, or that of the byte backend.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            None => "memory",
            Some(rows) => rows.backend.name(),
        }
    }

    pub(crate) fn as_rows(&self) -> Option<&RowBackend> {
        self.0.as_ref()
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backend").field(&self.name()).finish()
    }
}
