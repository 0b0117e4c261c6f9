//! Values as postcard, appended to what is there.
//!
//! A snapshot does this for every entry, so a small value must not cost a call per field: postcard's own
//! outputs take each varint through a `memcpy` of a length that the compiler does not know, which was a
//! quarter of a snapshot's time.

use postcard::{Error, ser_flavors::Flavor, serialize_with_flavor};
use serde::Serialize;

/// What most values fit into.
const SMALL: usize = 64;

/// Appends `value` as postcard. After an error `out` is as it was.
#[inline]
pub(crate) fn append(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(&[0; SMALL]);
    let tail = Tail {
        bytes: &mut out[start..],
        length: 0,
    };
    let written = serialize_with_flavor(value, tail);
    out.truncate(start + written.as_ref().map_or(0, |length| *length));
    match written {
        Ok(_) => Ok(()),
        Err(Error::SerializeBufferFull) => append_large(value, out),
        Err(error) => Err(error),
    }
}

#[cold]
fn append_large(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let written = serialize_with_flavor(value, Onto(out));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Room for a small value.
struct Tail<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Flavor for Tail<'_> {
    type Output = usize;

    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> Result<(), Error> {
        let end = self.length + data.len();
        let room = self.bytes.get_mut(self.length..end);
        copy(data, room.ok_or(Error::SerializeBufferFull)?);
        self.length = end;
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, byte: u8) -> Result<(), Error> {
        let room = self.bytes.get_mut(self.length);
        *room.ok_or(Error::SerializeBufferFull)? = byte;
        self.length += 1;
        Ok(())
    }

    #[inline]
    fn finalize(self) -> Result<usize, Error> {
        Ok(self.length)
    }
}

/// Room for any value.
struct Onto<'a>(&'a mut Vec<u8>);

impl Flavor for Onto<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> Result<(), Error> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> Result<(), Error> {
        Ok(())
    }
}

/// Copies a few bytes as two pieces of a length known to the compiler, which overlap.
#[inline]
fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..4 => both_ends::<2>(from, to),
        4..8 => both_ends::<4>(from, to),
        8..=16 => both_ends::<8>(from, to),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn both_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    let last = from.len() - N;
    to[..N].copy_from_slice(&from[..N]);
    to[last..].copy_from_slice(&from[last..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: impl Serialize) {
        let mut out = vec![9];
        append(&value, &mut out).unwrap();
        let expected = postcard::to_extend(&value, vec![9]).unwrap();
        assert_eq!(out, expected);
    }

    #[test]
    fn it_appends_what_postcard_writes() {
        for bits in 0..64 {
            check((1_u64 << bits, i64::MIN >> bits));
        }
        for length in 0..200 {
            check(vec![7_u8; length]);
            check("x".repeat(length));
        }
    }

    #[test]
    fn a_value_that_refuses_leaves_nothing_behind() {
        struct Refuses(usize);
        impl Serialize for Refuses {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::{Error as _, SerializeTuple};
                let mut tuple = serializer.serialize_tuple(self.0 + 1)?;
                for _ in 0..self.0 {
                    tuple.serialize_element(&u64::MAX)?;
                }
                Err(S::Error::custom("no"))
            }
        }
        for length in [0, 3, 6, 7, 100] {
            let mut out = vec![1, 2, 3];
            append(&Refuses(length), &mut out).unwrap_err();
            assert_eq!(out, [1, 2, 3], "{length}");
        }
    }
}
