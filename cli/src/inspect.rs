//! `cutwater inspect`: what one checkpoint consists of, and which part of it was slow or large.

use std::{fmt::Write as _, io::Write};

use comfy_table::Table;
use cutwater_keygroups::MaxParallelism;
use cutwater_storage::{CheckpointStore, FileRef, KeyedHandle, Metadata, Subtask};
use serde_json::{Value, json};

use crate::{Failure, list, text};

/// Prints checkpoint `id`, or the newest.
pub(crate) async fn run(
    store: &CheckpointStore,
    id: Option<u64>,
    files: bool,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let found = match id {
        Some(id) => store
            .list()
            .find(|completed| completed.checkpoint.get() == id),
        None => store.latest(),
    };
    let Some(completed) = found else {
        let wanted = id.map_or("any checkpoint".to_owned(), |id| format!("checkpoint {id}"));
        let ids: Vec<_> = store
            .list()
            .map(|completed| completed.checkpoint.to_string())
            .collect();
        let there = if ids.is_empty() {
            "none".to_owned()
        } else {
            ids.join(", ")
        };
        let reason = format!("not found; there are: {there}");
        return Err(cutwater_storage::Error::new(
            cutwater_storage::ErrorKind::NotFound,
            wanted,
            reason,
        )
        .into());
    };
    let metadata = store.load(completed.checkpoint).await?;
    if json {
        let mut summary = list::summary(store, completed, &metadata);
        summary["operators"] = operators(&metadata);
        writeln!(out, "{summary:#}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} {} of job {:?}, by generation {}\ntriggered {}, took {}; {}; sinks {}\n",
        list::kind(completed.kind),
        completed.checkpoint,
        metadata.job,
        metadata.generation,
        text::time(metadata.triggered_at_unix_ms),
        text::duration(metadata.duration),
        text::bytes(list::size(completed, &metadata)),
        list::sinks(store, completed),
    )?;
    writeln!(out, "Sizes\n{}\n", sizes(&metadata))?;
    writeln!(out, "Times\n{}", times(&metadata))?;
    if let Some(slowest) = slowest(&metadata) {
        writeln!(out, "{slowest}")?;
    }
    if files {
        writeln!(out, "\nFiles\n{}", all_files(&metadata))?;
    }
    Ok(())
}

fn sizes(metadata: &Metadata) -> Table {
    let mut table = text::table(&[
        "operator",
        "subtask",
        "key groups",
        "keyed",
        "manifests",
        "operator state",
        "positions",
        "transactions",
        "delta",
        "full",
    ]);
    for (uid, operator) in &metadata.operators {
        let all: u64 = operator.subtasks.iter().map(Subtask::bytes).sum();
        let coordinator = operator
            .coordinator
            .as_ref()
            .map_or(0, |state| state.len() as u64);
        let mut about = format!("× {}", operator.parallelism());
        if operator.finished {
            about.push_str(", finished");
        }
        table.add_row([
            format!("{uid}\n{}", operator.name).into(),
            text::right(about),
            text::right(match operator.max_parallelism {
                Some(max) => format!("of {max}"),
                None => String::new(),
            }),
            text::right(text::bytes(all)),
            "".into(),
            match coordinator {
                0 => "".into(),
                bytes => text::right(format!("coordinator {}", text::bytes(bytes))),
            },
            "".into(),
            match operator.prepared.len() {
                0 => "".into(),
                transactions => text::right(transactions),
            },
        ]);
        for (index, subtask) in operator.subtasks.iter().enumerate() {
            let manifests: usize = subtask
                .keyed
                .iter()
                .map(|handle| handle.manifest.len())
                .sum();
            let keyed: u64 = subtask.keyed.iter().map(KeyedHandle::bytes).sum();
            table.add_row([
                "".into(),
                text::right(if subtask.finished {
                    format!("{index} finished")
                } else {
                    index.to_string()
                }),
                text::right(groups(subtask)),
                text::right(text::bytes(keyed)),
                text::right(text::bytes(manifests as u64)),
                text::right(text::bytes(subtask.operator_state.len() as u64)),
                text::right(text::bytes(subtask.source.len() as u64)),
                "".into(),
                text::right(text::bytes(subtask.statistics.bytes_written)),
                text::right(text::bytes(subtask.statistics.bytes_full)),
            ]);
        }
    }
    table
}

fn times(metadata: &Metadata) -> Table {
    let mut table = text::table(&[
        "operator",
        "subtask",
        "start delay",
        "alignment",
        "sync",
        "async",
        "during alignment",
        "in flight",
    ]);
    for (uid, index, subtask) in metadata.subtasks() {
        let statistics = &subtask.statistics;
        table.add_row([
            uid.into(),
            text::right(index),
            text::right(text::duration(statistics.start_delay)),
            text::right(text::duration(statistics.alignment)),
            text::right(text::duration(statistics.sync)),
            text::right(text::duration(statistics.async_)),
            text::right(text::bytes(statistics.bytes_during_alignment)),
            text::right(text::bytes(statistics.bytes_in_flight)),
        ]);
    }
    table
}

/// The answer to "why is it slow": the longest part, and whose.
fn slowest(metadata: &Metadata) -> Option<String> {
    let parts = metadata.subtasks().flat_map(|(uid, index, subtask)| {
        let statistics = subtask.statistics;
        [
            ("waiting for the barrier", statistics.start_delay),
            ("aligning barriers", statistics.alignment),
            ("the sync part of the snapshot", statistics.sync),
            ("writing the snapshot", statistics.async_),
        ]
        .map(|(part, time)| (time, part, uid, index))
    });
    let (time, part, uid, index) = parts.max_by_key(|(time, ..)| *time)?;
    let time = (!time.is_zero()).then(|| text::duration(time))?;
    Some(format!(
        "Slowest: {part}, {time}, in subtask {index} of {uid}."
    ))
}

fn all_files(metadata: &Metadata) -> Table {
    let mut table = text::table(&["operator", "subtask", "file", "size", "object"]);
    for (uid, index, file) in files(metadata) {
        table.add_row([
            uid.into(),
            text::right(index),
            file.name.as_str().into(),
            text::right(text::bytes(file.length)),
            file.path().unwrap_or("(within the metadata)").into(),
        ]);
    }
    table
}

fn files(metadata: &Metadata) -> impl Iterator<Item = (&str, usize, &FileRef)> {
    metadata.subtasks().flat_map(|(uid, index, subtask)| {
        let files = subtask.keyed.iter().flat_map(|handle| &handle.files);
        files.map(move |file| (uid, index, file))
    })
}

/// `0–42, 100–128`, both ends included.
fn groups(subtask: &Subtask) -> String {
    let mut text = String::new();
    for range in subtask.keyed.iter().flat_map(|handle| &handle.groups) {
        let separator = if text.is_empty() { "" } else { ", " };
        let last = range.end().saturating_sub(1);
        write!(text, "{separator}{}–{last}", range.start()).expect("a String takes everything");
    }
    text
}

fn operators(metadata: &Metadata) -> Value {
    let operators = metadata.operators.iter().map(|(uid, operator)| {
        let subtasks: Vec<_> = operator.subtasks.iter().map(subtask).collect();
        json!({
            "uid": uid,
            "name": operator.name,
            "parallelism": operator.parallelism(),
            "max_parallelism": operator.max_parallelism.map(MaxParallelism::get),
            "finished": operator.finished,
            "transactions": operator.prepared.len(),
            "coordinator_bytes": operator.coordinator.as_ref().map(|state| state.len()),
            "subtasks": subtasks,
        })
    });
    Value::Array(operators.collect())
}

fn subtask(subtask: &Subtask) -> Value {
    let statistics = &subtask.statistics;
    let files = subtask.keyed.iter().flat_map(|handle| &handle.files);
    let files: Vec<_> = files
        .map(|file| json!({ "name": file.name, "bytes": file.length, "object": file.path() }))
        .collect();
    json!({
        "finished": subtask.finished,
        "key_groups": groups(subtask),
        "keyed_bytes": subtask.keyed.iter().map(KeyedHandle::bytes).sum::<u64>(),
        "operator_state_bytes": subtask.operator_state.len(),
        "position_bytes": subtask.source.len(),
        "files": files,
        "start_delay_us": list::micros(statistics.start_delay),
        "alignment_us": list::micros(statistics.alignment),
        "sync_us": list::micros(statistics.sync),
        "async_us": list::micros(statistics.async_),
        "bytes_during_alignment": statistics.bytes_during_alignment,
        "channel_state_bytes": statistics.bytes_in_flight,
        "delta_bytes": statistics.bytes_written,
        "full_bytes": statistics.bytes_full,
    })
}
