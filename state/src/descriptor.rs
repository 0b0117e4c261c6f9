//! What a state is declared with: its name, its schema if that cannot be derived, and its history.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result, Schema, names::Names, schema::Migration};

/// Names a state of an operator, whose elements are of type `T`: values, elements of a list, or keys and values
/// of a map. A plain `"name"` will do in most places that take one.
///
/// The name is the state's identity across restarts, together with the operator's uid. The schema
/// is derived from the type's `Deserialize`; a type for which that fails is declared with an
/// explicit one:
///
/// ```
/// # use cutwater_state::Descriptor;
/// let descriptor = Descriptor::<String>::new("last-seen").with_schema("rfc3339 text");
/// ```
///
/// # When a state changes
///
/// | restored | declared | what happens |
/// |---|---|---|
/// | `T` | the same | read as it is |
/// | `T` | the same, but enums have got more variants at their ends | read as it is |
/// | `Old` | `T`, with [`migrate_from::<Old>`](Self::migrate_from) | each element is converted as it is read, and stored as `T` from the next snapshot on |
/// | under another name | with that name as [`formerly`](Self::formerly) | as under its own |
/// | not at all | a new name | starts empty |
/// | a name | not at all | refused by the driver, unless told to drop it ([`undeclared`](crate::KeyedStates::undeclared)) |
/// | anything else | | refused, with both schemas in the message |
///
/// Keys and namespaces may become newtypes of what they were; other changes would move entries, and are refused.
#[derive(Clone, Debug)]
pub struct Descriptor<T> {
    pub(crate) names: Names,
    pub(crate) schema: Option<Schema>,
    pub(crate) migrations: Vec<Migration<T>>,
}

impl<T> Descriptor<T> {
    /// A state called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            names: Names::new(name.into()),
            schema: None,
            migrations: Vec::new(),
        }
    }

    /// States what the stored bytes mean, instead of having it derived. Restoring compares the
    /// text; change it when the bytes change.
    ///
    /// For a map state it stands for key and value together.
    #[must_use]
    pub fn with_schema(self, schema: impl Into<String>) -> Self {
        Self {
            schema: Some(Schema::explicit(schema)),
            ..self
        }
    }

    /// The state was called `name` before. Several calls name several.
    #[must_use]
    pub fn formerly(mut self, name: impl Into<String>) -> Self {
        self.names.add_former(name.into());
        self
    }

    /// Restores elements that were stored as `Old` by means of `convert`. Several calls name several
    /// older types.
    ///
    /// ```
    /// use cutwater_state::Descriptor;
    ///
    /// let miles = Descriptor::<u64>::new("miles").migrate_from(|miles: u32| u64::from(miles));
    /// ```
    #[must_use]
    pub fn migrate_from<Old: DeserializeOwned>(
        mut self,
        convert: impl Fn(Old) -> T + Send + Sync + 'static,
    ) -> Self {
        let schema = Schema::of::<Old>();
        self.migrations.push(Migration::new(schema, convert));
        self
    }

    /// As [`migrate_from`](Self::migrate_from), for elements that were stored with an explicit schema.
    #[must_use]
    pub fn migrate_from_schema<Old: DeserializeOwned>(
        mut self,
        schema: impl Into<String>,
        convert: impl Fn(Old) -> T + Send + Sync + 'static,
    ) -> Self {
        let schema = Ok(Schema::explicit(schema));
        self.migrations.push(Migration::new(schema, convert));
        self
    }

    /// What the stored elements look like.
    pub(crate) fn schema(&self, place: &impl fmt::Display) -> Result<Schema>
    where
        T: DeserializeOwned,
    {
        if let Some(reason) = self.migrations.iter().find_map(Migration::error) {
            let message = format!("{place}: one of its migrations cannot apply");
            return Err(Error::new(ErrorKind::Invalid, message).with_source(reason));
        }
        self.schema.clone().map_or_else(Schema::of::<T>, Ok)
    }
}

impl<T> From<&str> for Descriptor<T> {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl<T> From<String> for Descriptor<T> {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
