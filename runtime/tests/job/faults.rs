//! A store that fails or is full in the middle of a checkpoint.

use cutwater_runtime::{Collect, Observer, Settings};
use cutwater_storage::{LocalBlobs, SharedBlobs, testkit::FaultyBlobs};

use crate::common::{assert_ledger, counting, settings};

