//! The memory backend takes the exam that the testkit gives others.

use std::collections::BTreeMap;

use cutwater_state::{Restored, SnapshotTask, testkit};

fn in_memory(task: SnapshotTask) -> Restored {
    let mut files = BTreeMap::new();
    let snapshot = task.run(&mut files).unwrap();
    assert_eq!(snapshot.files.len(), files.len(), "names are unique");
    Restored::new(snapshot.manifest, files)
}

/// F095, F098, F099, F101, F105.
#[test]
fn memory_states_conform() {
    testkit::conforms(in_memory);
}

/// F099, F101, F105 with rows in a byte backend, under memory for all, few and next to no rows.
#[test]
fn the_reference_backend_conforms() {
    testkit::byte_backend_conforms(testkit::SortedRows::new);
}
