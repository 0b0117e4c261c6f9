//! Whether the committed output is right: each update exactly once, and totals that agree.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use cutwater_runtime::BoxError;
use indicatif::HumanCount;

use crate::{
    flight::{Totals, Update},
    logs::Fleet,
};

/// What is committed, beside what is right.
pub(crate) struct Comparison {
    committed: Committed,
    not_exactly_once: Vec<String>,
    against_pass: Vec<String>,
    against_expected: Vec<String>,
}

impl Comparison {
    /// Compares with one pass over the logs, and with what came with them.
    pub(crate) fn new(committed: Committed, pass: &Fleet, expected: &Fleet) -> Self {
        let totals = committed.totals();
        Self {
            not_exactly_once: committed.not_exactly_once(),
            against_pass: differences(&totals, pass),
            against_expected: differences(&totals, expected),
            committed,
        }
    }

    /// Whether there is nothing to complain about.
    pub(crate) fn agrees(&self) -> bool {
        self.not_exactly_once.is_empty()
            && self.against_pass.is_empty()
            && self.against_expected.is_empty()
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\nCommitted: {} updates of {} aircraft in {} files",
            HumanCount(self.committed.updates),
            HumanCount(self.committed.aircraft.len() as u64),
            HumanCount(self.committed.files as u64),
        )?;
        let claims = [
            ("every update is there exactly once", &self.not_exactly_once),
            (
                "the totals are those of one pass over the logs",
                &self.against_pass,
            ),
            (
                "the totals are those of expected-by-tailnum.csv",
                &self.against_expected,
            ),
        ];
        for (claim, problems) in claims {
            if problems.is_empty() {
                writeln!(out, "  ✓ {claim}")?;
                continue;
            }
            writeln!(out, "  ✗ NOT: {claim}; {} problems", problems.len())?;
            for problem in problems.iter().take(PROBLEMS_SHOWN) {
                writeln!(out, "      {problem}")?;
            }
        }
        Ok(())
    }
}

/// Of the problems of one kind.
const PROBLEMS_SHOWN: usize = 5;

/// What is committed, read back from the sink's folder as any consumer would.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    files: usize,
    updates: u64,
    /// Per aircraft, per running count: how often that update is there, and what it says.
    aircraft: BTreeMap<String, BTreeMap<u64, (u64, Totals)>>,
}

impl Committed {
    /// Reads all committed files in `output`.
    pub(crate) fn read(output: &Path) -> Result<Self, BoxError> {
        let mut committed = Self::default();
        for entry in fs::read_dir(output)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() || name.starts_with('.') {
                continue; // Staged, so not committed.
            }
            committed.files += 1;
            let lines = BufReader::new(File::open(&path)?).lines();
            for (index, line) in lines.enumerate() {
                let at =
                    |reason: String| format!("{}, line {}: {reason}", path.display(), index + 1);
                let line = line.map_err(|error| at(error.to_string()))?;
                let update = serde_json::from_str(&line).map_err(|error| at(error.to_string()))?;
                committed.add(&update);
            }
        }
        Ok(committed)
    }

    fn add(&mut self, update: &Update) {
        self.updates += 1;
        let counts = self.aircraft.entry(update.tailnum.clone()).or_default();
        let (times, totals) = counts.entry(update.flights).or_default();
        *times += 1;
        *totals = update.totals();
    }

    /// Each update that is missing, or is there more than once: every count from 1 to an aircraft's
    /// highest must occur once.
    fn not_exactly_once(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (tailnum, counts) in &self.aircraft {
            let highest = counts.keys().next_back().copied().unwrap_or(0);
            for count in 1..=highest {
                match counts.get(&count) {
                    Some((1, _)) => {}
                    Some((times, _)) => {
                        problems.push(format!("{tailnum}: update {count} is there {times} times"));
                    }
                    None => problems.push(format!("{tailnum}: update {count} is missing")),
                }
            }
            if counts.contains_key(&0) {
                problems.push(format!("{tailnum}: there is an update 0"));
            }
        }
        problems
    }

    /// The totals: of each aircraft what its highest update says.
    fn totals(&self) -> Fleet {
        let highest = |counts: &BTreeMap<u64, (u64, Totals)>| {
            let (_, (_, totals)) = counts.last_key_value().expect("made with its first update");
            *totals
        };
        let each = self.aircraft.iter();
        each.map(|(tailnum, counts)| (tailnum.clone(), highest(counts)))
            .collect()
    }
}

/// Each aircraft whose totals differ.
fn differences(ours: &Fleet, right: &Fleet) -> Vec<String> {
    let mut differences = Vec::new();
    for (tailnum, expected) in right {
        match ours.get(tailnum) {
            Some(totals) if totals == expected => {}
            Some(totals) => {
                differences.push(format!("{tailnum}: {totals:?}, but right is {expected:?}"));
            }
            None => differences.push(format!("{tailnum}: nothing, but right is {expected:?}")),
        }
    }
    let unknown = ours.keys().filter(|tailnum| !right.contains_key(*tailnum));
    differences.extend(unknown.map(|tailnum| format!("{tailnum}: should not be there")));
    differences
}

#[cfg(test)]
mod tests {
    use super::{Committed, Fleet, Totals, Update, differences};

    fn totals(flights: u64) -> Totals {
        Totals {
            flights,
            ..Totals::default()
        }
    }

    fn committed(updates: &[(&str, u64)]) -> Committed {
        let mut committed = Committed::default();
        for (tailnum, flights) in updates {
            committed.add(&Update::new((*tailnum).to_owned(), totals(*flights)));
        }
        committed
    }

    fn fleet(aircraft: &[(&str, u64)]) -> Fleet {
        let each = aircraft.iter();
        each.map(|(tailnum, flights)| ((*tailnum).to_owned(), totals(*flights)))
            .collect()
    }

    #[test]
    fn every_count_once_in_any_order_is_exactly_once() {
        let all = committed(&[("N2", 1), ("N1", 2), ("N1", 3), ("N1", 1)]);
        assert_eq!(all.not_exactly_once(), [] as [String; 0]);
        assert_eq!(all.totals(), fleet(&[("N1", 3), ("N2", 1)]));
        assert_eq!((all.updates, all.aircraft.len()), (4, 2));
    }

    #[test]
    fn a_gap_and_a_repetition_are_found() {
        let wrong = committed(&[("N1", 1), ("N1", 3), ("N2", 1), ("N2", 1)]);
        let problems = ["N1: update 2 is missing", "N2: update 1 is there 2 times"];
        assert_eq!(wrong.not_exactly_once(), problems);
    }

    #[test]
    fn totals_that_differ_are_found_from_both_sides() {
        let right = fleet(&[("N1", 1), ("N2", 2)]);
        assert_eq!(differences(&right, &right), [] as [String; 0]);
        let found = differences(&fleet(&[("N2", 3), ("N3", 1)]), &right);
        assert_eq!(found.len(), 3);
        for (difference, tailnum) in found.iter().zip(["N1", "N2", "N3"]) {
            assert!(difference.starts_with(tailnum), "{difference}");
        }
    }
}
