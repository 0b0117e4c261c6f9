//! What may be kept in a state.

use serde::{Serialize, de::DeserializeOwned};

/// Types that a state can hold; implemented for all that qualify, never by hand.
///
/// `Serialize` and `DeserializeOwned` because a snapshot holds postcard bytes; `Clone` because the
/// first writes after a snapshot leave it what it still reads and go on with a copy; `Sync` because until then
/// task and snapshot writer read the same memory.
pub trait Data: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Data for T {}
