//! Where the time of a checkpoint went: which part of it, in which task.
//!
//! ```text
//!   trigger ──start delay──▶ first barrier ──alignment──▶ last barrier ──sync──▶ ──async──▶ stored
//! ```

use std::time::Duration;

use comfy_table::Table;
use cutwater_barrier::stats::TaskStats;
use cutwater_storage::{Metadata, TaskReport};
use serde_json::{Value, json};

use crate::{list, text};

/// How many characters a task's bar has.
const BAR: usize = 32;

/// The parts of a task's time in their order: name, what it means when it is slow, its sign in a bar.
const PARTS: [(&str, &str, char); 4] = [
    ("start delay", "waiting for the barrier", '░'),
    ("alignment", "aligning barriers", '▒'),
    ("sync", "the sync part of the snapshot", '▓'),
    ("async", "writing the snapshot", '█'),
];

fn parts(statistics: &TaskStats) -> [Duration; 4] {
    [
        statistics.start_delay,
        statistics.alignment,
        statistics.sync,
        statistics.async_,
    ]
}

/// What is counted in bytes, in the order of [`counted`].
const COUNTED: [&str; 4] = ["during alignment", "in flight", "delta", "full"];

fn counted(statistics: &TaskStats) -> [u64; 4] {
    [
        statistics.bytes_during_alignment,
        statistics.bytes_in_flight,
        statistics.bytes_written,
        statistics.bytes_full,
    ]
}

/// What each task reported; of an older checkpoint, what is known of the subtasks of its operators.
fn tasks(metadata: &Metadata) -> Vec<(String, Option<Duration>, TaskStats)> {
    if metadata.tasks.is_empty() {
        let subtasks = metadata.subtasks();
        let named = subtasks
            .map(|(uid, index, subtask)| (format!("{uid} ({index})"), None, subtask.statistics));
        return named.collect();
    }
    let of = |task: &TaskReport| (task.name.clone(), Some(task.took), task.statistics);
    metadata.tasks.iter().map(of).collect()
}

/// The least, the middle and the most of one measurement, and whose the most is.
struct Spread<'a, T> {
    min: T,
    median: T,
    max: T,
    worst: &'a str,
}

/// `None` of no tasks at all.
fn spread<'a, T: Copy + Ord>(
    tasks: &'a [(String, Option<Duration>, TaskStats)],
    of: impl Fn(Option<Duration>, &TaskStats) -> T,
) -> Option<Spread<'a, T>> {
    let mut values: Vec<(T, &str)> = tasks
        .iter()
        .map(|(name, took, statistics)| (of(*took, statistics), name.as_str()))
        .collect();
    // Stable, so that of equals the first is the worst.
    values.sort_by_key(|(value, _)| *value);
    let (max, _) = *values.last()?;
    let (_, worst) = *values.iter().find(|(value, _)| *value == max)?;
    Some(Spread {
        min: values[0].0,
        median: values[(values.len() - 1) / 2].0,
        max,
        worst,
    })
}

/// One line for each part, over all tasks.
pub(crate) fn summary(metadata: &Metadata) -> Table {
    let tasks = tasks(metadata);
    let mut table = text::table(&["", "min", "median", "max", "worst task"]);
    let mut row = |name: &str, [min, median, max]: [String; 3], worst: &str| {
        let cells = [min, median, max].map(text::right);
        let [min, median, max] = cells;
        table.add_row([name.into(), min, median, max, worst.into()]);
    };
    for (part, (name, ..)) in PARTS.iter().enumerate() {
        if let Some(spread) = spread(&tasks, |_, statistics| parts(statistics)[part]) {
            let times = [spread.min, spread.median, spread.max].map(text::duration);
            let worst = if spread.max.is_zero() {
                ""
            } else {
                spread.worst
            };
            row(name, times, worst);
        }
    }
    if !metadata.tasks.is_empty()
        && let Some(spread) = spread(&tasks, |took, _| took.unwrap_or_default())
    {
        let times = [spread.min, spread.median, spread.max].map(text::duration);
        row("acknowledged after", times, spread.worst);
    }
    for (what, name) in COUNTED.iter().enumerate() {
        if let Some(spread) = spread(&tasks, |_, statistics| counted(statistics)[what]) {
            let sizes = [spread.min, spread.median, spread.max].map(text::bytes);
            let worst = if spread.max == 0 { "" } else { spread.worst };
            row(name, sizes, worst);
        }
    }
    table
}

/// One line for each task, with its time as a bar.
pub(crate) fn by_task(metadata: &Metadata) -> Table {
    let tasks = tasks(metadata);
    let longest = tasks
        .iter()
        .map(|(.., statistics)| statistics.total())
        .max();
    let scale = longest.unwrap_or_default().max(metadata.duration);
    let mut table = text::table(&[
        "task",
        "start delay",
        "alignment",
        "sync",
        "async",
        "in flight",
        "delta",
        "full",
        "",
    ]);
    for (name, _, statistics) in &tasks {
        let times = parts(statistics).map(|time| text::right(text::duration(time)));
        let [_, in_flight, delta, full] =
            counted(statistics).map(|bytes| text::right(text::bytes(bytes)));
        let mut cells = vec![name.into()];
        cells.extend(times);
        cells.extend([in_flight, delta, full, bar(statistics, scale).into()]);
        table.add_row(cells);
    }
    table
}

/// `░ start delay ▒ alignment ▓ sync █ async`.
pub(crate) fn legend() -> String {
    let signs = PARTS.map(|(name, _, sign)| format!("{sign} {name}"));
    signs.join("  ")
}

/// The answer to "why is it slow": the longest part, and whose.
pub(crate) fn slowest(metadata: &Metadata) -> Option<String> {
    let tasks = tasks(metadata);
    let times = tasks.iter().flat_map(|(name, _, statistics)| {
        let parts = parts(statistics).into_iter().zip(PARTS);
        parts.map(move |(time, (_, meaning, _))| (time, meaning, name))
    });
    // Of equals the first.
    let (time, meaning, name) = times.rev().max_by_key(|(time, ..)| *time)?;
    let time = (!time.is_zero()).then(|| text::duration(time))?;
    Some(format!("Slowest: {meaning}, {time}, in {name}."))
}

/// The time from the trigger on, `scale` wide: a part that took any time is seen.
fn bar(statistics: &TaskStats, scale: Duration) -> String {
    let mut bar = String::new();
    let mut until = Duration::ZERO;
    let mut drawn = 0;
    for (time, (_, _, sign)) in parts(statistics).into_iter().zip(PARTS) {
        until += time;
        let share = until.as_secs_f64() / scale.as_secs_f64().max(f64::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the width, rounded"
        )]
        let end = (share * BAR as f64).round() as usize;
        let least = usize::from(!time.is_zero());
        let length = end.saturating_sub(drawn).max(least).min(BAR - drawn);
        bar.extend(std::iter::repeat_n(sign, length));
        drawn += length;
    }
    bar
}

/// What each task reported, as JSON.
pub(crate) fn tasks_json(metadata: &Metadata) -> Value {
    let tasks = tasks(metadata).into_iter().map(|(name, took, statistics)| {
        let mut task = statistics_json(&statistics);
        task["name"] = name.into();
        task["acknowledged_after_us"] = took.map(list::micros).into();
        task
    });
    Value::Array(tasks.collect())
}

/// All of SPEC 2.10, times in microseconds.
pub(crate) fn statistics_json(statistics: &TaskStats) -> Value {
    json!({
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

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(times: [u64; 4]) -> TaskStats {
        let mut statistics = TaskStats::default();
        let [start_delay, alignment, sync, write] = times.map(Duration::from_millis);
        statistics.start_delay = start_delay;
        statistics.alignment = alignment;
        statistics.sync = sync;
        statistics.async_ = write;
        statistics
    }

    fn drawn(times: [u64; 4], scale: u64) -> String {
        bar(&statistics(times), Duration::from_millis(scale))
    }

    #[test]
    fn a_bar_shows_the_parts_in_proportion_and_in_order() {
        assert_eq!(drawn([8, 8, 8, 8], 32), "░░░░░░░░▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓████████");
        assert_eq!(drawn([16, 0, 0, 0], 32), "░".repeat(16));
        assert_eq!(drawn([0, 0, 0, 0], 0), "");
    }

    #[test]
    fn a_bar_shows_what_took_any_time_and_keeps_its_width() {
        assert_eq!(
            drawn([0, 1, 0, 31_999], 32_000),
            format!("▒{}", "█".repeat(31))
        );
        assert_eq!(drawn([1, 1, 1, 1], 1_000_000), "░▒▓█");
        assert_eq!(drawn([32_000, 1, 1, 1], 32_000), "░".repeat(32));
    }

    #[test]
    fn the_median_is_a_task_and_the_first_of_equals_is_the_worst() {
        let task = |name: &str, sync| (name.to_owned(), None, statistics([0, 0, sync, 0]));
        let tasks = [task("a", 3), task("b", 9), task("c", 9), task("d", 1)];
        let spread = spread(&tasks, |_, statistics| statistics.sync).unwrap();
        let times = [spread.min, spread.median, spread.max].map(|time| time.as_millis());
        assert_eq!((times, spread.worst), ([1, 3, 9], "b"));
        assert!(super::spread(&[], |_, statistics| statistics.sync).is_none());
    }
}
