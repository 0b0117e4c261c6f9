//! The current key, as every access to a keyed state takes it, and how it is stored.

use cutwater_keygroups::{DecodeError, Grouping, Key, KeyHash};

use crate::table::Lookup;

/// A key with its hash, which was computed once, at the key-by, and travels with the record.
///
/// The hash picks the key group (upper 32 bits) and the table slot (lower 32 bits). A hash that is
/// not the key's leads to [`WrongGroup`](crate::ErrorKind::WrongGroup) or to a second, separate
/// entry for the key, or one that is no longer found; it is not checked here.
///
/// States with namespaces ([`KeyedStates::namespaced`](crate::KeyedStates::namespaced)) are accessed
/// [`at`](Self::at) one of them.
#[derive(Debug)]
pub struct Keyed<'a, K, N = ()> {
    key: &'a K,
    namespace: N,
    /// Of the key alone.
    hash: KeyHash,
}

// Not derived: that would ask for a `Copy` key.
impl<K, N: Copy> Copy for Keyed<'_, K, N> {}

impl<K, N: Clone> Clone for Keyed<'_, K, N> {
    fn clone(&self) -> Self {
        Self {
            namespace: self.namespace.clone(),
            ..*self
        }
    }
}

impl<'a, K: Key> Keyed<'a, K> {
    /// Hashes `key`.
    pub fn new(key: &'a K) -> Self {
        Self::with_hash(key, key.key_hash())
    }

    /// `key` with the hash that travelled with its record.
    #[inline]
    pub const fn with_hash(key: &'a K, hash: KeyHash) -> Self {
        Self {
            key,
            namespace: (),
            hash,
        }
    }

    /// The key in one of its namespaces, such as a window.
    #[inline]
    pub fn at<N: Key>(self, namespace: N) -> Keyed<'a, K, N> {
        self.within(|()| namespace)
    }
}

impl<'a, K, N> Keyed<'a, K, N> {
    /// The key.
    #[inline]
    pub const fn key(&self) -> &'a K {
        self.key
    }

    /// The namespace.
    #[inline]
    pub const fn namespace(&self) -> &N {
        &self.namespace
    }

    /// The key's hash.
    #[inline]
    pub const fn hash(&self) -> KeyHash {
        self.hash
    }

    pub(crate) fn into_namespace(self) -> N {
        self.namespace
    }

    /// The key in the namespace that `inner` makes of this one.
    #[inline]
    pub(crate) fn within<I>(self, inner: impl FnOnce(N) -> I) -> Keyed<'a, K, I> {
        Keyed {
            key: self.key,
            namespace: inner(self.namespace),
            hash: self.hash,
        }
    }
}

impl<K, N: Key> Keyed<'_, K, N> {
    /// The hash of key and namespace.
    #[inline]
    pub(crate) fn address_hash(&self) -> KeyHash {
        address_hash(self.hash, &self.namespace)
    }
}

impl<K: Key, N: Key> Lookup<Address<K, N>> for &Keyed<'_, K, N> {
    #[inline]
    fn is(self, found: &Address<K, N>) -> bool {
        *self.key == found.key && self.namespace == found.namespace
    }

    #[inline]
    fn stored(self) -> Address<K, N> {
        Address {
            key: self.key.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

/// A key and a namespace, as they stand in the table and in snapshots: one after the other.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Address<K, N> {
    pub(crate) key: K,
    pub(crate) namespace: N,
}

impl<K: Key, N: Key> Key for Address<K, N> {
    const GROUPING: Grouping = K::GROUPING;

    #[inline]
    fn key_hash(&self) -> KeyHash {
        address_hash(self.key.key_hash(), &self.namespace)
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.key.encode(out);
        self.namespace.encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            key: K::decode(bytes)?,
            namespace: N::decode(bytes)?,
        })
    }

    fn schema() -> String {
        <(K, N)>::schema()
    }
}

/// The hash of a key in a namespace: the upper half stays the key's, so all its namespaces are in its
/// group. A type without size has one value only, and leaves the hash as it is.
#[inline]
fn address_hash<N: Key>(key: KeyHash, namespace: &N) -> KeyHash {
    if size_of::<N>() == 0 {
        return key;
    }
    let both = key.then(namespace.key_hash());
    let upper = u64::from(key.upper()) << 32;
    KeyHash(upper | u64::from(both.lower()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_changes_the_lower_half_only_and_none_changes_nothing() {
        let key = "N14228".to_owned();
        let keyed = Keyed::new(&key);
        assert_eq!(keyed.at(()).address_hash(), keyed.hash());
        let (seven, eight) = (keyed.at(7_u32), keyed.at(8_u32));
        assert_eq!(seven.address_hash().upper(), keyed.hash().upper());
        assert_ne!(seven.address_hash().lower(), keyed.hash().lower());
        assert_ne!(seven.address_hash(), eight.address_hash());
        assert_eq!((&seven).stored().key_hash(), seven.address_hash());
    }
}
