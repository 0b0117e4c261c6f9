//! Declaring keyed states, by name and kind.

use std::marker::PhantomData;

use cutwater_keygroups::Key;

use crate::{
    Aggregate, AggregatingState, Data, Descriptor, Handle, KeyedStates, ListState, MapState,
    Reduce, ReducingState, Result, Timers, ValueState,
};

/// Declares states with namespaces: each access names one, `keyed.at(namespace)`, and what stands under
/// different ones has nothing to do with each other. From [`KeyedStates::namespaced`].
#[derive(Debug)]
pub struct Declare<'a, K: Key, N> {
    states: &'a mut KeyedStates<K>,
    namespace: PhantomData<fn() -> N>,
}

impl<'a, K: Key, N: Key> Declare<'a, K, N> {
    pub(crate) fn new(states: &'a mut KeyedStates<K>) -> Self {
        Self {
            states,
            namespace: PhantomData,
        }
    }

    /// Declares a value state, with what was restored under this name.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn value<V: Data>(
        self,
        descriptor: impl Into<Descriptor<V>>,
    ) -> Result<Handle<ValueState<K, V, N>>> {
        self.states.declare(descriptor.into(), ValueState::new)
    }

    /// Declares a list state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn list<T: Data>(
        self,
        descriptor: impl Into<Descriptor<T>>,
    ) -> Result<Handle<ListState<K, T, N>>> {
        self.states.declare(descriptor.into(), ListState::new)
    }

    /// Declares a map state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn map<M: Data + Ord, V: Data>(
        self,
        descriptor: impl Into<Descriptor<(M, V)>>,
    ) -> Result<Handle<MapState<K, M, V, N>>> {
        self.states.declare(descriptor.into(), MapState::new)
    }

    /// Declares a reducing state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn reducing<V: Data>(
        self,
        descriptor: impl Into<Descriptor<V>>,
        reduce: Reduce<V>,
    ) -> Result<Handle<ReducingState<K, V, N>>> {
        let open = |place| ReducingState::new(place, reduce);
        self.states.declare(descriptor.into(), open)
    }

    /// Declares an aggregating state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn aggregating<A: Aggregate>(
        self,
        descriptor: impl Into<Descriptor<A::Accumulator>>,
        aggregate: A,
    ) -> Result<Handle<AggregatingState<K, A, N>>> {
        let open = |place| AggregatingState::new(place, aggregate);
        self.states.declare(descriptor.into(), open)
    }

    /// Declares timers.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn timers(self, descriptor: impl Into<Descriptor<()>>) -> Result<Handle<Timers<K, N>>> {
        self.states.declare(descriptor.into(), Timers::new)
    }
}
