//! Where a state lives: operator, name, owned key groups. Locates keys, and words errors.

use std::{fmt, sync::Arc};

use cutwater_keygroups::{Grouping, Key, KeyGroup, KeyGroupRange, KeyHash, MaxParallelism};

use crate::{Error, ErrorKind, Keyed, Result};

/// One operator subtask's share of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) uid: Arc<str>,
    pub(crate) groups: KeyGroupRange,
    pub(crate) max_parallelism: MaxParallelism,
}

/// A scope, and the state in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    scope: Scope,
    state: Arc<str>,
}

impl Place {
    pub(crate) fn new(scope: Scope, state: &str) -> Self {
        Self {
            scope,
            state: state.into(),
        }
    }

    pub(crate) fn groups(&self) -> KeyGroupRange {
        self.scope.groups
    }

    /// How many groups are owned.
    pub(crate) fn count(&self) -> usize {
        self.scope.groups.len()
    }

    #[inline]
    pub(crate) fn group(&self, grouping: Grouping, hash: KeyHash) -> KeyGroup {
        grouping.group(hash, self.scope.max_parallelism)
    }

    /// The number of a key's group among the owned ones, from zero.
    #[inline]
    pub(crate) fn locate<K: Key, N>(&self, keyed: &Keyed<'_, K, N>) -> Result<usize> {
        let group = self.group(K::GROUPING, keyed.hash());
        if self.scope.groups.contains(group) {
            Ok(usize::from(group.get() - self.scope.groups.start()))
        } else {
            Err(self.wrong_group(keyed, group))
        }
    }

    #[cold]
    fn wrong_group<K: Key, N>(&self, keyed: &Keyed<'_, K, N>, group: KeyGroup) -> Error {
        let (start, end) = (self.scope.groups.start(), self.scope.groups.end());
        let message = format!(
            "{self}: key {:?} is of key group {group}, and this subtask owns {start}..{end}; its hash \
             is not stable, or the record was sent to the wrong subtask",
            keyed.key(),
        );
        Error::new(ErrorKind::WrongGroup, message)
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
