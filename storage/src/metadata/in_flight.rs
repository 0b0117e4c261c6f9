//! Channel state: the records that were in channels when a checkpoint was cut.
//!
//! Whatever receives writes one file, with a section for each channel that held something. A channel
//! is an edge and the two subtasks at its ends, never just a peer: two edges may connect the same two
//! tasks (CASES B12, B13). A channel without records has no section, and a subtask without sections no
//! file.

use std::ops::Range;

use bytes::Bytes;
use cutwater_barrier::CheckpointId;

use crate::{FileRef, Result, StateFileWriter, StateFiles};

/// The records in flight to one subtask.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ChannelState {
    /// The file with all of them.
    pub file: FileRef,
    /// Which channel has which part of it.
    pub sections: Vec<InFlight>,
}

/// The records in flight in one channel.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InFlight {
    /// The edge, by a name that a later run of the job gives it too.
    pub edge: String,
    /// What the records are, as the edge's codec calls it. Who restores compares it.
    pub record: String,
    /// The subtask that sent them.
    pub from: u16,
    /// The subtask that had not processed them yet.
    pub to: u16,
    /// How many there are.
    pub records: u64,
    /// Where they are in the file, in the order in which they were sent.
    pub range: Range<u64>,
}

impl InFlight {
    /// `records` records of the type `record`, on `edge` from one subtask to another.
    pub fn new(
        edge: impl Into<String>,
        record: impl Into<String>,
        from: u16,
        to: u16,
        records: u64,
    ) -> Self {
        Self {
            edge: edge.into(),
            record: record.into(),
            from,
            to,
            records,
            range: 0..0,
        }
    }
}

impl StateFiles {
    /// Begins the channel state of subtask `to` of whatever is called `receiver`, for `checkpoint`. The
    /// receiver's name is for people, as in [`writer`](Self::writer).
    pub fn channel_state(
        &self,
        checkpoint: CheckpointId,
        receiver: &str,
        to: u16,
    ) -> ChannelStateWriter {
        ChannelStateWriter {
            file: self.writer(checkpoint, receiver, to, "in-flight"),
            sections: Vec::new(),
        }
    }
}

/// Channel state being written: channel by channel, each in any number of chunks.
#[derive(Debug)]
pub struct ChannelStateWriter {
    file: StateFileWriter,
    sections: Vec<InFlight>,
}

impl ChannelStateWriter {
    /// Begins the section of a channel; its range is filled in here. One that gets no bytes is left
    /// out in the end.
    pub fn channel(&mut self, mut section: InFlight) {
        let at = self.file.written();
        section.range = at..at;
        self.sections.push(section);
    }

    /// Adds bytes to the section that was begun last.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails. The file is then lost; drop the writer.
    ///
    /// # Panics
    ///
    /// If no section was begun.
    pub async fn write(&mut self, chunk: impl Into<Bytes>) -> Result<()> {
        let section = self.sections.last_mut().expect("a channel was begun");
        self.file.write(chunk).await?;
        section.range.end = self.file.written();
        Ok(())
    }

    /// Ends the file; `None` if there was nothing in flight.
    ///
    /// # Errors
    ///
    /// `Io` if the store fails. Nothing is visible then.
    pub async fn finish(self) -> Result<Option<ChannelState>> {
        let Self { file, mut sections } = self;
        sections.retain(|section| !section.range.is_empty());
        if sections.is_empty() {
            return Ok(None);
        }
        let file = file.finish().await?;
        Ok(Some(ChannelState { file, sections }))
    }
}
