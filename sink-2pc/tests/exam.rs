//! The reference sink passes its exam, and each broken one fails where it is broken.

use cutwater_sink_2pc::testkit::{self, MemoryTarget};

#[test]
fn memory_sink_conforms() {
    testkit::conforms(MemoryTarget::new);
}

/// F148: data that stays open over checkpoints is in each of them and visible once.
#[test]
fn sink_that_rolls_over_checkpoints_conforms() {
    testkit::conforms(|| MemoryTarget::rolling(7));
    testkit::conforms(|| MemoryTarget::rolling(1000));
}
