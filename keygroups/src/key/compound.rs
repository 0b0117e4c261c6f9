//! Keys of several parts or none, and types of one's own.

use alloc::{format, string::String, vec::Vec};

use super::{DecodeError, Key};
use crate::{Grouping, KeyHash};

macro_rules! tuple_key {
    ($($first:ident $(, $part:ident)+;)+) => {$(
        impl<$first: Key $(, $part: Key)+> Key for ($first, $($part),+) {
            const GROUPING: Grouping = Grouping::Xxh64;

            #[inline]
            #[expect(non_snake_case, reason = "a part is called by its type")]
            fn key_hash(&self) -> KeyHash {
                let ($first, $($part),+) = self;
                $first.key_hash()$(.then($part.key_hash()))+
            }

            #[inline]
            #[expect(non_snake_case, reason = "a part is called by its type")]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($first, $($part),+) = self;
                $first.encode(out);
                $($part.encode(out);)+
            }

            #[inline]
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($first::decode(bytes)?, $($part::decode(bytes)?),+))
            }

            fn schema() -> String {
                __schema(&[$first::schema(), $($part::schema()),+])
            }
        }
    )+};
}

tuple_key! {
    A, B;
    A, B, C;
    A, B, C, D;
}

/// The only key of a job that has one key, and the namespace of states that have none.
impl Key for () {
    const GROUPING: Grouping = Grouping::Xxh64;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        KeyHash::of_bytes(&[])
    }

    #[inline]
    fn encode(&self, _: &mut Vec<u8>) {}

    #[inline]
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }

    fn schema() -> String {
        __schema(&[])
    }
}

/// Makes a struct of keys a key: name its fields, in the order in which they are declared.
///
/// A struct of one field hashes, groups and encodes as that field, so a newtype can be introduced
/// without moving a key. One of several fields is as the tuple of them. The order must be the
/// declaration's, because that is the order by which `derive(Ord)` compares. A generic type needs
/// its own `impl Key`.
///
/// ```
/// use cutwater_keygroups::{Key, key};
///
/// #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct TailNumber(String);
/// key!(TailNumber { 0 });
///
/// #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Leg { from: [u8; 3], to: [u8; 3] }
/// key!(Leg { from, to });
///
/// assert_eq!(TailNumber("N14228".into()).key_hash(), "N14228".to_owned().key_hash());
/// assert_eq!(Leg { from: *b"EWR", to: *b"IAH" }.key_hash(), (*b"EWR", *b"IAH").key_hash());
/// ```
#[macro_export]
macro_rules! key {
    ($type:ident { $first:tt $(, $field:tt)* $(,)? }) => {
        impl $crate::Key for $type {
            const GROUPING: $crate::Grouping =
                $crate::__grouping!(|this: &Self| &this.$first $(, $field)*);

            #[inline]
            fn key_hash(&self) -> $crate::KeyHash {
                $crate::Key::key_hash(&self.$first)$(.then($crate::Key::key_hash(&self.$field)))*
            }

            #[inline]
            fn encode(&self, out: &mut $crate::__Vec<u8>) {
                $crate::Key::encode(&self.$first, out);
                $($crate::Key::encode(&self.$field, out);)*
            }

            #[inline]
            fn decode(bytes: &mut &[u8]) -> ::core::result::Result<Self, $crate::DecodeError> {
                // Evaluated as written, so the fields are taken in their order.
                ::core::result::Result::Ok(Self {
                    $first: $crate::Key::decode(bytes)?,
                    $($field: $crate::Key::decode(bytes)?,)*
                })
            }

            fn schema() -> $crate::__String {
                $crate::__schema(&[
                    $crate::__schema_of(|this: &Self| &this.$first),
                    $($crate::__schema_of(|this: &Self| &this.$field),)*
                ])
            }
        }
    };
}

/// A single field groups as itself, several as a tuple does.
#[doc(hidden)]
#[macro_export]
macro_rules! __grouping {
    ($only:expr) => {
        $crate::__grouping_of($only)
    };
    ($first:expr $(, $field:tt)+) => {
        $crate::Grouping::Xxh64
    };
}

/// The grouping of the field that `_field` borrows: the macro knows its name, not its type.
#[doc(hidden)]
pub const fn __grouping_of<S, F: Key>(_field: fn(&S) -> &F) -> Grouping {
    F::GROUPING
}

/// The schema of a key of these parts: of one part, that part's.
#[doc(hidden)]
pub fn __schema(parts: &[String]) -> String {
    match parts {
        [only] => only.clone(),
        _ => format!("({})", parts.join(", ")),
    }
}

/// The schema of the field that `_field` borrows: the macro knows its name, not its type.
#[doc(hidden)]
pub fn __schema_of<S, F: Key>(_field: fn(&S) -> &F) -> String {
    F::schema()
}
