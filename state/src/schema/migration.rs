//! What becomes of stored elements whose type has changed.

use std::{any, fmt, sync::Arc};

use serde::de::DeserializeOwned;

use super::{Schema, evolution};
use crate::{Data, Error, ErrorKind, Lifetime, Result};

/// Takes an element from the front of some bytes.
pub(crate) type Read<T> = dyn Fn(&mut &[u8]) -> Result<T, postcard::Error> + Send + Sync;

/// How stored elements are read.
///
/// | | they were stored as | and are read |
/// |---|---|---|
/// | as they are | the declared schema | as it |
/// | reconfigured | the declared schema, but with fewer variants in its enums | as it |
/// | migrated | an older schema that is declared too | as that, and converted |
/// | stamped | one of these, with or without stamps as it is not declared | with those they have, or as of now |
pub(crate) enum Reading<T> {
    AsIs,
    Converted(Conversion<T>),
}

/// What is done to a stored element.
pub(crate) struct Conversion<T> {
    /// `None` if the element itself is read as it is.
    read: Option<Arc<Read<T>>>,
    /// Whether a stamp stands before it.
    stamped: bool,
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
        Some(Self::Converted(Conversion {
            read: Some(Arc::clone(&migration.read)),
            stamped: false,
        }))
    }

    /// The same for elements that were stored with stamps, or not, and are declared with them, or not.
    pub(crate) fn with_stamps(self, stored: bool, declared: bool) -> Self {
        let read = match self {
            Self::AsIs if stored == declared => return Self::AsIs,
            Self::AsIs => None,
            Self::Converted(conversion) => conversion.read,
        };
        Self::Converted(Conversion {
            read,
            stamped: stored,
        })
    }
}

impl<T: DeserializeOwned + 'static> Reading<T> {
    /// What reads something made of such elements with `read`; `None` if that is read as it is.
    pub(crate) fn of_all<S>(
        self,
        read: impl Fn(&Conversion<T>, &mut &[u8]) -> Result<S, postcard::Error> + Send + Sync + 'static,
    ) -> Option<Box<Read<S>>> {
        match self {
            Self::AsIs => None,
            Self::Converted(conversion) => Some(Box::new(move |bytes| read(&conversion, bytes))),
        }
    }

    /// Takes an element without a stamp from the front of `bytes`.
    pub(crate) fn value(&self, bytes: &mut &[u8]) -> Result<T, postcard::Error> {
        match self {
            Self::AsIs => take(bytes),
            Self::Converted(conversion) => conversion.value(bytes),
        }
    }
}

impl<T: DeserializeOwned> Conversion<T> {
    fn value(&self, bytes: &mut &[u8]) -> Result<T, postcard::Error> {
        match &self.read {
            None => take(bytes),
            Some(read) => read(bytes),
        }
    }

    /// Takes an element that lives for `lifetime` from the front of `bytes`.
    pub(crate) fn element<L: Lifetime>(
        &self,
        lifetime: &L,
        bytes: &mut &[u8],
    ) -> Result<L::Of<T>, postcard::Error>
    where
        T: Data,
    {
        let stamp = self.stamped.then(|| take(bytes)).transpose()?;
        Ok(lifetime.restored(self.value(bytes)?, stamp))
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
