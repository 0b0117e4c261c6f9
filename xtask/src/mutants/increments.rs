//! Bugs in incremental snapshots: what is stored, what is named again, what is deleted, what counts.

use super::{Mutant, STORAGE};

const STATE: &[&str] = &[
    "test",
    "--package",
    "cutwater-state",
    "--lib",
    "--test",
    "incremental",
    "--test",
    "golden",
];

const LINEAGE: &str = "state/src/lineage.rs";
const IMAGES: &str = "state/src/images.rs";
const INDEX: &str = "state/src/images/index.rs";
const WRITER: &str = "state/src/images/writer.rs";
const STATES: &str = "state/src/states/snapshots.rs";
const SNAPSHOT: &str = "state/src/snapshot.rs";
const NAMED: &str = "storage/src/named.rs";
const DELETION: &str = "storage/src/store/deletion.rs";
const FILE: &str = "storage/src/file.rs";
const LOCAL: &str = "storage/src/local_copies.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: LINEAGE,
        from: "if self.last >= Some(checkpoint) {",
        to: "if self.last > Some(checkpoint.next()) {",
        test: STATE,
        why: "a slow writer makes an older snapshot the base again",
    },
    Mutant {
        file: LINEAGE,
        from: "fn aborted(&mut self, checkpoint: CheckpointId) {
        self.open.remove(&checkpoint);",
        to: "fn aborted(&mut self, checkpoint: CheckpointId) {
        self.open.get(&checkpoint);",
        test: STATE,
        why: "what was given up can become a base",
    },
    Mutant {
        file: IMAGES,
        from: "const INDEXED_BYTES: u64 = 20;",
        to: "const INDEXED_BYTES: u64 = 0;",
        test: STATE,
        why: "the file of an empty image is let go of, and cleared keys come back",
    },
    Mutant {
        file: IMAGES,
        from: "2 * self.live < self.length",
        to: "2 * self.live < self.length / 8",
        test: STATE,
        why: "files that are mostly out of date are kept",
    },
    Mutant {
        file: IMAGES,
        from: "let mut left = MOVED_PER_DEAD * dead + FILE_BYTES as u64;",
        to: "let mut left = u64::from(dead > 0) << 40;",
        test: STATE,
        why: "a snapshot stores far more than what has changed",
    },
    Mutant {
        file: IMAGES,
        from: "emptied.extend(small.map(|(number, _)| *number));",
        to: "drop(small);",
        test: STATE,
        why: "there are ever more small files",
    },
    Mutant {
        file: INDEX,
        from: "newest.insert((image.state, image.block), section);",
        to: "newest.entry((image.state, image.block)).or_insert(section);",
        test: STATE,
        why: "the oldest image counts",
    },
    Mutant {
        file: WRITER,
        from: "if entries.is_empty() && !self.has_base {",
        to: "if entries.is_empty() {",
        test: STATE,
        why: "keys that were cleared come back",
    },
    Mutant {
        file: STATES,
        from: "self.history.lock().confirmed(checkpoint);",
        to: "let _ = checkpoint;",
        test: STATE,
        why: "every snapshot stores everything",
    },
    Mutant {
        file: SNAPSHOT,
        from: "history.lock().lost();",
        to: "",
        test: STATE,
        why: "once a base is gone, no snapshot succeeds any more",
    },
    Mutant {
        file: NAMED,
        from: "promised.insert(path.to_owned());",
        to: "promised.remove(path);",
        test: STORAGE,
        why: "a file is deleted that a checkpoint in progress names",
    },
    Mutant {
        file: NAMED,
        from: "*known = None;",
        to: "",
        test: STORAGE,
        why: "of two files with one name any is taken",
    },
    Mutant {
        file: DELETION,
        from: "self.named.failed(checkpoint);",
        to: "",
        test: STORAGE,
        why: "what was promised to a failed checkpoint is kept",
    },
    Mutant {
        file: DELETION,
        from: "if is_promised {",
        to: "if is_promised && false {",
        test: STORAGE,
        why: "what was promised when its checkpoint was discarded is never deleted",
    },
    Mutant {
        file: FILE,
        from: "Err(_) => local.delete(path),",
        to: "Err(_) => {}",
        test: STORAGE,
        why: "a damaged copy is read again and again",
    },
    Mutant {
        file: FILE,
        from: "self.check(blocks.start, &bytes)?;
        let part",
        to: "let part",
        test: STORAGE,
        why: "a damaged copy is believed",
    },
    Mutant {
        file: LOCAL,
        from: "if !named.contains(&path) {",
        to: "if named.is_empty() {",
        test: STORAGE,
        why: "the local disk fills up",
    },
];
