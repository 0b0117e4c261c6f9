//! Whether the committed output is right: each record of the loop exactly once, by two ledgers.
//!
//! A start numbers its steps, which the records bring along; a number counts its visits, which are
//! state. A record that goes round twice after a restart, or is lost on its way, shows in both.

use std::path::Path;

use cutwater_example_demo::{Comparison, Ledger, read_committed};
use cutwater_runtime::BoxError;
use indicatif::HumanCount;

use crate::hailstone::{Hailstone, Visit};

/// Compares what is committed in `output` with the paths of all starts up to `starts`.
pub(crate) fn compare(output: &Path, starts: u64) -> Result<Comparison, BoxError> {
    let mut steps = Ledger::default();
    let mut visits = Ledger::default();
    let files = read_committed(output, |visit: Visit| {
        steps.add(visit.start, visit.step, visit.number);
        visits.add(visit.number, visit.visit, ());
    })?;
    let committed = format!(
        "{} steps of {} starts, at {} numbers, in {} files",
        HumanCount(steps.len()),
        HumanCount(steps.keys()),
        HumanCount(visits.keys()),
        HumanCount(files),
    );
    Ok(Comparison::new(committed)
        .claim(
            "every step of every start is there exactly once",
            steps.not_exactly_once("step"),
        )
        .claim(
            "every visit of every number is counted exactly once",
            visits.not_exactly_once("visit"),
        )
        .claim(
            "the steps are those of one calculation",
            wrong_paths(&steps, starts),
        ))
}

/// Each start that did not fall as it should.
fn wrong_paths(steps: &Ledger<u64, u64>, starts: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let mut missing: Vec<bool> = vec![true; usize::try_from(starts).unwrap_or(usize::MAX)];
    for (&start, numbers) in steps.iter() {
        let place = usize::try_from(start.wrapping_sub(1)).unwrap_or(usize::MAX);
        match missing.get_mut(place) {
            Some(missing) => *missing = false,
            None => problems.push(format!("{start}: should not be there")),
        }
        let right = Hailstone::new(start).path().map(|each| each.number);
        if !numbers.copied().eq(right) {
            problems.push(format!("{start}: did not come down by the right numbers"));
        }
    }
    let missing = (1..=starts).zip(missing).filter(|(_, missing)| *missing);
    problems.extend(missing.map(|(start, _)| format!("{start}: nothing is there")));
    problems
}

#[cfg(test)]
mod tests {
    use super::{Hailstone, Ledger, wrong_paths};

    fn steps(starts: &[u64]) -> Ledger<u64, u64> {
        let mut steps = Ledger::default();
        for &start in starts {
            for hailstone in Hailstone::new(start).path() {
                steps.add(start, hailstone.step, hailstone.number);
            }
        }
        steps
    }

    #[test]
    fn all_starts_with_all_their_steps_are_right() {
        assert_eq!(wrong_paths(&steps(&[3, 1, 2]), 3), [] as [String; 0]);
    }

    #[test]
    fn a_start_too_few_or_too_many_and_a_wrong_number_are_found() {
        let mut wrong = steps(&[1, 3, 9]);
        wrong.add(3, 2, 11);
        let problems = [
            "3: did not come down by the right numbers",
            "9: should not be there",
            "2: nothing is there",
        ];
        assert_eq!(wrong_paths(&wrong, 3), problems);
    }
}
