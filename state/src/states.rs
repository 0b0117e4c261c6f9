//! The registry: all keyed states of one operator subtask, declared by name.

use std::{
    any::{self, Any},
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, KeyHash, MaxParallelism};

use crate::{
    Aggregate, AggregatingState, Data, Declare, Descriptor, Error, ErrorKind, Handle, Keyed,
    ListState, MapState, Reduce, ReducingState, Restored, Result, SnapshotTask, Timers, ValueState,
    format::{Manifest, Shape, State},
    keyed_table::{KeyedState, TypedState},
    names::Names,
    place::{Place, Scope},
    restore::{Expected, Old},
    schema,
    snapshot::{Form, History},
};

/// The keyed states of one operator subtask. `Send`, owned by the task, without locks.
///
/// States are declared by name, before the first record; the handle that comes back is what
/// accesses take: `states[total].update(keyed, …)`. Indexing finds the state again each time
/// (a check of type, some nanoseconds); a loop over a batch does it once:
///
/// ```
/// # use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
/// # use cutwater_state::{Keyed, KeyedStates};
/// # let max = MaxParallelism::new(128).unwrap();
/// # let mut states = KeyedStates::<u64>::new("sum", KeyGroupRange::new(0, 128), max);
/// let total = states.value::<i64>("total")?;
/// # let batch = [(7_u64, 5_i64)];
/// let total = &mut states[total];
/// for (key, amount) in &batch {
///     *total.or_insert_with(Keyed::new(key), || 0)? += amount;
/// }
/// # Ok::<(), cutwater_state::Error>(())
/// ```
pub struct KeyedStates<K> {
    scope: Scope,
    states: Vec<Declared>,
    /// Snapshots to restore from. Read when a state is declared.
    old: Vec<Old>,
    /// What later snapshots may build on.
    history: History,
    key: PhantomData<fn() -> K>,
}

struct Declared {
    names: Names,
    shape: Shape,
    state: Box<dyn KeyedState>,
}

impl<K: Key> KeyedStates<K> {
    /// No states yet, for the key groups `groups` out of `max_parallelism`, of the operator `uid`.
    pub fn new(uid: &str, groups: KeyGroupRange, max_parallelism: MaxParallelism) -> Self {
        Self {
            scope: Scope {
                uid: uid.into(),
                groups,
                max_parallelism,
            },
            states: Vec::new(),
            old: Vec::new(),
            history: History::default(),
            key: PhantomData,
        }
    }

    /// As [`new`](Self::new), with states to come from the snapshots `old` as they are declared.
    ///
    /// `old` are those of all old subtasks whose key groups overlap `groups`; others are passed over.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt) manifests; [`Incompatible`](ErrorKind::Incompatible) if they are
    /// of another operator uid, max parallelism or key grouping, or if two of them hold the same key group.
    pub fn restore(
        uid: &str,
        groups: KeyGroupRange,
        max_parallelism: MaxParallelism,
        old: impl IntoIterator<Item = Restored>,
    ) -> Result<Self> {
        let expected = Expected {
            uid,
            max_parallelism: max_parallelism.get(),
            grouping: K::GROUPING.id(),
            key: &K::schema(),
        };
        let mut states = Self::new(uid, groups, max_parallelism);
        for restored in old {
            let Some(old) = Old::open(restored, groups, &expected)? else {
                continue;
            };
            if states.old.iter().any(|other| other.overlaps(&old)) {
                let message = format!(
                    "operator `{uid}`: two snapshots hold the same key groups; give each once"
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
            states.old.push(old);
        }
        Ok(states)
    }

    /// Declares a value state, with what was restored under this name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the name is taken, or no schema can be derived for `V`.
    /// [`Incompatible`](ErrorKind::Incompatible) if the state was restored with another kind or schema, with both in
    /// the message, or with keys of another type. [`Corrupt`](ErrorKind::Corrupt) and [`Io`](ErrorKind::Io) from reading.
    pub fn value<V: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<V>>,
    ) -> Result<Handle<ValueState<K, V>>> {
        self.namespaced().value(descriptor)
    }

    /// Declares a list state. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn list<T: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<T>>,
    ) -> Result<Handle<ListState<K, T>>> {
        self.namespaced().list(descriptor)
    }

    /// Declares a map state. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn map<M: Data + Ord, V: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<(M, V)>>,
    ) -> Result<Handle<MapState<K, M, V>>> {
        self.namespaced().map(descriptor)
    }

    /// Declares a state that reduces what is added to one value. Errors as for [`value`](Self::value).
    ///
    /// ```
    /// # use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
    /// # use cutwater_state::{Keyed, KeyedStates};
    /// # let max = MaxParallelism::new(128).unwrap();
    /// # let mut states = KeyedStates::<u64>::new("fold", KeyGroupRange::new(0, 128), max);
    /// let longest = states.reducing("longest", |longest: &mut u32, miles| {
    ///     *longest = miles.max(*longest);
    /// })?;
    /// for miles in [719, 2475, 187] {
    ///     states[longest].add(Keyed::new(&7), miles)?;
    /// }
    /// assert_eq!(states[longest].get(Keyed::new(&7))?, Some(&2475));
    /// # Ok::<(), cutwater_state::Error>(())
    /// ```
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn reducing<V: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<V>>,
        reduce: Reduce<V>,
    ) -> Result<Handle<ReducingState<K, V>>> {
        self.namespaced().reducing(descriptor, reduce)
    }

    /// Declares a state that aggregates what is added. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn aggregating<A: Aggregate>(
        &mut self,
        descriptor: impl Into<Descriptor<A::Accumulator>>,
        aggregate: A,
    ) -> Result<Handle<AggregatingState<K, A>>> {
        self.namespaced().aggregating(descriptor, aggregate)
    }

    /// Declares timers. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn timers(&mut self, descriptor: impl Into<Descriptor<()>>) -> Result<Handle<Timers<K>>> {
        self.namespaced().timers(descriptor)
    }

    /// To declare a state which has entries in namespaces of type `N`, such as windows:
    ///
    /// ```
    /// # use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
    /// # use cutwater_state::{Keyed, KeyedStates};
    /// # let max = MaxParallelism::new(128).unwrap();
    /// # let mut states = KeyedStates::<String>::new("sum", KeyGroupRange::new(0, 128), max);
    /// let hours = states.namespaced::<u32>().value::<i64>("by-hour")?;
    ///
    /// let alice = "alice".to_owned();
    /// let keyed = Keyed::new(&alice);
    /// states[hours].put(keyed.at(9), 40)?;
    /// states[hours].put(keyed.at(10), 2)?;
    /// assert_eq!(states[hours].get(keyed.at(10))?, Some(&2));
    ///
    /// states[hours].clear(keyed.at(9))?;
    /// assert_eq!(states[hours].namespaces(keyed)?.collect::<Vec<_>>(), [&10]);
    /// # Ok::<(), cutwater_state::Error>(())
    /// ```
    pub fn namespaced<N: Key>(&mut self) -> Declare<'_, K, N> {
        Declare::new(self)
    }

    /// Names that were restored and not declared (yet), sorted.
    ///
    /// Going on without them loses them at the next snapshot, so a driver refuses unless told to
    /// allow it.
    pub fn undeclared(&self) -> Vec<&str> {
        let restored = self.old.iter().flat_map(Old::names);
        Names::undeclared(restored, self.names())
    }

    /// Lets go of the snapshots that were restored from, with their files, once all states are
    /// declared. States declared later start empty.
    pub fn forget_restored(&mut self) {
        self.old.clear();
    }

    /// The owned key groups.
    pub fn groups(&self) -> KeyGroupRange {
        self.scope.groups
    }

    /// Brings what accesses to these hashes would read into the cache, in all states. Worth it when
    /// the state is larger than the cache, for some 32 keys at a time, just before they are accessed in this order: the
    /// misses overlap, and what has come is not pushed out again.
    pub fn prefetch(&mut self, hashes: &[KeyHash]) {
        for declared in &mut self.states {
            declared.state.table().prefetch(hashes);
        }
    }

    /// Fixes a view of all states as of now, to be written by the returned task. Takes some
    /// 20 ns for each 100 thousand entries; touches no entry.
    ///
    /// The snapshot is incremental: it stores the blocks of the tables that have changed since the newest
    /// [`confirmed`](Self::confirmed) one, and names files of that one for the rest; the first one after
    /// [`new`](Self::new) or [`restore`](Self::restore) stores everything. Stored are at most three times the
    /// bytes of the changed blocks, of some 4 KiB each, and a file's worth; named, three times the bytes of the
    /// state, and four files' worth. A restore reads what counts, and no more.
    ///
    /// Any number of snapshots may be open; each costs memory for what is written while it is, as far as it
    /// changed before.
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> SnapshotTask {
        let base = self.history.lock().base().cloned();
        let epoch = |state| base.as_ref().and_then(|base| base.epoch(state));
        let states = self.states.iter_mut().enumerate();
        let states = states.map(|(number, declared)| declared.state.table().freeze(epoch(number)));
        let states = states.collect();
        SnapshotTask {
            manifest: self.manifest(checkpoint),
            states,
            form: Form::Images {
                base,
                history: self.history.clone(),
            },
        }
    }

    /// As [`snapshot`](Self::snapshot), but stores everything, and in a form that does not depend on how the
    /// states are kept: rows by state and key group. For savepoints, which belong to the user and shall not
    /// share files with anything, and for other backends to restore.
    pub fn snapshot_canonical(&mut self, checkpoint: CheckpointId) -> SnapshotTask {
        let states = self.states.iter_mut();
        let states = states.map(|declared| declared.state.table().freeze(None));
        let states = states.collect();
        SnapshotTask {
            manifest: self.manifest(checkpoint),
            states,
            form: Form::Canonical,
        }
    }

    fn manifest(&self, checkpoint: CheckpointId) -> Manifest {
        let Scope { uid, groups, .. } = &self.scope;
        let states = self.states.iter().map(|declared| State {
            name: declared.names.name().to_owned(),
            shape: declared.shape.clone(),
            sections: Vec::new(),
        });
        Manifest {
            checkpoint: checkpoint.get(),
            uid: uid.to_string(),
            max_parallelism: self.scope.max_parallelism.get(),
            groups: (groups.start(), groups.end()),
            grouping: K::GROUPING.id().to_owned(),
            key: K::schema(),
            key_type: any::type_name::<K>().to_owned(),
            files: Vec::new(),
            states: states.collect(),
            indexes: Vec::new(),
        }
    }

    /// The snapshot is part of a completed checkpoint: later ones may name its files. May be lost, late or
    /// told twice.
    pub fn confirmed(&mut self, checkpoint: CheckpointId) {
        self.history.lock().confirmed(checkpoint);
    }

    /// The snapshot will never be part of a completed checkpoint. May be lost, late or told twice.
    pub fn aborted(&mut self, checkpoint: CheckpointId) {
        self.history.lock().aborted(checkpoint);
    }

    fn names(&self) -> impl Iterator<Item = &Names> + Clone {
        self.states.iter().map(|declared| &declared.names)
    }

    pub(crate) fn declare<S: TypedState>(
        &mut self,
        descriptor: Descriptor<S::Element>,
        open: impl FnOnce(Place) -> S,
    ) -> Result<Handle<S>> {
        let place = Place::new(self.scope.clone(), descriptor.names.name());
        descriptor.names.check_free(&place, self.names())?;
        let shape = Shape {
            kind: S::KIND,
            schema: descriptor.schema(&place)?.to_string(),
            namespace: S::Namespace::schema(),
            stamped: false,
        };
        let mut state = open(place.clone());
        for old in &self.old {
            let Some(found) = old.state(&place, &descriptor.names)? else {
                continue;
            };
            let reading = schema::check(&place, &found.shape, &shape, &descriptor.migrations)?;
            state.read_as(reading);
            old.load(&place, found, state.table())?;
        }
        state.loaded();
        self.states.push(Declared {
            names: descriptor.names,
            shape,
            state: Box::new(state),
        });
        Ok(Handle::new(self.states.len() - 1))
    }
}

/// Shortcuts for value states, of which most operators have one.
#[expect(clippy::missing_errors_doc, reason = "those of `ValueState`")]
impl<K: Key> KeyedStates<K> {
    /// [`ValueState::get`].
    pub fn get<V: Data>(
        &self,
        handle: Handle<ValueState<K, V>>,
        keyed: Keyed<'_, K>,
    ) -> Result<Option<&V>> {
        self[handle].get(keyed)
    }

    /// [`ValueState::update`].
    pub fn update<V: Data, R>(
        &mut self,
        handle: Handle<ValueState<K, V>>,
        keyed: Keyed<'_, K>,
        f: impl FnOnce(&mut Option<V>) -> R,
    ) -> Result<R> {
        self[handle].update(keyed, f)
    }
}

impl<K: Key, S: KeyedState> Index<Handle<S>> for KeyedStates<K> {
    type Output = S;

    /// # Panics
    ///
    /// If the handle is of another registry, and no state of the same type stands at its number here.
    fn index(&self, handle: Handle<S>) -> &S {
        let state: &dyn Any = &*self.states[handle.number()].state;
        state.downcast_ref().expect("a handle of this registry")
    }
}

impl<K: Key, S: KeyedState> IndexMut<Handle<S>> for KeyedStates<K> {
    /// # Panics
    ///
    /// As [`index`](Self::index).
    fn index_mut(&mut self, handle: Handle<S>) -> &mut S {
        let state: &mut dyn Any = &mut *self.states[handle.number()].state;
        state.downcast_mut().expect("a handle of this registry")
    }
}

impl<K> fmt::Debug for KeyedStates<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.states.iter().map(|declared| declared.names.name());
        f.debug_struct("KeyedStates")
            .field("uid", &self.scope.uid)
            .field("groups", &self.scope.groups)
            .field("states", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
