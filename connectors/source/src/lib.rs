//! Sources that can be read again from where a checkpoint left them.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod assigner;
mod codec;
mod coordinator;
mod error;
mod paced;
mod source;
mod vec;

pub use assigner::{Assigner, Assignment, Effect, Event, redistribute};
pub use codec::{decode_splits, encode_splits};
pub use coordinator::SplitCoordinator;
pub use error::{Error, ErrorKind, Result};
pub use paced::{Pace, Paced, PacedReader};
pub use source::{Discovery, Enumerator, Reader, ReaderContext, Source, Split, Status};
pub use vec::{VecEnumerator, VecReader, VecSource, VecSplit};
