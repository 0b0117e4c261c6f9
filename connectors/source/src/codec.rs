//! Splits as the bytes that stand in a checkpoint.
//!
//! A version byte, then postcard. What a split type writes is its own promise: a field added to it
//! later needs a new variant or a new type, as old bytes keep decoding.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result, Split};

const VERSION: u8 = 1;

/// The bytes of `splits`, for the state of one subtask.
pub fn encode_splits<S: Split>(splits: &[S]) -> Vec<u8> {
    encode(splits)
}

/// What [`encode_splits`] wrote.
pub fn decode_splits<S: Split>(bytes: &[u8]) -> Result<Vec<S>> {
    decode(bytes, "splits")
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("a split's serialization into memory succeeds")
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    let corrupt = |reason: String| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "cannot restore the source's {what}: {reason}; restore another checkpoint, or one \
                 this source wrote"
            ),
        )
    };
    let (version, rest) = bytes
        .split_first()
        .ok_or_else(|| corrupt("no bytes".to_owned()))?;
    if *version != VERSION {
        return Err(corrupt(format!(
            "format version {version}, only {VERSION} is known"
        )));
    }
    let (value, rest) = postcard::take_from_bytes(rest)
        .map_err(|error| corrupt("the bytes do not decode".to_owned()).with_source(error))?;
    if !rest.is_empty() {
        return Err(corrupt(format!("{} bytes too many", rest.len())));
    }
    Ok(value)
}
