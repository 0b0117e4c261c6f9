//! The current key, as every access to a keyed state takes it.

use cutwater_keygroups::{Key, KeyHash};

/// A key with its hash, which was computed once, at the key-by, and travels with the record.
///
/// The hash picks the key group (upper 32 bits) and the table slot (lower 32 bits). A hash that is
/// not the key's leads to [`WrongGroup`](crate::ErrorKind::WrongGroup) or to a second, separate
/// entry for the key, or one that is no longer found; it is not checked here.
#[derive(Debug)]
pub struct Keyed<'a, K> {
    key: &'a K,
    hash: KeyHash,
}

// Not derived: that would ask for a `Copy` key.
impl<K> Copy for Keyed<'_, K> {}

impl<K> Clone for Keyed<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, K: Key> Keyed<'a, K> {
    /// Hashes `key`.
    pub fn new(key: &'a K) -> Self {
        Self {
            key,
            hash: key.key_hash(),
        }
    }

    /// `key` with the hash that travelled with its record.
    #[inline]
    pub const fn with_hash(key: &'a K, hash: KeyHash) -> Self {
        Self { key, hash }
    }

    /// The key.
    #[inline]
    pub const fn key(self) -> &'a K {
        self.key
    }

    /// Its hash.
    #[inline]
    pub const fn hash(self) -> KeyHash {
        self.hash
    }
}
