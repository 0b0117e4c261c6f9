//! Where things are in a checkpoint directory.
//!
//! ```text
//! log/00000000000000000042                  entry 42 of the checkpoint log
//! chk-7/_metadata-g3                        checkpoint 7, as generation 3 wrote it
//! chk-7/totals.2.keyed.9e1f…-g3             a file of subtask 2 of the operator `totals`
//! shared/                                   reserved: files that several checkpoints name
//! taskowned/                                reserved: files that tasks delete themselves
//! probe/                                    short-lived: what the probe of a store writes
//! ```
//!
//! Every object's name ends in the generation that wrote it, and a state file's has a nonce before
//! that. So nobody ever overwrites anybody, neither a replaced coordinator that goes on for a while
//! nor a second try of one upload (CASES B31).

use cutwater_barrier::{CheckpointId, Generation};
use xxhash_rust::xxh64::xxh64;

/// The checkpoint log.
pub const LOG: &str = "log/";
/// Files that several checkpoints may name.
pub const SHARED: &str = "shared/";
/// Files that tasks own and delete themselves.
pub const TASK_OWNED: &str = "taskowned/";
/// What the probe of a store writes, and deletes again.
pub const PROBE: &str = "probe/";
/// What the folder of each checkpoint starts with.
pub const CHECKPOINTS: &str = "chk-";

/// Longer names are shortened, as file systems allow 255 bytes and there is more in a name.
const NAME_MAX: usize = 80;

/// The path of log entry `number`. Padded to the digits of `u64::MAX`, so that text order is numeric.
pub fn log_entry(number: u64) -> String {
    format!("{LOG}{number:020}")
}

/// The number of the log entry at `path`, or `None` if that is not one.
pub fn log_number(path: &str) -> Option<u64> {
    let digits = path.strip_prefix(LOG)?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The folder of a checkpoint, with the slash.
pub fn checkpoint(checkpoint: CheckpointId) -> String {
    format!("{CHECKPOINTS}{checkpoint}/")
}

/// The path of a checkpoint's metadata.
pub fn metadata(id: CheckpointId, generation: Generation) -> String {
    format!("{}_metadata-g{generation}", checkpoint(id))
}

/// The path of a state file. `uid` and `name` may be any text; what file systems or object stores
/// treat specially is escaped, and what is long is shortened to its start and a hash.
pub fn state_file(
    id: CheckpointId,
    generation: Generation,
    uid: &str,
    subtask: u16,
    name: &str,
    nonce: u64,
) -> String {
    let (folder, uid, name) = (checkpoint(id), escape(uid), escape(name));
    format!("{folder}{uid}.{subtask}.{name}.{nonce:016x}-g{generation}")
}

/// The checkpoint in whose folder `path` is, or `None` if it is in none.
pub fn checkpoint_of(path: &str) -> Option<CheckpointId> {
    let (id, _) = path.strip_prefix(CHECKPOINTS)?.split_once('/')?;
    id.parse().ok().map(CheckpointId::new)
}

/// The generation that wrote the object at `path`, or `None` if its name does not say.
pub fn generation_of(path: &str) -> Option<Generation> {
    let (_, generation) = path.rsplit_once("-g")?;
    generation.parse().ok().map(Generation::new)
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    if escaped.len() > NAME_MAX {
        let hash = xxh64(text.as_bytes(), 0);
        escaped.truncate(NAME_MAX - 17);
        escaped.push_str(&format!("~{hash:016x}"));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: CheckpointId = CheckpointId::new(7);
    const GENERATION: Generation = Generation::new(3);

    #[test]
    fn names_say_checkpoint_and_generation() {
        let file = state_file(ID, GENERATION, "totals", 2, "keyed", 0xab);
        assert_eq!(file, "chk-7/totals.2.keyed.00000000000000ab-g3");
        for path in [file, metadata(ID, GENERATION)] {
            assert_eq!(checkpoint_of(&path), Some(ID));
            assert_eq!(generation_of(&path), Some(GENERATION));
        }
        assert_eq!(checkpoint_of("shared/x-g3"), None);
    }

    #[test]
    fn log_entries_sort_by_number() {
        assert!(log_entry(9) < log_entry(10));
        assert_eq!(log_number(&log_entry(u64::MAX)), Some(u64::MAX));
        for other in [
            "log/1",
            "log/0000000000000000000x",
            "chk-1/00000000000000000001",
        ] {
            assert_eq!(log_number(other), None);
        }
    }

    #[test]
    fn any_uid_is_one_path_segment_of_bounded_length() {
        let long = "ä/..".repeat(100);
        for uid in ["../../etc", "a.b", "", "100%", &long] {
            let path = state_file(ID, GENERATION, uid, 0, &long, 1);
            crate::path::check(&path).unwrap();
            assert_eq!(path.matches('/').count(), 1);
            assert!(path.len() < 255);
        }
        assert_ne!(escape(&format!("{long}a")), escape(&format!("{long}b")));
        assert_ne!(escape("a.b"), escape("a%2Eb"));
    }
}
