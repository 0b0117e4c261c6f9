//! Where a state lives: operator, name, owned key groups. Locates keys, and words errors.

use std::{fmt, sync::Arc};

use cutwater_keygroups::{Grouping, Key, KeyGroup, KeyGroupRange, KeyHash, MaxParallelism};

use crate::{
    Error, ErrorKind, Keyed, Result,
    encoded::{RowStore, StateId},
};

/// One operator subtask's share of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) uid: Arc<str>,
    pub(crate) groups: KeyGroupRange,
    pub(crate) max_parallelism: MaxParallelism,
    /// Where the rows are that are not in memory.
    pub(crate) store: Option<Arc<RowStore>>,
}

/// A scope, and the state in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    scope: Scope,
    state: Arc<str>,
    id: StateId,
}

impl Place {
    pub(crate) fn new(scope: Scope, state: &str, id: StateId) -> Self {
        Self {
            scope,
            state: state.into(),
            id,
        }
    }

    pub(crate) fn with_id(self, id: StateId) -> Self {
        Self { id, ..self }
    }

    /// What stands for the state in the keys of its rows.
    pub(crate) fn id(&self) -> StateId {
        self.id
    }

    pub(crate) fn store(&self) -> Option<&Arc<RowStore>> {
        self.scope.store.as_ref()
    }

    pub(crate) fn groups(&self) -> KeyGroupRange {
        self.scope.groups
    }

    /// How many groups are owned.
    pub(crate) fn count(&self) -> usize {
        self.scope.groups.len()
    }

    /// The owned group with this number.
    pub(crate) fn group_at(&self, number: usize) -> u16 {
        let number = u16::try_from(number).expect("groups are numbered in 16 bits");
        self.scope.groups.start() + number
    }

    /// The number of an owned group among the owned ones.
    pub(crate) fn number_of(&self, group: KeyGroup) -> usize {
        usize::from(group.get() - self.scope.groups.start())
    }

    /// The number of a hash's group among the owned ones; [`count`](Self::count) or more if it is not owned.
    #[inline]
    pub(crate) fn number(&self, grouping: Grouping, hash: KeyHash) -> usize {
        let group = self.group(grouping, hash).get();
        usize::from(group.wrapping_sub(self.scope.groups.start()))
    }

    /// As [`number`](Self::number), or `None` if it is not owned.
    #[inline]
    pub(crate) fn owned(&self, grouping: Grouping, hash: KeyHash) -> Option<usize> {
        let number = self.number(grouping, hash);
        (number < self.count()).then_some(number)
    }

    #[inline]
    pub(crate) fn group(&self, grouping: Grouping, hash: KeyHash) -> KeyGroup {
        grouping.group(hash, self.scope.max_parallelism)
    }

    /// The number of a key's group among the owned ones, from zero.
    #[inline]
    pub(crate) fn locate<K: Key, N>(&self, keyed: &Keyed<'_, K, N>) -> Result<usize> {
        self.owned(K::GROUPING, keyed.hash())
            .ok_or_else(|| self.wrong_group(keyed))
    }

    #[cold]
    fn wrong_group<K: Key, N>(&self, keyed: &Keyed<'_, K, N>) -> Error {
        let group = self.group(K::GROUPING, keyed.hash());
        let (start, end) = (self.scope.groups.start(), self.scope.groups.end());
        let message = format!(
            "{self}: key {:?} is of key group {group}, and this subtask owns {start}..{end}; its hash \
             is not stable, or the record was sent to the wrong subtask",
            keyed.key(),
        );
        Error::new(ErrorKind::WrongGroup, message)
    }

    pub(crate) fn not_serialisable(&self, error: postcard::Error) -> Error {
        let message = format!("{self}: a value refuses to be serialised");
        Error::new(ErrorKind::Invalid, message).with_source(error)
    }

    pub(crate) fn corrupt(&self, object: &str, reason: &str) -> Error {
        let message = format!("{self}: `{object}`: {reason}; restore from an older checkpoint");
        Error::new(ErrorKind::Corrupt, message)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator `{}`, state `{}`", self.scope.uid, self.state)
    }
}
