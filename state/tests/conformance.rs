//! The memory backend takes the exam that the testkit gives others.

use std::collections::BTreeMap;

use cutwater_state::{Restored, SnapshotTask, testkit};

fn in_memory(task: SnapshotTask) -> Restored {
    let mut files = BTreeMap::new();
    let snapshot = task.run(&mut |file| {
        assert!(
            files.insert(file.name, file.bytes).is_none(),
            "names are unique"
        );
        Ok(())
    });
    Restored::new(snapshot.unwrap().manifest, files)
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
