//! What implementers of [`Blobs`](crate::Blobs) run, and what testers of engines break stores with.
//!
//! Not covered by semver: a new check may fail an old implementation.
#![expect(clippy::unwrap_used, reason = "a test suite panics to report")]

mod conforms;
mod faulty;
mod memory;
mod stepped;

pub use conforms::{BlockOn, conforms};
pub use faulty::{Call, Failure, Faults, FaultyBlobs, FaultyUpload, Hold, On};
pub use memory::{MemoryBlobs, MemoryUpload};
pub use stepped::{Stepped, SteppedUpload, step};
