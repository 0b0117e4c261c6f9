//! What a state is declared with: its name, and its schema if that cannot be derived.

use crate::Schema;

/// Names a state of an operator. A plain `"name"` will do in most places that take one.
///
/// The name is the state's identity across restarts, together with the operator's uid. The schema
/// is derived from the type's `Deserialize`; a type for which that fails is declared with an
/// explicit one:
///
/// ```
/// # use cutwater_state::Descriptor;
/// let descriptor = Descriptor::new("last-seen").with_schema("rfc3339 text");
/// ```
#[derive(Clone, Debug)]
pub struct Descriptor {
    pub(crate) name: String,
    pub(crate) schema: Option<Schema>,
}

impl Descriptor {
    /// A state called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            schema: None,
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
}

impl From<&str> for Descriptor {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Descriptor {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
