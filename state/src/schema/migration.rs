//! What becomes of stored elements whose type has changed.

use std::{any, fmt, sync::Arc};

use serde::de::DeserializeOwned;

use super::{Schema, evolution};
use crate::{Error, ErrorKind, Result};

/// Takes an element from the front of some bytes.
pub(crate) type Read<T> = dyn Fn(&mut &[u8]) -> Result<T, postcard::Error> + Send + Sync;

/// How stored elements are read.
///
/// | | they were stored as | and are read |
/// |---|---|---|
/// | as they are | the declared schema | as it |
/// | reconfigured | the declared schema, but with fewer variants in its enums | as it |
/// | migrated | an older schema that is declared too | as that, and converted |
#[derive(Clone)]
pub(crate) enum Reading<T> {
    AsIs,
    Migrated(Arc<Read<T>>),
}

impl<T> Reading<T> {
    /// How elements stored as `stored` are read as `declared`; `None` if they cannot be.
    pub(crate) fn of(stored: &str, declared: &Schema, older: &[Migration<T>]) -> Option<Self> {
        if evolution::reads(declared.as_str(), stored) {
            return Some(Self::AsIs);
        }
        let is_stored = |migration: &&Migration<T>| {
            let schema = migration.schema.as_ref();
            schema.is_ok_and(|schema| evolution::reads(schema.as_str(), stored))
        };
        let migration = older.iter().find(is_stored)?;
        Some(Self::Migrated(Arc::clone(&migration.read)))
    }
}

impl<T: DeserializeOwned + 'static> Reading<T> {
    /// What reads something made of such elements with `read`; `None` if that is read as it is.
    pub(crate) fn of_all<S>(
        self,
        read: impl Fn(&Self, &mut &[u8]) -> Result<S, postcard::Error> + Send + Sync + 'static,
    ) -> Option<Box<Read<S>>> {
        match self {
            Self::AsIs => None,
            Self::Migrated(_) => Some(Box::new(move |bytes| read(&self, bytes))),
        }
    }

    /// Takes an element from the front of `bytes`.
    pub(crate) fn element(&self, bytes: &mut &[u8]) -> Result<T, postcard::Error> {
        match self {
            Self::AsIs => take(bytes),
            Self::Migrated(read) => read(bytes),
        }
    }
}

/// Takes a `T` as postcard from the front of `bytes`.
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, postcard::Error> {
    let (taken, rest) = postcard::take_from_bytes(bytes)?;
    *bytes = rest;
    Ok(taken)
}

/// An older type of a state's elements, and how they become those of today.
pub(crate) struct Migration<T> {
    /// Fails where the state is declared, not where the migration is.
    schema: Result<Schema, Arc<Error>>,
    read: Arc<Read<T>>,
}

impl<T> Migration<T> {
    pub(crate) fn new<Old: DeserializeOwned>(
        schema: Result<Schema>,
        convert: impl Fn(Old) -> T + Send + Sync + 'static,
    ) -> Self {
        let explain = |error: Error| {
            let message = format!(
                "no schema can be derived for the older type `{}`; name the one it was declared with, \
                 with `Descriptor::migrate_from_schema`",
                any::type_name::<Old>()
            );
            Arc::new(Error::new(ErrorKind::Invalid, message).with_source(error))
        };
        Self {
            schema: schema.map_err(explain),
            read: Arc::new(move |bytes| take(bytes).map(&convert)),
        }
    }

    /// Why it can never apply, if so.
    pub(crate) fn error(&self) -> Option<Arc<Error>> {
        self.schema.as_ref().err().cloned()
    }
}

impl<T> Clone for Migration<T> {
    fn clone(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            read: Arc::clone(&self.read),
        }
    }
}

impl<T> fmt::Debug for Migration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Migration").field(&self.schema).finish()
    }
}
