//! `cutwater list`: one line per checkpoint.

use std::io::Write;

use cutwater_barrier::{Kind, Mode};
use cutwater_storage::{CheckpointStore, Completed, Metadata, layout};
use serde_json::{Value, json};

use crate::{Failure, text};

/// Prints the checkpoints, oldest first. One whose metadata is damaged has a line that says so.
pub(crate) async fn run(
    store: &CheckpointStore,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut loaded = Vec::new();
    for completed in store.list() {
        loaded.push((completed, store.load(completed.checkpoint).await));
    }
    if json {
        let lines = loaded.iter().map(|(completed, metadata)| match metadata {
            Ok(metadata) => summary(store, completed, metadata),
            Err(error) => {
                json!({ "checkpoint": completed.checkpoint.get(), "error": error.to_string() })
            }
        });
        writeln!(out, "{:#}", Value::Array(lines.collect()))?;
        return Ok(());
    }
    if loaded.is_empty() {
        writeln!(out, "No completed checkpoint.")?;
        return Ok(());
    }
    let mut table = text::table(&[
        "id",
        "kind",
        "mode",
        "gen",
        "triggered",
        "took",
        "size",
        "operators",
        "sinks",
    ]);
    for (completed, metadata) in &loaded {
        let id = text::right(completed.checkpoint);
        let kind = kind(completed.kind);
        match metadata {
            Ok(metadata) => table.add_row([
                id,
                kind.into(),
                mode(metadata.mode).into(),
                text::right(metadata.generation),
                text::time(metadata.triggered_at_unix_ms).into(),
                text::right(text::duration(metadata.duration)),
                text::right(text::bytes(size(completed, metadata))),
                text::right(metadata.operators.len()),
                sinks(store, completed).into(),
            ]),
            Err(error) => {
                let generation = layout::generation_of(&completed.metadata);
                let generation =
                    generation.map_or(String::new(), |generation| generation.to_string());
                table.add_row([
                    id,
                    kind.into(),
                    "".into(),
                    text::right(generation),
                    error.to_string().into(),
                ])
            }
        };
    }
    writeln!(out, "{table}")?;
    Ok(())
}

/// What `list` and `inspect` say about a whole checkpoint, as JSON.
pub(crate) fn summary(
    store: &CheckpointStore,
    completed: &Completed,
    metadata: &Metadata,
) -> Value {
    json!({
        "checkpoint": completed.checkpoint.get(),
        "kind": kind(completed.kind),
        "mode": mode(metadata.mode),
        "job": metadata.job,
        "generation": metadata.generation.get(),
        "triggered_at_unix_ms": metadata.triggered_at_unix_ms,
        "duration_us": micros(metadata.duration),
        "bytes": size(completed, metadata),
        "committed": is_committed(store, completed),
        "metadata": completed.metadata,
    })
}

/// Times in JSON are in microseconds, as they are stored.
pub(crate) fn micros(duration: std::time::Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}

/// The metadata, with what is within, and all other objects.
pub(crate) fn size(completed: &Completed, metadata: &Metadata) -> u64 {
    let objects = metadata.files().filter(|file| file.path().is_some());
    completed.metadata_bytes + objects.map(|file| file.length).sum::<u64>()
}

pub(crate) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Checkpoint => "checkpoint",
        Kind::Savepoint => "savepoint",
    }
}

/// How it was cut.
pub(crate) fn mode(mode: Mode) -> String {
    match mode {
        Mode::Aligned => "aligned".to_owned(),
        Mode::AlignedFor(timeout) => format!("aligned up to {}", text::duration(timeout)),
        Mode::Unaligned => "unaligned".to_owned(),
    }
}

pub(crate) fn sinks(store: &CheckpointStore, completed: &Completed) -> &'static str {
    if is_committed(store, completed) {
        "committed"
    } else {
        "pending"
    }
}

fn is_committed(store: &CheckpointStore, completed: &Completed) -> bool {
    store.last_committed() >= Some(completed.checkpoint)
}
