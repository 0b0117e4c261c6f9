//! The registry: all keyed states of one operator subtask, declared by name.

use std::{
    any::{self, Any},
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
    sync::Arc,
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, KeyHash, MaxParallelism};

use crate::{
    Backend, Data, Declare, Descriptor, Error, ErrorKind, Handle, Keyed, ListState, MapState,
    Restored, Result, Schema, SnapshotTask, ValueState,
    encoded::{
        self, CanonicalRows, Flush, OldStates, RowStore, RowsTask, StoredState, Ticket,
        backend_failed, is_of_rows,
    },
    format::{Kind, Manifest, State},
    keyed_table::{KeyedState, View},
    place::{Place, Scope},
    restore::{Expected, Old, check_same},
    snapshot,
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
    states: Vec<Declared<K>>,
    /// Snapshots to restore from. Read when a state is declared.
    old: Vec<Old>,
    /// States whose rows the store was opened with.
    old_rows: OldStates,
    /// The name of the byte backend, if there is one.
    backend: &'static str,
    key: PhantomData<fn() -> K>,
}

struct Declared<K> {
    place: Place,
    kind: Kind,
    schema: Schema,
    state: Box<dyn KeyedState<K>>,
}

impl<K: Key> KeyedStates<K> {
    /// No states yet, in memory, for the key groups `groups` out of `max_parallelism`, of the operator `uid`.
    pub fn new(uid: &str, groups: KeyGroupRange, max_parallelism: MaxParallelism) -> Self {
        Self {
            scope: Scope {
                uid: uid.into(),
                groups,
                max_parallelism,
                store: None,
            },
            states: Vec::new(),
            old: Vec::new(),
            old_rows: OldStates::default(),
            backend: Backend::memory().name(),
            key: PhantomData,
        }
    }

    /// As [`open`](Self::open) in memory.
    #[expect(clippy::missing_errors_doc, reason = "as for `open`")]
    pub fn restore(
        uid: &str,
        groups: KeyGroupRange,
        max_parallelism: MaxParallelism,
        old: impl IntoIterator<Item = Restored>,
    ) -> Result<Self> {
        Self::open(&Backend::memory(), uid, groups, max_parallelism, old)
    }

    /// As [`new`](Self::new), in `backend`, with states to come from the snapshots `old` as they are
    /// declared.
    ///
    /// `old` are those of all old subtasks whose key groups overlap `groups`; others are passed over.
    /// A byte backend takes its own snapshots and canonical ones, memory only the latter, of which all
    /// of its own are.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt) manifests; [`Incompatible`](ErrorKind::Incompatible) if they are
    /// of another operator uid, max parallelism, key grouping or backend, or if two of them hold the same
    /// key group. [`Io`](ErrorKind::Io) if the backend cannot be opened.
    pub fn open(
        backend: &Backend,
        uid: &str,
        groups: KeyGroupRange,
        max_parallelism: MaxParallelism,
        old: impl IntoIterator<Item = Restored>,
    ) -> Result<Self> {
        let expected = Expected {
            uid,
            max_parallelism: max_parallelism.get(),
            grouping: K::GROUPING.id(),
        };
        let mut states = Self::new(uid, groups, max_parallelism);
        states.backend = backend.name();
        let mut held: Vec<KeyGroupRange> = Vec::new();
        let mut old_rows = Vec::new();
        for restored in old {
            let has = if is_of_rows(restored.manifest()) {
                let old = states
                    .old_rows
                    .add(&restored, backend.name(), groups, &expected)?;
                let has = old.as_ref().map(|old| old.groups);
                old_rows.extend(old);
                has
            } else {
                let old = Old::open(restored, groups, &expected)?;
                let has = old.as_ref().map(|old| old.groups().intersection(groups));
                states.old.extend(old);
                has
            };
            let Some(has) = has else {
                continue;
            };
            if held.iter().any(|held| !held.intersection(has).is_empty()) {
                let message = format!(
                    "operator `{uid}`: two snapshots hold the same key groups; give each once"
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
            held.push(has);
        }
        if let Some(rows) = backend.as_rows() {
            let opened = rows.backend.open(uid, groups, &old_rows);
            let opened = opened.map_err(|error| {
                backend_failed(&format_args!("operator `{uid}`"), "opening a store", error)
            })?;
            let store = RowStore::new(uid.into(), opened, groups, &rows.budget);
            states.scope.store = Some(Arc::new(store));
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
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<ValueState<K, V>>> {
        self.namespaced().value(descriptor)
    }

    /// Declares a list state. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn list<T: Data>(
        &mut self,
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<ListState<K, T>>> {
        self.namespaced().list(descriptor)
    }

    /// Declares a map state. Errors as for [`value`](Self::value).
    #[expect(clippy::missing_errors_doc, reason = "as for `value`")]
    pub fn map<M: Data + Ord, V: Data>(
        &mut self,
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<MapState<K, M, V>>> {
        self.namespaced().map(descriptor)
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
    /// assert_eq!(states[hours].namespaces(keyed)?, [10]);
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
        let mut names: Vec<_> = restored
            .chain(self.old_rows.names())
            .filter(|name| {
                self.states
                    .iter()
                    .all(|declared| declared.place.state() != *name)
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
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

    /// Brings the rows of the records that come next into memory, in all states, if they are somewhere
    /// else: all that are missing are read at once. Worth calling with some thousand keys. Does nothing in memory.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) and [`Corrupt`](ErrorKind::Corrupt) from reading.
    pub fn announce<'a>(&mut self, keys: impl IntoIterator<Item = Keyed<'a, K>>) -> Result<()> {
        if self.scope.store.is_none() {
            return Ok(());
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let mut states = self.states.iter_mut();
        states.try_for_each(|declared| declared.state.table().announce(&keys))
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
    /// 20 ns for each 100 thousand entries in memory; touches no entry.
    ///
    /// Any number of snapshots may be open; each costs memory for what is written while it is.
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> SnapshotTask {
        match self.freeze() {
            Frozen::Typed(states) => SnapshotTask::of_entries(self.manifest(checkpoint), states),
            Frozen::Rows(ticket) => SnapshotTask::of_rows(RowsTask {
                manifest: self.rows_manifest(checkpoint),
                ticket,
            }),
        }
    }

    /// As [`snapshot`](Self::snapshot), in the canonical form: from it the states can be restored in any
    /// backend. In memory each snapshot is of that form.
    pub fn snapshot_canonical(&mut self, checkpoint: CheckpointId) -> SnapshotTask {
        let states = match self.freeze() {
            Frozen::Typed(states) => states,
            Frozen::Rows(ticket) => {
                let flush = Flush::new(ticket);
                let rows = |declared: &Declared<K>| -> Box<dyn snapshot::Frozen> {
                    Box::new(CanonicalRows::new(
                        declared.place.clone(),
                        Arc::clone(&flush),
                    ))
                };
                self.states.iter().map(rows).collect()
            }
        };
        SnapshotTask::of_entries(self.manifest(checkpoint), states)
    }

    fn freeze(&mut self) -> Frozen {
        let (mut typed, mut rows) = (Vec::new(), Vec::new());
        for declared in &mut self.states {
            match declared.state.table().freeze() {
                View::Typed(view) => typed.push(view),
                View::Rows(view) => rows.push(view),
            }
        }
        match &self.scope.store {
            None => Frozen::Typed(typed),
            Some(store) => Frozen::Rows(store.freeze(rows)),
        }
    }

    fn manifest(&self, checkpoint: CheckpointId) -> Manifest {
        let Scope { uid, groups, .. } = &self.scope;
        Manifest {
            checkpoint: checkpoint.get(),
            uid: uid.to_string(),
            max_parallelism: self.scope.max_parallelism.get(),
            groups: (groups.start(), groups.end()),
            grouping: K::GROUPING.id().to_owned(),
            key_type: any::type_name::<K>().to_owned(),
            files: Vec::new(),
            states: self.states.iter().map(Declared::stored).collect(),
        }
    }

    fn rows_manifest(&self, checkpoint: CheckpointId) -> encoded::Manifest {
        let Manifest {
            checkpoint,
            uid,
            max_parallelism,
            groups,
            grouping,
            key_type,
            states,
            ..
        } = self.manifest(checkpoint);
        let ids: Vec<_> = self.states.iter().map(|d| d.place.id()).collect();
        encoded::Manifest {
            checkpoint,
            uid,
            max_parallelism,
            groups,
            grouping,
            key_type,
            backend: self.backend.to_owned(),
            dropped: self.old_rows.dropped(&ids),
            states: ids
                .into_iter()
                .zip(states)
                .map(|(id, state)| StoredState { id, state })
                .collect(),
            files: Vec::new(),
            description: Vec::new(),
        }
    }

    /// The snapshot is part of a completed checkpoint. May be lost; a later one covers it.
    ///
    /// A full snapshot shares no files with others, so that nothing follows from it here.
    pub fn confirmed(&mut self, _checkpoint: CheckpointId) {}

    /// The snapshot will never be part of a completed checkpoint. May be lost as well.
    ///
    /// As with [`confirmed`](Self::confirmed), nothing follows from it here.
    pub fn aborted(&mut self, _checkpoint: CheckpointId) {}

    pub(crate) fn declare<S: KeyedState<K>>(
        &mut self,
        descriptor: Descriptor,
        kind: Kind,
        derive: impl FnOnce() -> Result<Schema>,
        open: impl FnOnce(Place) -> S,
    ) -> Result<Handle<S>> {
        let Descriptor { name, schema } = descriptor;
        let mut old_rows = self.old_rows.find(&name);
        let known = old_rows.next();
        let id = known.map_or_else(|| self.old_rows.new_id(&name), |known| known.id);
        let place = Place::new(self.scope.clone(), &name, id);
        if self
            .states
            .iter()
            .any(|declared| declared.place.state() == name)
        {
            let message = format!("{place}: declared twice; give each state its own name");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.scope.store.is_some() && self.states.iter().any(|other| other.place.id() == id) {
            let message = format!("{place}: its name has the checksum of another's; rename it");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let schema = schema.map_or_else(derive, Ok)?;
        for stored in known.into_iter().chain(old_rows) {
            check_same(&place, &stored.state, kind, schema.as_str())?;
            if stored.id != id {
                let message = format!(
                    "{place}: its rows have other numbers in other snapshots; restore from canonical ones"
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
        }
        let mut state = open(place.clone());
        for old in &self.old {
            old.load(&place, kind, schema.as_str(), state.table())?;
        }
        self.states.push(Declared {
            place,
            kind,
            schema,
            state: Box::new(state),
        });
        Ok(Handle::new(self.states.len() - 1))
    }
}

impl<K> Declared<K> {
    fn stored(&self) -> State {
        State {
            name: self.place.state().to_owned(),
            kind: self.kind,
            schema: self.schema.to_string(),
            sections: Vec::new(),
        }
    }
}

/// All states as of one moment.
enum Frozen {
    Typed(Vec<Box<dyn snapshot::Frozen>>),
    Rows(Ticket),
}

/// Shortcuts for value states, of which most operators have one.
#[expect(clippy::missing_errors_doc, reason = "those of `ValueState`")]
impl<K: Key> KeyedStates<K> {
    /// [`ValueState::get`].
    pub fn get<V: Data>(
        &mut self,
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

impl<K: Key, S: KeyedState<K>> Index<Handle<S>> for KeyedStates<K> {
    type Output = S;

    /// # Panics
    ///
    /// If the handle is of another registry, and no state of the same type stands at its number here.
    fn index(&self, handle: Handle<S>) -> &S {
        let state: &dyn Any = &*self.states[handle.number()].state;
        state.downcast_ref().expect("a handle of this registry")
    }
}

impl<K: Key, S: KeyedState<K>> IndexMut<Handle<S>> for KeyedStates<K> {
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
        let names = self.states.iter().map(|declared| declared.place.state());
        f.debug_struct("KeyedStates")
            .field("uid", &self.scope.uid)
            .field("groups", &self.scope.groups)
            .field("states", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
