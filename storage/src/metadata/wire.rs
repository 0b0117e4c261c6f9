//! Metadata as bytes, version 2.
//!
//! Fields are in the order of the structs, encoded as `codec.rs` says, in the frame of `frame.rs`;
//! golden files keep it so. Whoever adds a field raises the version, and reads the older ones still.
//!
//! | version | what is new |
//! |---|---|
//! | 2 | the mode, channel state, pieces, tasks |

use std::time::Duration;

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation, Kind, Mode, stats::TaskStats};
use cutwater_keygroups::{Grouping, KeyGroupRange, MaxParallelism};

use super::{
    ChannelState, InFlight, KeyedHandle, Metadata, Operator, PreparedTransaction, Subtask,
    TaskReport,
};
use crate::{
    Content, Error, ErrorKind, FileRef, Result,
    codec::{Decoder, Encoder},
    frame,
};

/// What is written; read is everything up to it.
const VERSION: u16 = 2;

impl Metadata {
    /// Its stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = Encoder::default();
        out.bytes(self.job.as_bytes());
        out.u64(self.checkpoint.get());
        out.u64(self.generation.get());
        out.u8(match self.kind {
            Kind::Checkpoint => 0,
            Kind::Savepoint => 1,
        });
        mode(&mut out, self.mode);
        out.u64(self.triggered_at_unix_ms);
        duration(&mut out, self.duration);
        out.length(self.operators.len());
        for (uid, operator) in &self.operators {
            out.bytes(uid.as_bytes());
            operator.encode(&mut out);
        }
        out.all(&self.channels, |out, channels| channels.encode(out));
        out.all(&self.tasks, |out, task| {
            out.bytes(task.name.as_bytes());
            duration(out, task.took);
            statistics(out, &task.statistics);
        });
        frame::encode(frame::Kind::Metadata, VERSION, &out.0)
    }

    /// Reads its stored form, which is the object `path`.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the bytes are not exactly what [`encode`](Self::encode) made; `Incompatible` if
    /// a newer release wrote them.
    pub fn decode(bytes: &Bytes, path: &str) -> Result<Self> {
        let (version, payload) = frame::decode(frame::Kind::Metadata, VERSION, bytes, path)?;
        let mut from = Decoder::new(path, payload);
        let mut metadata = Self {
            job: from.string()?,
            checkpoint: CheckpointId::new(from.u64()?),
            generation: Generation::new(from.u64()?),
            kind: match from.u8()? {
                0 => Kind::Checkpoint,
                1 => Kind::Savepoint,
                _ => return Err(from.error("is neither checkpoint nor savepoint")),
            },
            mode: since(2, version, &mut from, decode_mode)?.unwrap_or(Mode::Aligned),
            triggered_at_unix_ms: from.u64()?,
            duration: micros(&mut from)?,
            operators: [].into(),
            channels: Vec::new(),
            tasks: Vec::new(),
        };
        let operators = from.all(|from| Ok((from.string()?, Operator::decode(from, version)?)))?;
        for (uid, operator) in operators {
            if metadata.operators.insert(uid, operator).is_some() {
                return Err(from.error("lists an operator twice"));
            }
        }
        let channels = |from: &mut Decoder<'_>| from.all(ChannelState::decode);
        metadata.channels = since(2, version, &mut from, channels)?.unwrap_or_default();
        let tasks = |from: &mut Decoder<'_>| from.all(TaskReport::decode);
        metadata.tasks = since(2, version, &mut from, tasks)?.unwrap_or_default();
        from.end()?;
        Ok(metadata)
    }
}

/// What the format has from `first` on; `None` from bytes of an older version.
fn since<T>(
    first: u16,
    version: u16,
    from: &mut Decoder<'_>,
    decode: impl FnOnce(&mut Decoder<'_>) -> Result<T>,
) -> Result<Option<T>> {
    (version >= first).then(|| decode(from)).transpose()
}

impl Operator {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(self.name.as_bytes());
        out.option(self.max_parallelism, |out, max| out.u16(max.get()));
        out.option(self.grouping, |out, grouping| {
            out.u8(grouping_code(grouping));
        });
        out.all(&self.assignment, |out, groups| out.all(groups, group_range));
        out.option(self.coordinator.as_ref(), |out, state| out.bytes(state));
        out.all(&self.prepared, |out, prepared| {
            out.u64(prepared.checkpoint.get());
            out.bytes(&prepared.token);
        });
        out.bool(self.finished);
        out.all(&self.subtasks, |out, subtask| subtask.encode(out));
    }

    fn decode(from: &mut Decoder<'_>, version: u16) -> Result<Self> {
        Ok(Self {
            name: from.string()?,
            max_parallelism: from.option(|from| {
                MaxParallelism::new(from.u16()?)
                    .ok_or_else(|| from.error("has a max parallelism that is not in 1..=32768"))
            })?,
            grouping: from.option(decode_grouping)?,
            assignment: from.all(|from| from.all(decode_group_range))?,
            coordinator: from.option(Decoder::bytes)?,
            prepared: from.all(|from| {
                Ok(PreparedTransaction {
                    checkpoint: CheckpointId::new(from.u64()?),
                    token: from.bytes()?,
                })
            })?,
            finished: from.bool()?,
            subtasks: from.all(|from| Subtask::decode(from, version))?,
        })
    }
}

impl Subtask {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.finished);
        out.all(&self.keyed, |out, handle| {
            out.all(&handle.groups, group_range);
            out.bytes(&handle.manifest);
            out.all(&handle.files, |out, file| file.encode(out));
        });
        out.bytes(&self.operator_state);
        out.all(&self.pieces, |out, piece| out.bytes(piece));
        out.bytes(&self.source);
        statistics(out, &self.statistics);
    }

    fn decode(from: &mut Decoder<'_>, version: u16) -> Result<Self> {
        let pieces = |from: &mut Decoder<'_>| from.all(Decoder::bytes);
        Ok(Self {
            finished: from.bool()?,
            keyed: from.all(|from| {
                Ok(KeyedHandle {
                    groups: from.all(decode_group_range)?,
                    manifest: from.bytes()?,
                    files: from.all(FileRef::decode)?,
                })
            })?,
            operator_state: from.bytes()?,
            pieces: since(2, version, from, pieces)?.unwrap_or_default(),
            source: from.bytes()?,
            statistics: decode_statistics(from)?,
        })
    }
}

impl ChannelState {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        out.all(&self.sections, |out, section| {
            out.bytes(section.edge.as_bytes());
            out.bytes(section.record.as_bytes());
            out.u16(section.from);
            out.u16(section.to);
            out.u64(section.records);
            out.u64(section.range.start);
            out.u64(section.range.end);
        });
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let file = FileRef::decode(from)?;
        let sections = from.all(|from| {
            let section = InFlight {
                edge: from.string()?,
                record: from.string()?,
                from: from.u16()?,
                to: from.u16()?,
                records: from.u64()?,
                range: from.u64()?..from.u64()?,
            };
            if section.range.is_empty() || section.range.end > file.length {
                return Err(from.error("has records in flight that are not in their file"));
            }
            Ok(section)
        })?;
        Ok(Self { file, sections })
    }
}

impl FileRef {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(self.name.as_bytes());
        match &self.content {
            Content::Object(path) => {
                out.u8(0);
                out.bytes(path.as_bytes());
            }
            Content::Inline(bytes) => {
                out.u8(1);
                out.bytes(bytes);
            }
        }
        out.u64(self.length);
        out.u32(self.block_bytes);
        out.all(&self.checksums, |out, checksum| out.u64(*checksum));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let file = Self {
            name: from.string()?,
            content: match from.u8()? {
                0 => Content::Object(from.string()?),
                1 => Content::Inline(from.bytes()?),
                _ => return Err(from.error("has a file that is neither an object nor inline")),
            },
            length: from.u64()?,
            block_bytes: from.u32()?,
            checksums: from.all(Decoder::u64)?,
        };
        // What reading by range relies on.
        let blocks = match file.block_bytes {
            0 => None,
            block => Some(file.length.div_ceil(block.into())),
        };
        let inline = match &file.content {
            Content::Inline(bytes) => bytes.len() as u64 == file.length,
            Content::Object(_) => true,
        };
        if blocks != Some(file.checksums.len() as u64) || !inline {
            return Err(from.error("has a file whose length and blocks disagree"));
        }
        Ok(file)
    }
}

impl TaskReport {
    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(Self {
            name: from.string()?,
            took: micros(from)?,
            statistics: decode_statistics(from)?,
        })
    }
}

fn statistics(out: &mut Encoder, stats: &TaskStats) {
    for time in [stats.start_delay, stats.alignment, stats.sync, stats.async_] {
        duration(out, time);
    }
    out.u64(stats.bytes_during_alignment);
    out.u64(stats.bytes_in_flight);
    out.u64(stats.bytes_written);
    out.u64(stats.bytes_full);
}

fn decode_statistics(from: &mut Decoder<'_>) -> Result<TaskStats> {
    let mut stats = TaskStats::default();
    stats.start_delay = micros(from)?;
    stats.alignment = micros(from)?;
    stats.sync = micros(from)?;
    stats.async_ = micros(from)?;
    stats.bytes_during_alignment = from.u64()?;
    stats.bytes_in_flight = from.u64()?;
    stats.bytes_written = from.u64()?;
    stats.bytes_full = from.u64()?;
    Ok(stats)
}

fn mode(out: &mut Encoder, mode: Mode) {
    match mode {
        Mode::Aligned => out.u8(0),
        Mode::AlignedFor(timeout) => {
            out.u8(1);
            duration(out, timeout);
        }
        Mode::Unaligned => out.u8(2),
    }
}

fn decode_mode(from: &mut Decoder<'_>) -> Result<Mode> {
    match from.u8()? {
        0 => Ok(Mode::Aligned),
        1 => micros(from).map(Mode::AlignedFor),
        2 => Ok(Mode::Unaligned),
        _ => Err(from.error("was cut in no known mode")),
    }
}

fn duration(out: &mut Encoder, duration: Duration) {
    out.u64(duration.as_micros().try_into().unwrap_or(u64::MAX));
}

fn micros(from: &mut Decoder<'_>) -> Result<Duration> {
    from.u64().map(Duration::from_micros)
}

fn group_range(out: &mut Encoder, range: &KeyGroupRange) {
    out.u16(range.start());
    out.u16(range.end());
}

fn decode_group_range(from: &mut Decoder<'_>) -> Result<KeyGroupRange> {
    Ok(KeyGroupRange::new(from.u16()?, from.u16()?))
}

fn grouping_code(grouping: Grouping) -> u8 {
    match grouping {
        Grouping::Xxh64 => 1,
        Grouping::Flink => 2,
        _ => unreachable!("every grouping has a code here"),
    }
}

fn decode_grouping(from: &mut Decoder<'_>) -> Result<Grouping> {
    match from.u8()? {
        1 => Ok(Grouping::Xxh64),
        2 => Ok(Grouping::Flink),
        code => {
            let reason =
                format!("divides keys into groups in a way {code} that this release does not know");
            Err(Error::new(ErrorKind::Incompatible, from.path(), reason))
        }
    }
}
