//! What the demo shows of its runs: the checkpoints and the recoveries.

use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use indicatif::{HumanBytes, HumanCount};

use crate::{event::Checkpoint, halt::Window};

/// What happened in all runs.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Completed ones, each with the number of its run.
    pub(crate) checkpoints: Vec<(usize, Checkpoint)>,
    pub(crate) aborted: u64,
    pub(crate) recoveries: Vec<Recovery>,
    /// The kill that the next run has to recover from.
    pub(crate) stopped: Option<Stop>,
}

/// A kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) window: Window,
    /// The checkpoint it was in the middle of.
    pub(crate) checkpoint: Option<u64>,
    /// The newest that was complete.
    pub(crate) latest: Option<u64>,
    /// In the state by then.
    pub(crate) records: u64,
    pub(crate) parallelism: u16,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.window)?;
        if let Some(checkpoint) = self.checkpoint {
            write!(f, " of checkpoint {checkpoint}")?;
        }
        write!(f, ", after {} records", HumanCount(self.records))
    }
}

/// A kill, and what came after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) stop: Stop,
    pub(crate) restored: Option<u64>,
    /// In the restored state.
    pub(crate) records: u64,
    /// On the way there in the restored checkpoint.
    pub(crate) in_flight: u64,
    pub(crate) parallelism: u16,
    /// From the start of the process to its first checkpoint.
    pub(crate) first_checkpoint: Duration,
}

impl Recovery {
    /// Processed, lost with the process, and processed again.
    fn repeated(&self) -> u64 {
        self.stop.records.saturating_sub(self.records)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "      restored from checkpoint {} with parallelism {}: {} records in the state, {} in flight, {} to process again",
            or_none(self.restored),
            self.parallelism,
            HumanCount(self.records),
            HumanCount(self.in_flight),
            HumanCount(self.repeated()),
        )
    }
}

/// Of the checkpoints of one run, so many of the first and of the last are shown.
const SHOWN: usize = 2;

impl History {
    /// What shows that no recovery had to put records back on their way.
    pub(crate) fn nothing_in_flight(&self) -> Vec<String> {
        let restored = self.recoveries.iter().filter(|each| each.in_flight > 0);
        let problem = "no restored checkpoint held any";
        (restored.count() == 0)
            .then(|| problem.to_owned())
            .into_iter()
            .collect()
    }

    /// The tables; the one of checkpoints with `all` of them, or the first and last of each run.
    pub(crate) fn write(&self, out: &mut impl Write, all: bool) -> io::Result<()> {
        let (completed, aborted) = (self.checkpoints.len(), self.aborted);
        writeln!(
            out,
            "\nCheckpoints: {completed} completed, {aborted} aborted"
        )?;
        writeln!(out, "{}", self.checkpoint_table(all))?;
        writeln!(out, "\nRecoveries")?;
        writeln!(out, "{}", self.recovery_table())
    }

    fn checkpoint_table(&self, all: bool) -> Table {
        let mut table = table(&[
            "run",
            "id",
            "duration",
            "start delay",
            "alignment",
            "sync",
            "async",
            "bytes",
            "in flight",
        ]);
        for run in self.checkpoints.chunk_by(|(run, _), (next, _)| run == next) {
            let is_whole = all || run.len() <= 2 * SHOWN + 1;
            let last = if is_whole { 0 } else { run.len() - SHOWN };
            let first = if is_whole { run } else { &run[..SHOWN] };
            for (run, checkpoint) in first {
                table.add_row(numbers(row(&run.to_string(), checkpoint)));
            }
            if !is_whole {
                let left_out = run.len() - 2 * SHOWN;
                let mut cells = vec![run[0].0.to_string(), format!("… {left_out} more")];
                cells.resize(table.column_count(), "…".to_owned());
                table.add_row(numbers(cells));
                for (run, checkpoint) in &run[last..] {
                    table.add_row(numbers(row(&run.to_string(), checkpoint)));
                }
            }
        }
        for (name, rank) in [("least", 0.0), ("median", 0.5), ("most", 1.0)] {
            if let Some(checkpoint) = self.ranked(rank) {
                let mut cells = row("", &checkpoint);
                name.clone_into(&mut cells[1]);
                table.add_row(numbers(cells));
            }
        }
        table
    }

    /// Of each column the value at `rank`, from 0 for the least to 1 for the most.
    fn ranked(&self, rank: f64) -> Option<Checkpoint> {
        let at = |of: fn(&Checkpoint) -> u64| {
            let mut values: Vec<_> = self.checkpoints.iter().map(|(_, each)| of(each)).collect();
            values.sort_unstable();
            let index = (values.len().checked_sub(1)? as f64 * rank).round();
            values.get(index as usize).copied()
        };
        Some(Checkpoint {
            id: 0,
            duration: at(|each| each.duration)?,
            start_delay: at(|each| each.start_delay)?,
            alignment: at(|each| each.alignment)?,
            sync: at(|each| each.sync)?,
            r#async: at(|each| each.r#async)?,
            bytes: at(|each| each.bytes)?,
            in_flight: at(|each| each.in_flight)?,
            bytes_in_flight: at(|each| each.bytes_in_flight)?,
        })
    }

    fn recovery_table(&self) -> Table {
        let mut table = table(&[
            "killed",
            "during",
            "complete",
            "restored",
            "parallelism",
            "in flight",
            "again",
            "first checkpoint",
        ]);
        for recovery in &self.recoveries {
            let stop = &recovery.stop;
            let mut cells = numbers([
                or_none(stop.checkpoint),
                or_none(stop.latest),
                or_none(recovery.restored),
                format!("{} → {}", stop.parallelism, recovery.parallelism),
                HumanCount(recovery.in_flight).to_string(),
                format!("{} records", HumanCount(recovery.repeated())),
                format!("{} ms", recovery.first_checkpoint.as_millis()),
            ]);
            cells.insert(0, Cell::new(stop.window));
            table.add_row(cells);
        }
        table
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

fn row(run: &str, checkpoint: &Checkpoint) -> Vec<String> {
    vec![
        run.to_owned(),
        checkpoint.id.to_string(),
        millis(checkpoint.duration),
        millis(checkpoint.start_delay),
        millis(checkpoint.alignment),
        millis(checkpoint.sync),
        millis(checkpoint.r#async),
        HumanBytes(checkpoint.bytes).to_string(),
        in_flight(checkpoint),
    ]
}

/// Records and what they take.
fn in_flight(checkpoint: &Checkpoint) -> String {
    let (records, bytes) = (checkpoint.in_flight, checkpoint.bytes_in_flight);
    match records {
        0 => "none".to_owned(),
        _ => format!("{} ({})", HumanCount(records), HumanBytes(bytes)),
    }
}

fn numbers(cells: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let right = |cell| Cell::new(cell).set_alignment(CellAlignment::Right);
    cells.into_iter().map(right).collect()
}

fn millis(micros: u64) -> String {
    format!(
        "{:.2} ms",
        Duration::from_micros(micros).as_secs_f64() * 1e3
    )
}

fn or_none(checkpoint: Option<u64>) -> String {
    checkpoint.map_or_else(|| "none".to_owned(), |checkpoint| checkpoint.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Duration, History, Recovery, Stop, Window};

    fn history(in_flight: &[u64]) -> History {
        let stop = Stop {
            window: Window::Prepared,
            checkpoint: Some(4),
            latest: Some(3),
            records: 120,
            parallelism: 2,
        };
        let recovery = |&in_flight| Recovery {
            stop,
            restored: Some(3),
            records: 90,
            in_flight,
            parallelism: 3,
            first_checkpoint: Duration::ZERO,
        };
        History {
            recoveries: in_flight.iter().map(recovery).collect(),
            ..History::default()
        }
    }

    #[test]
    fn one_recovery_with_records_in_flight_shows_that_they_come_back() {
        assert_eq!(history(&[0, 7, 0]).nothing_in_flight(), [] as [String; 0]);
        assert_eq!(history(&[0, 0]).nothing_in_flight().len(), 1);
        assert_eq!(history(&[]).nothing_in_flight().len(), 1);
    }
}
