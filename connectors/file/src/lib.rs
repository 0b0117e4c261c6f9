//! Files as a split source and as an exactly-once sink.
//!
//! [`FileSource`] reads CSV and JSON lines, plain, gzip or zstd, one split per file, and resumes each
//! from exactly the record after the checkpoint. A file that is no longer what it was is refused, a
//! bad line is named. [`FileSink`] writes files that appear whole, each in one step, when the
//! checkpoint that closed them is complete.
//!
//! An engine drives both through the contracts of `cutwater-source` and `cutwater-sink-2pc`. By hand,
//! for one checkpoint:
//!
//! ```
//! use cutwater_barrier::{CheckpointId, Generation, Time};
//! use cutwater_file::{FileSink, FileSource, JsonLines};
//! use cutwater_sink_2pc::{
//!     Committer, CommitterContext, Input, Sink, Verdict, Writer, WriterContext, testkit::block_on,
//! };
//! use cutwater_source::testkit::Run;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Deserialize, Serialize)]
//! struct Flight {
//!     tailnum: String,
//!     distance: u32,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let input = directory.path().join("flights.csv");
//! std::fs::write(&input, "distance,carrier,tailnum\n1400,UA,N14228\n1089,AA,N619AA\n")?;
//! let output = directory.path().join("out");
//!
//! // Read: the test kit's driver stands in for an engine.
//! let source = FileSource::<Flight>::csv([&input]);
//! let mut records = Run::fresh(source, 1)?.to_end(100)?;
//!
//! // Write: what is prepared is durable and hidden, what is committed is visible.
//! let sink = FileSink::new(&output, JsonLines::new());
//! block_on(async {
//!     let generation = Generation::new(1);
//!     let mut committer = sink.committer(CommitterContext::new("job", "uid", generation)).await?;
//!     committer.fence(generation).await?;
//!     committer.sweep().await?;
//!     let context = WriterContext::new("job", "uid", 0, 1, generation);
//!     let mut writer = sink.writer(context, vec![]).await?;
//!     writer.write(Time::ZERO, &mut records).await?;
//!     let checkpoint = CheckpointId::new(1);
//!     let flushed = writer.prepare(Time::ZERO, checkpoint, Input::Ended).await?;
//!
//!     let file = output.join("job.uid-0000000001-00000-0000000000.jsonl");
//!     assert!(!file.exists());
//!     // … here the checkpoint, which holds `flushed`, becomes complete …
//!     let verdicts = committer.commit(&flushed.prepared).await;
//!     assert!(matches!(verdicts[..], [Verdict::Committed]));
//!     assert_eq!(std::fs::read_to_string(file)?.lines().count(), 2);
//!     Ok(())
//! })
//! # }
//! ```
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod sink;
mod source;

pub use sink::{Csv, Encode, FileCommitter, FileSink, FileWriter, JsonLines, Rolling};
pub use source::{
    Compression, FileEnumerator, FileReader, FileSource, FileSplit, Fingerprint, OnBadRecord,
};
