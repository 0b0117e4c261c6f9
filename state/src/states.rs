//! The registry: all keyed states of one operator subtask, declared by name.

mod snapshots;

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
    sync::Arc,
};

use cutwater_keygroups::{Key, KeyGroupRange, KeyHash, MaxParallelism};

use crate::{
    Aggregate, AggregatingState, Backend, Data, Declare, Descriptor, Error, ErrorKind, Expiring,
    Handle, Keyed, ListState, MapState, Reduce, ReducingState, Restored, Result, SharedFiles,
    Timers, Timestamp, Ttl, ValueState,
    encoded::{self, Expired, OldStates, RowStore, StateId, backend_failed, is_of_rows},
    format::Shape,
    keyed_table::{KeyedState, TypedState},
    names::Names,
    place::{Place, Scope},
    restore::{Expected, Old},
    schema::{self, Reading},
    snapshot::History,
    ttl::lived::Lived,
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
    /// The name of the backend.
    backend: &'static str,
    /// As far as it was told.
    now: Option<Timestamp>,
    /// What later snapshots may build on.
    history: History,
    key: PhantomData<fn() -> K>,
}

struct Declared<K> {
    place: Place,
    names: Names,
    shape: Shape,
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
            now: None,
            history: History::default(),
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
            key: &K::schema(),
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
            let expired = Arc::new(Expired::default());
            let is_expired = {
                let expired = Arc::clone(&expired);
                Arc::new(move |key: &[u8], value: &[u8]| expired.is_over(key, value))
            };
            let opened = rows.backend.open(uid, groups, &old_rows, is_expired);
            let opened = opened.map_err(|error| {
                backend_failed(&format_args!("operator `{uid}`"), "opening a store", error)
            })?;
            let files = states.old_rows.files();
            let files = files.map(|file| (file.name.clone(), file.length));
            let shared = SharedFiles::restored(files);
            let store = RowStore::new(uid.into(), opened, groups, &rows.budget, expired, shared);
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
    /// assert_eq!(states[hours].namespaces(keyed)?, [10]);
    /// # Ok::<(), cutwater_state::Error>(())
    /// ```
    pub fn namespaced<N: Key>(&mut self) -> Declare<'_, K, N> {
        Declare::new(self)
    }

    /// To declare a state whose elements expire: values, elements of lists, entries of maps. [`Ttl`] has an
    /// example. Declared without `expiring` before or after, the elements are kept; those that had no stamp
    /// count from now.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) unless the time was [set](Self::set_time).
    pub fn expiring(&mut self, ttl: Ttl) -> Result<Declare<'_, K, (), Expiring>> {
        self.namespaced().expiring(ttl)
    }

    /// Says which time it is, before each batch. What has expired is hidden from then on, and some of it
    /// removed: in each state that has such, of some hundred entries.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = Some(now);
        for declared in &mut self.states {
            declared.state.set_time(now);
        }
    }

    pub(crate) fn now(&self) -> Result<Timestamp> {
        self.now.ok_or_else(|| {
            let uid = &self.scope.uid;
            let message = format!(
                "operator `{uid}`: elements cannot expire as long as nobody says which time it is; call \
                 `KeyedStates::set_time` before"
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// Names that were restored and not declared (yet), sorted.
    ///
    /// Going on without them loses them at the next snapshot, so a driver refuses unless told to
    /// allow it.
    pub fn undeclared(&self) -> Vec<&str> {
        let restored = self.old.iter().flat_map(Old::names);
        Names::undeclared(restored.chain(self.old_rows.names()), self.names())
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
    /// the state is larger than the cache, for [`AHEAD`](crate::AHEAD) keys at a time, just before they are accessed in this order: the
    /// misses overlap, and what has come is not pushed out again.
    pub fn prefetch(&mut self, hashes: &[KeyHash]) {
        for declared in &mut self.states {
            declared.state.table().prefetch(hashes);
        }
    }

    fn names(&self) -> impl Iterator<Item = &Names> + Clone {
        self.states.iter().map(|declared| &declared.names)
    }

    pub(crate) fn declare<S: TypedState<K>>(
        &mut self,
        descriptor: Descriptor<S::Element>,
        open: impl FnOnce(Place) -> S,
    ) -> Result<Handle<S>> {
        let name = descriptor.names.name();
        let place = Place::new(self.scope.clone(), name, StateId::of(name));
        descriptor.names.check_free(&place, self.names())?;
        let old_rows = self.old_rows.find(&place, &descriptor.names)?;
        let id = self.old_rows.id(&place, &old_rows)?;
        let place = place.with_id(id);
        let ids = self.states.iter().map(|other| other.place.id());
        if self.scope.store.is_some() && ids.into_iter().any(|id| id == place.id()) {
            let message = format!("{place}: its name has the checksum of another's; rename it");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let shape = Shape {
            kind: S::KIND,
            schema: descriptor.schema(&place)?.to_string(),
            namespace: S::Namespace::schema(),
            stamped: S::Lifetime::STAMPED,
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
        for stored in old_rows {
            let reading =
                schema::check(&place, &stored.state.shape, &shape, &descriptor.migrations)?;
            if let Reading::Converted(_) = reading {
                state.read_as(reading);
                encoded::migrate(&place, stored.groups, state.table())?;
            }
        }
        state.loaded()?;
        self.states.push(Declared {
            place,
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
        let names = self.states.iter().map(|declared| declared.names.name());
        f.debug_struct("KeyedStates")
            .field("uid", &self.scope.uid)
            .field("groups", &self.scope.groups)
            .field("states", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
