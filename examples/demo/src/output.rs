//! What a job has committed, and whether it is what it should be.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use cutwater_runtime::BoxError;
use serde::de::DeserializeOwned;

/// Reads all committed JSON lines in `output`, as any consumer would. Returns in how many files they
/// were.
///
/// # Errors
///
/// If a file cannot be read, or has a line that is no `T`; with its name and the line.
pub fn read_committed<T: DeserializeOwned>(
    output: &Path,
    mut each: impl FnMut(T),
) -> Result<u64, BoxError> {
    let unreadable = |error| format!("{} cannot be read: {error}", output.display());
    let mut files = 0;
    for entry in fs::read_dir(output).map_err(unreadable)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() || name.starts_with('.') {
            continue; // Staged, so not committed.
        }
        files += 1;
        let lines = BufReader::new(File::open(&path)?).lines();
        for (index, line) in lines.enumerate() {
            let at = |reason: String| format!("{}, line {}: {reason}", path.display(), index + 1);
            let line = line.map_err(|error| at(error.to_string()))?;
            each(serde_json::from_str(&line).map_err(|error| at(error.to_string()))?);
        }
    }
    Ok(files)
}

/// Entries that their key numbers from 1: whoever lost or doubled one could not hide it.
#[derive(Clone, Debug)]
pub struct Ledger<K, V> {
    /// Per key, per number: how often that entry is there, and what it says.
    entries: BTreeMap<K, BTreeMap<u64, (u64, V)>>,
}

impl<K, V> Default for Ledger<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }
}

impl<K: Ord + fmt::Display, V> Ledger<K, V> {
    /// Enters what is `number` among those of `key`.
    pub fn add(&mut self, key: K, number: u64, value: V) {
        let entries = self.entries.entry(key).or_default();
        let times = entries.get(&number).map_or(0, |(times, _)| *times);
        entries.insert(number, (times + 1, value));
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        let entries = self.entries.values().flat_map(BTreeMap::values);
        entries.map(|(times, _)| times).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The entries of each key in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&K, impl Iterator<Item = &V>)> {
        let values = |entries| BTreeMap::values(entries).map(|(_, value)| value);
        self.entries
            .iter()
            .map(move |(key, entries)| (key, values(entries)))
    }

    /// Each entry, called `what`, that is missing or there more than once: every number from 1 to a
    /// key's highest must occur once.
    pub fn not_exactly_once(&self, what: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, entries) in &self.entries {
            let highest = entries.keys().next_back().copied().unwrap_or(0);
            for number in 1..=highest {
                match entries.get(&number) {
                    Some((1, _)) => {}
                    Some((times, _)) => {
                        problems.push(format!("{key}: {what} {number} is there {times} times"));
                    }
                    None => problems.push(format!("{key}: {what} {number} is missing")),
                }
            }
            if entries.contains_key(&0) {
                problems.push(format!("{key}: there is {what} 0"));
            }
        }
        problems
    }
}

/// What is committed, and for each thing that should hold, whether it does.
#[derive(Clone, Debug)]
#[must_use]
pub struct Comparison {
    committed: String,
    claims: Vec<(&'static str, Vec<String>)>,
}

impl Comparison {
    /// Of what was `committed`, to be told to people, nothing is claimed yet.
    pub fn new(committed: impl Into<String>) -> Self {
        Self {
            committed: committed.into(),
            claims: Vec::new(),
        }
    }

    /// Adds something that should hold, with all that shows that it does not.
    pub fn claim(mut self, claim: &'static str, problems: Vec<String>) -> Self {
        self.claims.push((claim, problems));
        self
    }

    /// Whether there is nothing to complain about.
    pub fn agrees(&self) -> bool {
        self.claims.iter().all(|(_, problems)| problems.is_empty())
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nCommitted: {}", self.committed)?;
        for (claim, problems) in &self.claims {
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

#[cfg(test)]
mod tests {
    use super::{Comparison, Ledger};

    fn ledger(entries: &[(&'static str, u64)]) -> Ledger<&'static str, u64> {
        let mut ledger = Ledger::default();
        for &(key, number) in entries {
            ledger.add(key, number, 10 * number);
        }
        ledger
    }

    #[test]
    fn every_number_once_in_any_order_is_exactly_once() {
        let all = ledger(&[("N2", 1), ("N1", 2), ("N1", 3), ("N1", 1)]);
        assert_eq!(all.not_exactly_once("update"), [] as [String; 0]);
        assert_eq!((all.len(), all.keys()), (4, 2));
        let values: Vec<Vec<u64>> = all
            .iter()
            .map(|(_, each)| each.copied().collect())
            .collect();
        assert_eq!(values, [vec![10, 20, 30], vec![10]]);
    }

    #[test]
    fn a_gap_and_a_repetition_are_found() {
        let wrong = ledger(&[("N1", 1), ("N1", 3), ("N2", 1), ("N2", 1), ("N3", 0)]);
        let problems = [
            "N1: update 2 is missing",
            "N2: update 1 is there 2 times",
            "N3: there is update 0",
        ];
        assert_eq!(wrong.not_exactly_once("update"), problems);
        assert_eq!(wrong.len(), 5);
    }

    #[test]
    fn one_claim_that_does_not_hold_is_enough_to_disagree() {
        let holds = Comparison::new("3 lines").claim("all is there", Vec::new());
        assert!(holds.agrees());
        let fails = holds.claim("once", (0..9).map(|n| format!("{n} twice")).collect());
        assert!(!fails.agrees());
        let mut said = Vec::new();
        fails.write(&mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("✓ all is there"), "{said}");
        assert!(
            said.contains("✗ NOT: once; 9 problems\n      0 twice"),
            "{said}"
        );
        assert!(!said.contains("5 twice"), "{said}");
    }
}
