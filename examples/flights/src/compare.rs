//! Whether the committed output is right: each update exactly once, and totals that agree.

use std::path::Path;

use cutwater_example_demo::{Comparison, Ledger, read_committed};
use cutwater_runtime::BoxError;
use indicatif::HumanCount;

use crate::{
    flight::{Totals, Update},
    logs::Fleet,
};

/// Compares what is committed in `output` with one pass over the logs, and with what came with them.
pub(crate) fn compare(
    output: &Path,
    pass: &Fleet,
    expected: &Fleet,
) -> Result<Comparison, BoxError> {
    // An update's number is the aircraft's running count of flights.
    let mut updates = Ledger::default();
    let files = read_committed(output, |update: Update| {
        let totals = update.totals();
        updates.add(update.tailnum, update.flights, totals);
    })?;
    let totals = totals(&updates);
    let committed = format!(
        "{} updates of {} aircraft in {} files",
        HumanCount(updates.len()),
        HumanCount(updates.keys()),
        HumanCount(files),
    );
    Ok(Comparison::new(committed)
        .claim(
            "every update is there exactly once",
            updates.not_exactly_once("update"),
        )
        .claim(
            "the totals are those of one pass over the logs",
            differences(&totals, pass),
        )
        .claim(
            "the totals are those of expected-by-tailnum.csv",
            differences(&totals, expected),
        ))
}

/// The totals: of each aircraft what its highest update says.
fn totals(updates: &Ledger<String, Totals>) -> Fleet {
    let highest = updates.iter().filter_map(|(tailnum, totals)| {
        let last = totals.last()?;
        Some((tailnum.clone(), *last))
    });
    highest.collect()
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
    use super::{Fleet, Ledger, Totals, differences, totals};

    fn flights(flights: u64) -> Totals {
        Totals {
            flights,
            ..Totals::default()
        }
    }

    fn fleet(aircraft: &[(&str, u64)]) -> Fleet {
        let each = aircraft.iter();
        each.map(|(tailnum, count)| ((*tailnum).to_owned(), flights(*count)))
            .collect()
    }

    #[test]
    fn the_totals_are_those_of_the_highest_update() {
        let mut updates = Ledger::default();
        for (tailnum, count) in [("N2", 1), ("N1", 2), ("N1", 3), ("N1", 1)] {
            updates.add(tailnum.to_owned(), count, flights(count));
        }
        assert_eq!(totals(&updates), fleet(&[("N1", 3), ("N2", 1)]));
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
