//! Bugs in what a checkpoint's metadata lists, what is restored from it, and what follows a decision.

use super::{Mutant, SINK, STORAGE};

const METADATA: &str = "storage/src/metadata.rs";
const WIRE: &str = "storage/src/metadata/wire.rs";
const IN_FLIGHT: &str = "storage/src/metadata/in_flight.rs";
const RESTORE: &str = "storage/src/store/restore.rs";
const COMMIT: &str = "storage/src/store/commit.rs";
const VERIFY: &str = "storage/src/store/verify.rs";
const UPSERT: &str = "sink-2pc/src/upsert/sink.rs";
const DRIVER: &str = "sink-2pc/src/driver.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: METADATA,
        from: "keyed.flat_map(|handle| &handle.files).chain(channels)",
        to: "keyed.flat_map(|handle| &handle.files).chain(channels.take(0))",
        test: STORAGE,
        why: "channel state is neither kept nor verified",
    },
    Mutant {
        file: METADATA,
        from: "sections.filter(move |(_, section)| section.edge == edge)",
        to: "sections.filter(move |(_, section)| section.edge.len() <= edge.len())",
        test: STORAGE,
        why: "an edge gets the records of another",
    },
    Mutant {
        file: WIRE,
        from: "mode: since(2, version,",
        to: "mode: since(1, version,",
        test: STORAGE,
        why: "metadata of an older release does not decode",
    },
    Mutant {
        file: WIRE,
        from: "section.range.is_empty() || section.range.end > file.length",
        to: "section.range.is_empty()",
        test: STORAGE,
        why: "records in flight are read from beyond their file",
    },
    Mutant {
        file: IN_FLIGHT,
        from: "sections.retain(|section| !section.range.is_empty());",
        to: "",
        test: STORAGE,
        why: "a channel with nothing in flight makes the metadata unreadable",
    },
    Mutant {
        file: RESTORE,
        from: "self.operator(uid).filter(|_| !self.is_committed)",
        to: "self.operator(uid).filter(|_| true)",
        test: STORAGE,
        why: "what is noted as committed is committed again",
    },
    Mutant {
        file: COMMIT,
        from: "        self.check_leading().await?;
        let committed",
        to: "        let committed",
        test: STORAGE,
        why: "who was replaced commits once more",
    },
    Mutant {
        file: COMMIT,
        from: "if committed.is_ok() {",
        to: "if committed.is_ok() || committed.is_err() {",
        test: STORAGE,
        why: "what a sink refused is noted as committed",
    },
    Mutant {
        file: VERIFY,
        from: "                && *checksums == file.checksums",
        to: "                && checksums.len() == file.checksums.len()",
        test: STORAGE,
        why: "a checkpoint that says something else of a file is not looked into",
    },
    Mutant {
        file: UPSERT,
        from: "        self.flush().await?;
        Ok(Flushed::default())",
        to: "        Ok(Flushed::default())",
        test: SINK,
        why: "rows before a barrier are lost with a crash after it",
    },
    Mutant {
        file: UPSERT,
        from: "std::cmp::Ordering::Equal if row.value == *value => return Ok(()),",
        to: "std::cmp::Ordering::Equal if row.value == *value || true => return Ok(()),",
        test: SINK,
        why: "a version with two values goes unnoticed",
    },
    Mutant {
        file: DRIVER,
        from: "Some(Notice::Released { before }) => settled.released = Some(before),",
        to: "Some(Notice::Released { .. }) => {}",
        test: SINK,
        why: "transaction ids are never used again",
    },
];
