//! `cutwater inspect`: what one checkpoint consists of, and which part of it was slow or large.

use std::{fmt::Write as _, io::Write};

use comfy_table::Table;
use cutwater_keygroups::MaxParallelism;
use cutwater_storage::{CheckpointStore, FileRef, KeyedHandle, Metadata, Subtask};
use serde_json::{Value, json};

use crate::{Failure, list, text, times};

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
        summary["tasks"] = times::tasks_json(&metadata);
        summary["in_flight"] = in_flight_json(&metadata);
        writeln!(out, "{summary:#}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} {} of job {:?}, by generation {}\ntriggered {}, took {}, {}; {}; sinks {}\n",
        list::kind(completed.kind),
        completed.checkpoint,
        metadata.job,
        metadata.generation,
        text::time(metadata.triggered_at_unix_ms),
        text::duration(metadata.duration),
        list::mode(metadata.mode),
        text::bytes(list::size(completed, &metadata)),
        list::sinks(store, completed),
    )?;
    writeln!(out, "Sizes\n{}\n", sizes(&metadata))?;
    writeln!(out, "Times\n{}\n", times::summary(&metadata))?;
    writeln!(out, "{}\n{}", times::by_task(&metadata), times::legend())?;
    if let Some(slowest) = times::slowest(&metadata) {
        writeln!(out, "{slowest}")?;
    }
    if !metadata.channels.is_empty() {
        writeln!(out, "\nIn flight\n{}", in_flight(&metadata))?;
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
        let keyed = operator.subtasks.iter().flat_map(|subtask| &subtask.keyed);
        let all_keyed: u64 = keyed.map(KeyedHandle::bytes).sum();
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
            text::right(text::bytes(all_keyed)),
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
                text::right(text::bytes(own_state(subtask))),
                text::right(text::bytes(subtask.source.len() as u64)),
                "".into(),
                text::right(text::bytes(subtask.statistics.bytes_written)),
                text::right(text::bytes(subtask.statistics.bytes_full)),
            ]);
        }
    }
    table
}

/// What belongs to the subtask and to no key.
fn own_state(subtask: &Subtask) -> u64 {
    let pieces: usize = subtask.pieces.iter().map(|piece| piece.len()).sum();
    (subtask.operator_state.len() + pieces) as u64
}

/// The records that barriers overtook or that were in a loop, by channel.
fn in_flight(metadata: &Metadata) -> Table {
    let mut table = text::table(&["edge", "from", "to", "records", "size", "of"]);
    for section in metadata.channels.iter().flat_map(|state| &state.sections) {
        table.add_row([
            section.edge.as_str().into(),
            text::right(section.from),
            text::right(section.to),
            text::right(section.records),
            text::right(text::bytes(section.range.end - section.range.start)),
            section.record.as_str().into(),
        ]);
    }
    table
}

fn all_files(metadata: &Metadata) -> Table {
    let mut table = text::table(&["operator", "subtask", "file", "size", "object"]);
    let mut row = |of: &str, index: usize, file: &FileRef| {
        table.add_row([
            of.into(),
            text::right(index),
            file.name.as_str().into(),
            text::right(text::bytes(file.length)),
            file.path().unwrap_or("(within the metadata)").into(),
        ]);
    };
    for (uid, index, file) in files(metadata) {
        row(uid, index, file);
    }
    for state in &metadata.channels {
        let to = state.sections.first().map_or(0, |section| section.to);
        row("(in flight)", to.into(), &state.file);
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
    let mut json = times::statistics_json(statistics);
    let own = json!({
        "finished": subtask.finished,
        "key_groups": groups(subtask),
        "keyed_bytes": subtask.keyed.iter().map(KeyedHandle::bytes).sum::<u64>(),
        "operator_state_bytes": subtask.operator_state.len(),
        "piece_bytes": subtask.pieces.iter().map(|piece| piece.len()).sum::<usize>(),
        "position_bytes": subtask.source.len(),
        "files": files,
    });
    if let (Value::Object(json), Value::Object(own)) = (&mut json, own) {
        json.extend(own);
    }
    json
}

fn in_flight_json(metadata: &Metadata) -> Value {
    let channels = metadata.channels.iter().flat_map(|state| {
        let object = state.file.path();
        state.sections.iter().map(move |section| {
            json!({
                "edge": section.edge,
                "record": section.record,
                "from": section.from,
                "to": section.to,
                "records": section.records,
                "bytes": section.range.end - section.range.start,
                "object": object,
            })
        })
    });
    Value::Array(channels.collect())
}
