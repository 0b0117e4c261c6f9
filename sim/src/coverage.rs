//! What runs have come across. A fault that never happens proves nothing.

use std::{collections::BTreeMap, fmt};

/// Counts of one run, or of many.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Coverage {
    pub(crate) seeds: u64,
    pub(crate) steps: u64,
    pub(crate) longest: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts one more of `what`.
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, times: usize) {
        *self.counts.entry(what).or_default() += times as u64;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.longest = self.longest.max(other.longest);
        for (what, times) in &other.counts {
            *self.counts.entry(what).or_default() += times;
        }
    }

    /// How often `what` was counted.
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<44} {:>14}", "seeds", self.seeds)?;
        writeln!(f, "{:<44} {:>14}", "steps", self.steps)?;
        writeln!(f, "{:<44} {:>14}", "steps of the longest run", self.longest)?;
        self.counts
            .iter()
            .try_for_each(|(what, times)| writeln!(f, "{what:<44} {times:>14}"))
    }
}
