//! Declaring keyed states, by name and kind.

use std::marker::PhantomData;

use cutwater_keygroups::Key;

use crate::{
    Data, Descriptor, Handle, KeyedStates, ListState, MapState, Result, Schema, ValueState,
    format::Kind,
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
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<ValueState<K, V, N>>> {
        self.states.declare(
            descriptor.into(),
            Kind::Value,
            Schema::of::<V>,
            ValueState::new,
        )
    }

    /// Declares a list state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn list<T: Data>(
        self,
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<ListState<K, T, N>>> {
        self.states.declare(
            descriptor.into(),
            Kind::List,
            Schema::of::<T>,
            ListState::new,
        )
    }

    /// Declares a map state.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn map<M: Data + Ord, V: Data>(
        self,
        descriptor: impl Into<Descriptor>,
    ) -> Result<Handle<MapState<K, M, V, N>>> {
        self.states.declare(
            descriptor.into(),
            Kind::Map,
            Schema::of::<(M, V)>,
            MapState::new,
        )
    }
}
