//! One entry of the checkpoint log, and its stored form, version 1.

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation, Kind};

use crate::{
    Result,
    codec::{Decoder, Encoder},
    frame, layout,
};

const VERSION: u16 = 1;

/// A decision, and where it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// Its place, which is also in its name: an entry copied elsewhere is found out.
    pub(crate) number: u64,
    /// Who decided.
    pub(crate) generation: Generation,
    /// Drawn for this entry, so that its writer knows it again when a reply was lost.
    pub(crate) nonce: u64,
    /// The nonce of the entry before; 0 for the first. A number that was trimmed and then taken
    /// again by somebody who slept through it does not fit the entry after it.
    pub(crate) previous: u64,
    /// Entries below this number are no longer needed, and may be gone.
    pub(crate) oldest: u64,
    /// Checkpoint ids below this one have been given out.
    pub(crate) next_id: CheckpointId,
    pub(crate) decision: Decision,
}

/// What may be decided.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Decision {
    /// Its generation leads from here on. Its checkpoints have the id `first` or a later one.
    TookOver { first: CheckpointId },
    /// The checkpoint or savepoint can be restored from, now and until it is discarded.
    Completed(Completed),
    /// Everything prepared up to the checkpoint is visible.
    Committed(CheckpointId),
    /// The checkpoint is no longer there. From here on its files may be deleted.
    Discarded(CheckpointId),
}

/// A checkpoint that was completed: what the log says about it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Completed {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Whose it is.
    pub kind: Kind,
    /// Where its metadata is.
    pub metadata: String,
    /// How many bytes its metadata has.
    pub metadata_bytes: u64,
    /// XXH64 (seed 0) of its metadata, which in turn holds the checksums of everything else.
    pub root_hash: u64,
    /// The newest checkpoint up to this one that holds prepared transactions, which may have been
    /// committed since. Whoever restores from before it would write again what is visible already.
    pub last_with_transactions: Option<CheckpointId>,
}

impl Completed {
    /// The generation that completed it.
    pub fn generation(&self) -> Generation {
        layout::generation_of(&self.metadata).expect("checked when it was read, or written by us")
    }
}

impl Entry {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Encoder::default();
        out.u64(self.number);
        out.u64(self.generation.get());
        out.u64(self.nonce);
        out.u64(self.previous);
        out.u64(self.oldest);
        out.u64(self.next_id.get());
        match &self.decision {
            Decision::TookOver { first } => {
                out.u8(1);
                out.u64(first.get());
            }
            Decision::Completed(completed) => {
                out.u8(match completed.kind {
                    Kind::Checkpoint => 2,
                    Kind::Savepoint => 3,
                });
                out.u64(completed.checkpoint.get());
                out.bytes(completed.metadata.as_bytes());
                out.u64(completed.metadata_bytes);
                out.u64(completed.root_hash);
                out.option(completed.last_with_transactions, |out, id| {
                    out.u64(id.get());
                });
            }
            Decision::Committed(checkpoint) => {
                out.u8(4);
                out.u64(checkpoint.get());
            }
            Decision::Discarded(checkpoint) => {
                out.u8(5);
                out.u64(checkpoint.get());
            }
        }
        frame::encode(frame::Kind::LogEntry, VERSION, &out.0)
    }

    /// The entry that is the object of log entry `number`.
    pub(crate) fn decode(bytes: &Bytes, number: u64) -> Result<Self> {
        let path = layout::log_entry(number);
        let (_, payload) = frame::decode(frame::Kind::LogEntry, VERSION, bytes, &path)?;
        let mut from = Decoder::new(&path, payload);
        let entry = Self {
            number: from.u64()?,
            generation: Generation::new(from.u64()?),
            nonce: from.u64()?,
            previous: from.u64()?,
            oldest: from.u64()?,
            next_id: CheckpointId::new(from.u64()?),
            decision: Decision::decode(&mut from)?,
        };
        if entry.number != number {
            return Err(from.error(format!("is a copy of entry {}", entry.number)));
        }
        from.end()?;
        Ok(entry)
    }
}

impl Decision {
    /// The lowest id above those that it names.
    pub(crate) fn next_id(&self) -> CheckpointId {
        match self {
            Self::TookOver { first } => *first,
            Self::Completed(completed) => completed.checkpoint.next(),
            Self::Committed(checkpoint) | Self::Discarded(checkpoint) => checkpoint.next(),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let code = from.u8()?;
        let checkpoint = CheckpointId::new(from.u64()?);
        let mut completed = |kind| {
            let metadata = from.string()?;
            if layout::generation_of(&metadata).is_none() {
                return Err(from.error("names metadata of no generation"));
            }
            Ok(Self::Completed(Completed {
                checkpoint,
                kind,
                metadata,
                metadata_bytes: from.u64()?,
                root_hash: from.u64()?,
                last_with_transactions: from.option(|from| from.u64().map(CheckpointId::new))?,
            }))
        };
        match code {
            1 => Ok(Self::TookOver { first: checkpoint }),
            2 => completed(Kind::Checkpoint),
            3 => completed(Kind::Savepoint),
            4 => Ok(Self::Committed(checkpoint)),
            5 => Ok(Self::Discarded(checkpoint)),
            _ => Err(from.error("holds a decision that there is not")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;

    fn check(name: &str, decision: Decision) {
        let entry = Entry {
            number: 7,
            generation: Generation::new(3),
            nonce: 0x0123_4567_89ab_cdef,
            previous: 0xfedc_ba98_7654_3210,
            oldest: 5,
            next_id: decision.next_id(),
            decision,
        };
        golden::check(name, &entry, Entry::encode, |bytes| Entry::decode(bytes, 7));
        let elsewhere = Entry::decode(&entry.encode(), 8).unwrap_err();
        assert!(
            elsewhere.to_string().contains("copy of entry 7"),
            "{elsewhere}"
        );
    }

    #[test]
    fn version_1_reads_forever() {
        let id = CheckpointId::new(42);
        let completed = |kind, last_with_transactions| Completed {
            checkpoint: id,
            kind,
            metadata: "chk-42/_metadata-g3".to_owned(),
            metadata_bytes: 1234,
            root_hash: 0x1111_2222_3333_4444,
            last_with_transactions,
        };
        assert_eq!(
            completed(Kind::Checkpoint, None).generation(),
            Generation::new(3)
        );
        let checkpoint = completed(Kind::Checkpoint, Some(CheckpointId::new(41)));
        let savepoint = completed(Kind::Savepoint, None);
        check("log-v1-took-over.bin", Decision::TookOver { first: id });
        check("log-v1-completed.bin", Decision::Completed(checkpoint));
        check("log-v1-savepoint.bin", Decision::Completed(savepoint));
        check("log-v1-committed.bin", Decision::Committed(id));
        check("log-v1-discarded.bin", Decision::Discarded(id));
    }
}
