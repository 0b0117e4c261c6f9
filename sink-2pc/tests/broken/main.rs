//! Sinks that are wrong in one way each, as real ones were: the exam must see it, and see it where
//! it is.

mod sink;

use cutwater_sink_2pc::testkit::{self, Check, Check::*, block_on};
use sink::{BrokenTarget, Flaw};

/// Each flaw, and all checks that see it.
const SEEN: [(Flaw, &[Check]); 17] = [
    (Flaw::None, &[]),
    (
        Flaw::WritesThrough,
        &[Window1, Window2, Window5, Abort, Decline, Zombie, Rescale],
    ),
    (
        Flaw::CommitsInPrepare,
        &[Window2, Window4, Window5, Abort, Decline, Zombie, Rescale],
    ),
    (Flaw::ForgetsOverRestart, &[Window3, Abort, Decline, Zombie]),
    (Flaw::CommitsTwice, &[Window4, Window5]),
    (Flaw::ClaimsEveryCommit, &[Window4, Window5]),
    (Flaw::TakesDoneForLost, &[Window4, Window5]),
    (Flaw::CleansUpEarly, &[Window5]),
    (Flaw::ProbesYes, &[MessageLost, Abort]),
    (Flaw::ProbesNo, &[MessageLost]),
    (
        Flaw::ReusesNames,
        &[
            Window1, Window2, Window3, Window4, Window5, Abort, Zombie, Rescale,
        ],
    ),
    (Flaw::TakesAbortedForDone, &[Abort, Zombie]),
    (Flaw::DoesNotFence, &[Zombie]),
    (Flaw::SweepsTwoSubtasks, &[Rescale]),
    (Flaw::SweepsNeighbours, &[Neighbour]),
    (Flaw::PreparesEmpty, &[Empty]),
    (
        Flaw::BuffersOverPrepare,
        &[Window1, Window2, Window3, Window4, Window5, Zombie],
    ),
];

#[test]
fn every_flaw_is_seen_where_it_is() {
    let mut surprises = Vec::new();
    for (flaw, expected) in SEEN {
        let report = block_on(testkit::examine(|| BrokenTarget::new(flaw)));
        let seen: Vec<Check> = report.failed().map(|(check, _)| check).collect();
        if seen != expected {
            surprises.push(format!("{flaw:?}: {seen:?}\n{report}"));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
#[should_panic(expected = "Window3: FAILED")]
fn conforms_panics_with_the_verdict_for_each_window() {
    testkit::conforms(|| BrokenTarget::new(Flaw::ForgetsOverRestart));
}
