//! What may be kept in a state.

use serde::{Serialize, de::DeserializeOwned};

/// Types that a state can hold; implemented for all that qualify, never by hand.
///
/// `Serialize` and `DeserializeOwned` because a snapshot holds postcard bytes; `Clone` because the
/// first write after a snapshot copies what the snapshot still reads; `Sync` because until then
/// task and snapshot writer read the same memory.
pub trait Data: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Data for T {}
