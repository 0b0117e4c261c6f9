//! The schema of a stored type: a short canonical text that is compared on restore.
//!
//! Postcard bytes do not describe themselves, so reading them as another type would often succeed
//! and yield nonsense. The text lists what the bytes depend on and nothing else: primitive types,
//! the order of fields and variants, and their names, since a renamed or swapped field is nearly always a
//! changed meaning.
//!
//! ```
//! use cutwater_state::Schema;
//!
//! #[derive(serde::Deserialize)]
//! struct Totals {
//!     flights: u64,
//!     miles: Option<i64>,
//! }
//!
//! let schema = Schema::of::<Totals>()?;
//! assert_eq!(schema.to_string(), "struct Totals { flights: u64, miles: option<i64> }");
//! # Ok::<(), cutwater_state::Error>(())
//! ```

mod check;
mod evolution;
mod migration;
mod trace;

use std::{any, fmt};

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};
pub(crate) use check::check;
pub(crate) use migration::{Migration, Read, Reading, take};

/// What the bytes of a type look like.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Schema(String);

impl Schema {
    /// Derives the schema of `T` by deserialising it from made-up input and noting what it asks for.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if `T` refuses made-up input (such as a date that parses text) or
    /// needs a format that describes itself, which postcard is not.
    pub fn of<T: DeserializeOwned>() -> Result<Self> {
        trace::trace::<T>().map(Self).map_err(|reason| {
            let message = format!(
                "no schema can be derived for `{}`; declare the state with \
                 `Descriptor::new(name).with_schema(\"…\")`",
                any::type_name::<T>()
            );
            Error::new(ErrorKind::Invalid, message).with_source(reason)
        })
    }

    /// A schema in the user's words.
    pub fn explicit(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
