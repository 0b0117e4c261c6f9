//! Text and byte strings as keys.
//!
//! Encoded so that the end is found without a length in front, which would sort short before
//! early: a `00` byte becomes `00 FF`, and `00 01` ends the key (as in CockroachDB's key encoding).
//! The end sorts before any continuation, so "a" comes before "a\0" and "ab".

use alloc::{borrow::ToOwned, boxed::Box, format, string::String, sync::Arc, vec::Vec};

use super::{DecodeError, Key, take};
use crate::{Grouping, KeyHash};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x01;

macro_rules! string_key {
    ($($string:ty, from $from:ident, called $schema:literal;)+) => {$(
        impl Key for $string {
            const GROUPING: Grouping = Grouping::Xxh64;

            #[inline]
            fn key_hash(&self) -> KeyHash {
                KeyHash::of_bytes((**self).as_ref())
            }

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                encode_escaped((**self).as_ref(), out);
            }

            #[inline]
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                $from(decode_escaped(bytes)?).map(Self::from)
            }

            fn schema() -> String {
                $schema.to_owned()
            }
        }
    )+};
}

string_key! {
    String, from text, called "string";
    Box<str>, from text, called "string";
    Arc<str>, from text, called "string";
    Vec<u8>, from bytes, called "bytes";
    Box<[u8]>, from bytes, called "bytes";
    Arc<[u8]>, from bytes, called "bytes";
}

impl<const N: usize> Key for [u8; N] {
    const GROUPING: Grouping = Grouping::Xxh64;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        KeyHash::of_bytes(self)
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        take(bytes)
    }

    fn schema() -> String {
        format!("[u8; {N}]")
    }
}

fn text(decoded: Vec<u8>) -> Result<String, DecodeError> {
    String::from_utf8(decoded).map_err(|_| DecodeError::Utf8)
}

fn bytes(decoded: Vec<u8>) -> Result<Vec<u8>, DecodeError> {
    Ok(decoded)
}

fn encode_escaped(key: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + 2);
    let mut pieces = key.split(|&byte| byte == ESCAPE);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&[ESCAPE, END]);
}

fn decode_escaped(bytes: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = Vec::new();
    loop {
        let escape = bytes
            .iter()
            .position(|&byte| byte == ESCAPE)
            .ok_or(DecodeError::Truncated)?;
        decoded.extend_from_slice(&bytes[..escape]);
        let code = *bytes.get(escape + 1).ok_or(DecodeError::Truncated)?;
        *bytes = &bytes[escape + 2..];
        match code {
            END => return Ok(decoded),
            ESCAPED_ZERO => decoded.push(0),
            _ => return Err(DecodeError::Escape),
        }
    }
}
