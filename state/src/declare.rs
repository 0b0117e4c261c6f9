//! Declaring keyed states, by name and kind, with namespaces and with elements that expire.

use std::marker::PhantomData;

use cutwater_keygroups::Key;

use crate::{
    Aggregate, AggregatingState, Data, Descriptor, Expiring, Forever, Handle, KeyedStates,
    Lifetime, ListState, MapState, Reduce, ReducingState, Result, Timers, Ttl, ValueState,
};

/// Declares a state with namespaces of type `N`, whose elements live for `L`. From
/// [`KeyedStates::namespaced`] and [`KeyedStates::expiring`].
#[derive(Debug)]
pub struct Declare<'a, K: Key, N, L = Forever> {
    states: &'a mut KeyedStates<K>,
    lifetime: L,
    namespace: PhantomData<fn() -> N>,
}

impl<'a, K: Key, N: Key> Declare<'a, K, N> {
    pub(crate) fn new(states: &'a mut KeyedStates<K>) -> Self {
        Self {
            states,
            lifetime: Forever,
            namespace: PhantomData,
        }
    }

    /// The same with elements that expire.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::expiring`].
    pub fn expiring(self, ttl: Ttl) -> Result<Declare<'a, K, N, Expiring>> {
        Ok(Declare {
            lifetime: Expiring::new(ttl, self.states.now()?),
            states: self.states,
            namespace: PhantomData,
        })
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

impl<K: Key, N: Key, L: Lifetime> Declare<'_, K, N, L> {
    /// Declares a value state, with what was restored under this name.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn value<V: Data>(
        self,
        descriptor: impl Into<Descriptor<V>>,
    ) -> Result<Handle<ValueState<K, V, N, L>>> {
        let open = |place| ValueState::new(place, self.lifetime);
        self.states.declare(descriptor.into(), open)
    }

    /// Declares a list state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn list<T: Data>(
        self,
        descriptor: impl Into<Descriptor<T>>,
    ) -> Result<Handle<ListState<K, T, N, L>>> {
        let open = |place| ListState::new(place, self.lifetime);
        self.states.declare(descriptor.into(), open)
    }

    /// Declares a map state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    #[expect(clippy::type_complexity, reason = "what a map is of and how it lives")]
    pub fn map<M: Data + Ord, V: Data>(
        self,
        descriptor: impl Into<Descriptor<(M, V)>>,
    ) -> Result<Handle<MapState<K, M, V, N, L>>> {
        let open = |place| MapState::new(place, self.lifetime);
        self.states.declare(descriptor.into(), open)
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
    ) -> Result<Handle<ReducingState<K, V, N, L>>> {
        let open = |place| ReducingState::new(place, self.lifetime, reduce);
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
    ) -> Result<Handle<AggregatingState<K, A, N, L>>> {
        let open = |place| AggregatingState::new(place, self.lifetime, aggregate);
        self.states.declare(descriptor.into(), open)
    }
}
