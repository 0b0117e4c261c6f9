//! The keys of rows: key group, state, key, namespace.
//!
//! ```text
//! key group, 2 bytes big-endian │ state, 4 bytes big-endian │ `Key::encode` of key and namespace
//! ```
//!
//! So a key group is one contiguous range, which is what a rescale hands over, and a state's part of it
//! is another. Within it rows are in the order of keys.

/// Bytes before the encoded key.
pub(crate) const HEAD: usize = 6;

/// Stands for a state in its rows: the checksum of the name under which it was first declared.
///
/// It depends on nothing but the name, so that stores of different subtasks, which need not have
/// declared the same states in the same order, can be put together.
#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
)]
pub(crate) struct StateId(u32);

impl StateId {
    pub(crate) fn of(name: &str) -> Self {
        Self(crc32c::crc32c(name.as_bytes()))
    }

    /// Another one, if this is taken.
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// Appends what the rows of a state in a key group start with.
pub(crate) fn start(group: u16, state: StateId, out: &mut Vec<u8>) {
    out.extend(group.to_be_bytes());
    out.extend(state.0.to_be_bytes());
}

/// The state of the row with this key.
pub(crate) fn state(key: &[u8]) -> Option<StateId> {
    let state = key.get(2..HEAD)?.first_chunk()?;
    Some(StateId(u32::from_be_bytes(*state)))
}

/// The range of a state's rows in a key group.
pub(crate) fn range(group: u16, state: StateId) -> ([u8; HEAD], [u8; HEAD]) {
    let head = u64::from(group) << 32 | u64::from(state.0);
    let bytes = |head: u64| {
        let [0, 0, bytes @ ..] = head.to_be_bytes() else {
            unreachable!("at most 32768 key groups");
        };
        bytes
    };
    (bytes(head), bytes(head + 1))
}

/// The first key after all that start with `prefix`; `None` if there is no such key.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::{HEAD, StateId, after, range, start};

    #[test]
    fn a_range_starts_at_its_state_and_ends_at_the_next() {
        let rows = |group, state| {
            let mut key = Vec::new();
            start(group, StateId(state), &mut key);
            <[u8; HEAD]>::try_from(key).unwrap()
        };
        let (from, to) = range(3, StateId(7));
        assert_eq!(from, rows(3, 7));
        assert_eq!(super::state(&from), Some(StateId(7)));
        assert_eq!(to, rows(3, 8));
        let (_, to) = range(3, StateId(u32::MAX));
        assert_eq!(to, rows(4, 0));
    }

    #[test]
    fn what_comes_after_a_prefix_does_not_start_with_it() {
        assert_eq!(after(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after(&[0xff]), None);
    }

    #[test]
    fn a_state_is_known_by_its_name_alone() {
        assert_eq!(StateId::of("total"), StateId(0xe2cd_a571));
    }
}
