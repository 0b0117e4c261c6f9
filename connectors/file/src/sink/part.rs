//! What a checkpoint says about a file of the sink: its name, and which of its bytes count.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use cutwater_barrier::Generation;
use cutwater_sink_2pc::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::Xxh64;

/// A token, if the file is closed; a piece of writer state, if it is open.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Part {
    pub(super) generation: Generation,
    pub(super) name: String,
    /// Bytes that count. An open file may have more.
    pub(super) length: u64,
    /// XXH64, seed 0, of these.
    pub(super) hash: u64,
}

#[derive(Serialize, Deserialize)]
struct Encoded<'a>(u64, &'a str, u64, u64);

const VERSION: u8 = 1;

impl Part {
    pub(super) fn encode(&self) -> Vec<u8> {
        let fields = Encoded(self.generation.get(), &self.name, self.length, self.hash);
        postcard::to_extend(&fields, vec![VERSION]).expect("numbers and a string are encodable")
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let refused = |reason: String| Error::new("reading the name of a staged file", reason);
        match bytes.split_first() {
            Some((&VERSION, bytes)) => {
                let fields = postcard::take_from_bytes(bytes);
                let (Encoded(generation, name, length, hash), rest) =
                    fields.map_err(|error| refused(error.to_string()))?;
                // The name comes from a file of its own: it must not lead out of the directory.
                if !rest.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
                    return Err(refused("not a token of this sink".to_owned()));
                }
                Ok(Self {
                    generation: Generation::new(generation),
                    name: name.to_owned(),
                    length,
                    hash,
                })
            }
            Some((version, _)) => Err(refused(format!(
                "format version {version}, only {VERSION} is known"
            ))),
            None => Err(refused("no bytes".to_owned())),
        }
    }

    /// Whether the file at `path` is this part: no byte more or less.
    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() != self.length {
            return Ok(false);
        }
        let mut hash = Xxh64::new(0);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hash.digest() == self.hash),
                read => hash.update(&buffer[..read]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: version 1, which keeps decoding.
    #[test]
    fn version_1_bytes_decode() {
        let bytes = b"\x01\x03\x0aj.u-3.json\x80\x01\x07";
        let part = Part::decode(bytes).unwrap();
        assert_eq!(part.generation, Generation::new(3));
        assert_eq!(
            (&*part.name, part.length, part.hash),
            ("j.u-3.json", 128, 7)
        );
        assert_eq!(part.encode(), bytes);
    }

    #[test]
    fn a_token_that_is_damaged_or_leads_elsewhere_is_refused() {
        let part = |name: &str| Part {
            generation: Generation::new(1),
            name: name.to_owned(),
            length: 1,
            hash: 1,
        };
        for bytes in [
            vec![],
            vec![9, 1],
            vec![1, 1],
            [part("a").encode(), vec![0]].concat(),
            part("../a").encode(),
            part(".a").encode(),
        ] {
            assert!(Part::decode(&bytes).is_err(), "{bytes:?}");
        }
    }
}
