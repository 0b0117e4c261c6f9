//! The few encodings that the stored formats are made of.
//!
//! Integers are fixed and little-endian; a sequence is its length (u32) and its items; an option is
//! a byte, 0 or 1, and the value. Decoding is strict: every other byte is an error, and so is a rest
//! that nobody read. So equal values have equal bytes, and the root hash is a function of the value.

use std::str;

use bytes::{Buf, BufMut, Bytes};

use crate::{Error, Result};

/// Appends values to bytes.
#[derive(Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.put_u16_le(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.put_u32_le(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.put_u64_le(value);
    }

    /// # Panics
    ///
    /// Above `u32::MAX`: a metadata with 4 Gi of anything does not fit in memory first.
    pub(crate) fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("at most u32::MAX items or bytes inline"));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.put_slice(bytes);
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            encode(self, value);
        }
    }

    pub(crate) fn all<T>(&mut self, items: &[T], encode: impl Fn(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            encode(self, item);
        }
    }
}

/// Takes values from bytes, and knows which object and offset to blame.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    path: &'a str,
    all: usize,
    rest: Bytes,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(path: &'a str, bytes: Bytes) -> Self {
        Self {
            path,
            all: bytes.len(),
            rest: bytes,
        }
    }

    /// The object that is decoded.
    pub(crate) fn path(&self) -> &str {
        self.path
    }

    /// An error about the bytes last taken.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::corrupt(self.path, reason).at((self.all - self.rest.len()) as u64)
    }

    fn take(&mut self, length: usize) -> Result<Bytes> {
        if length > self.rest.len() {
            return Err(self.error("ends in the middle of a value"));
        }
        Ok(self.rest.split_to(length))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?.get_u8())
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error("has a flag that is neither 0 nor 1")),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(self.take(2)?.get_u16_le())
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(self.take(4)?.get_u32_le())
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(self.take(8)?.get_u64_le())
    }

    fn length(&mut self) -> Result<usize> {
        let length = self.u32()?;
        usize::try_from(length).map_err(|_| self.error("has a length beyond this machine's memory"))
    }

    /// Shares the memory of what is decoded.
    pub(crate) fn bytes(&mut self) -> Result<Bytes> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        match str::from_utf8(&bytes) {
            Ok(string) => Ok(string.to_owned()),
            Err(_) => Err(self.error("has a name that is not UTF-8")),
        }
    }

    pub(crate) fn option<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        self.bool()?.then(|| decode(self)).transpose()
    }

    pub(crate) fn all<T>(
        &mut self,
        mut decode: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let length = self.length()?;
        // Grows as items are really there: a forged length must not reserve 4 Gi items.
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(decode(self)?);
        }
        Ok(items)
    }

    pub(crate) fn end(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error("goes on after its end"))
        }
    }
}
