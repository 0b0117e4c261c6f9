//! Where each split is, told as transcripts.

use cutwater_barrier::CheckpointId;
use cutwater_source::{
    Assigner, Assignment, Discovery, Effect, ErrorKind, Event, Split, redistribute,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
struct Log {
    id: String,
    at: u64,
    end: Option<u64>,
}

impl Split for Log {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_finished(&self) -> bool {
        Some(self.at) == self.end
    }
}

fn log(id: &str, at: u64) -> Log {
    Log {
        id: id.to_owned(),
        at,
        end: None,
    }
}

fn finished(id: &str) -> Log {
    Log {
        id: id.to_owned(),
        at: 9,
        end: Some(9),
    }
}

fn n(id: u64) -> CheckpointId {
    CheckpointId::new(id)
}

/// What the readers hear, as `assign 0 a@3 b@0, no more 1`.
fn effects(assigner: &mut Assigner<Log>) -> String {
    let mut said = Vec::new();
    while let Some(effect) = assigner.poll() {
        said.push(match effect {
            Effect::Assign { subtask, splits } => {
                let splits: Vec<_> = splits
                    .iter()
                    .map(|s| format!("{}@{}", s.id, s.at))
                    .collect();
                format!("assign {subtask} {}", splits.join(" "))
            }
            Effect::NoMore { subtask } => format!("no more {subtask}"),
        });
    }
    said.join(", ")
}

fn check(assigner: &mut Assigner<Log>, event: Event<Log>, expected: &str) {
    let text = format!("{event:?}");
    assigner.handle(event);
    assert_eq!(effects(assigner), expected, "after {text}");
}

fn requested(subtask: usize) -> Event<Log> {
    Event::Requested { subtask }
}

fn complete(splits: Vec<Log>) -> Event<Log> {
    Event::Discovered(Discovery::complete(splits))
}

fn partial(splits: Vec<Log>) -> Event<Log> {
    Event::Discovered(Discovery::partial(splits))
}

#[test]
fn on_request_each_reader_gets_one_at_a_time_and_then_hears_the_end() {
    let mut a = Assigner::new(Assignment::OnRequest, 2);
    check(&mut a, requested(1), "");
    check(
        &mut a,
        complete(vec![log("a", 0), log("b", 0), log("c", 0)]),
        "assign 1 a@0",
    );
    check(&mut a, requested(0), "assign 0 b@0");
    check(&mut a, requested(0), "assign 0 c@0");
    check(&mut a, requested(0), "no more 0");
    check(&mut a, requested(1), "no more 1");
    check(&mut a, requested(1), "");
}

#[test]
fn up_front_shares_differ_by_at_most_one_also_with_later_splits() {
    let mut a = Assigner::new(Assignment::UpFront, 2);
    check(
        &mut a,
        partial(vec![log("a", 0), log("b", 0), log("c", 0)]),
        "assign 0 a@0 c@0, assign 1 b@0",
    );
    check(
        &mut a,
        complete(vec![log("d", 0)]),
        "assign 1 d@0, no more 0, no more 1",
    );
}

#[test]
fn a_request_waits_for_a_split_while_more_may_come() {
    let mut a = Assigner::new(Assignment::OnRequest, 1);
    check(&mut a, partial(vec![]), "");
    check(&mut a, requested(0), "");
    check(&mut a, requested(0), "");
    check(
        &mut a,
        partial(vec![log("a", 5), log("b", 0)]),
        "assign 0 a@5",
    );
}

#[test]
fn a_known_split_is_not_assigned_again() {
    let mut a = Assigner::new(Assignment::UpFront, 1);
    check(&mut a, partial(vec![log("a", 0)]), "assign 0 a@0");
    check(&mut a, partial(vec![log("a", 0)]), "");
    assert_eq!(a.known().len(), 1);
}

/// CASES B57: discovered at 100, checkpointed unassigned, the topic grows to 150: starts at 100.
#[test]
fn an_unassigned_split_keeps_the_start_it_was_discovered_with() {
    let mut a = Assigner::new(Assignment::OnRequest, 1);
    check(&mut a, partial(vec![log("topic-0", 100)]), "");
    let state = a.snapshot(n(1));

    let mut a = Assigner::restore(Assignment::OnRequest, 1, &state, vec![]).unwrap();
    check(&mut a, complete(vec![log("topic-0", 150)]), "");
    check(&mut a, requested(0), "assign 0 topic-0@100");
}

/// CASES F150: assigned but not checkpointed splits return, checkpointed ones do not.
#[test]
fn a_failed_reader_returns_what_no_complete_checkpoint_of_it_holds() {
    let mut a = Assigner::new(Assignment::OnRequest, 2);
    check(
        &mut a,
        complete(vec![log("a", 0), log("b", 0), log("c", 0), log("d", 0)]),
        "",
    );
    check(&mut a, requested(0), "assign 0 a@0");
    a.snapshot(n(1));
    check(&mut a, Event::Completed(n(1)), "");
    check(&mut a, requested(0), "assign 0 b@0");
    a.snapshot(n(2)); // not completed
    check(&mut a, requested(0), "assign 0 c@0");
    check(&mut a, Event::Failed { subtask: 0 }, "");
    check(&mut a, requested(1), "assign 1 b@0");
    check(&mut a, requested(0), "assign 0 c@0");
    check(&mut a, requested(0), "assign 0 d@0");
    check(&mut a, requested(0), "no more 0");
    check(&mut a, Event::Failed { subtask: 0 }, "");
    check(&mut a, requested(0), "assign 0 c@0");
}

/// CASES F150: a completed checkpoint covers assignments of an earlier, failed one too.
#[test]
fn a_later_checkpoint_covers_what_was_assigned_before_an_earlier_one() {
    let mut a = Assigner::new(Assignment::UpFront, 1);
    check(&mut a, partial(vec![log("a", 0)]), "assign 0 a@0");
    a.snapshot(n(1)); // fails
    a.snapshot(n(2));
    check(&mut a, Event::Completed(n(2)), "");
    check(&mut a, Event::Failed { subtask: 0 }, "");
    assert_eq!(a.unassigned().count(), 0);
}

#[test]
fn an_assignment_the_failed_reader_never_heard_of_is_withdrawn() {
    let mut a = Assigner::new(Assignment::OnRequest, 1);
    a.handle(complete(vec![log("a", 0)]));
    a.handle(requested(0));
    a.handle(Event::Failed { subtask: 0 });
    assert_eq!(effects(&mut a), "");
    check(&mut a, requested(0), "assign 0 a@0");
}

/// CASES F150: redistribution on restore looks at all splits of all old readers.
#[test]
fn restore_spreads_all_splits_and_does_not_give_out_finished_ones() {
    let mut a = Assigner::new(Assignment::UpFront, 1);
    a.handle(complete(vec![
        log("a", 0),
        log("b", 0),
        log("c", 0),
        finished("d"),
        log("e", 0),
    ]));
    let state = a.snapshot(n(1));
    // Effects of before the snapshot reached the reader: its part has them all.
    let reader = vec![
        log("e", 5),
        log("c", 3),
        log("a", 1),
        finished("d"),
        log("b", 2),
    ];
    let mut a = Assigner::restore(Assignment::UpFront, 3, &state, reader).unwrap();
    assert_eq!(
        effects(&mut a),
        "assign 0 a@1 e@5, assign 1 b@2, assign 2 c@3"
    );
    check(
        &mut a,
        complete(vec![log("a", 0), finished("d"), log("f", 0)]),
        "assign 1 f@0, no more 0, no more 1, no more 2",
    );
    assert_eq!(a.finished(), [finished("d")]);
    // And it stays finished over the next restart.
    let state = a.snapshot(n(2));
    let reader = ["a", "b", "c", "e", "f"].map(|id| log(id, 1)).to_vec();
    let a = Assigner::restore(Assignment::UpFront, 1, &state, reader).unwrap();
    assert_eq!(a.finished(), [finished("d")]);
}

/// SPEC 0.1: parts of different checkpoints are never mixed.
#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let mut a = Assigner::new(Assignment::OnRequest, 1);
    a.handle(partial(vec![log("a", 0)]));
    let unassigned = a.snapshot(n(1));
    a.handle(requested(0));
    let assigned = a.snapshot(n(2));

    for (state, readers, names) in [
        (&unassigned, vec![log("a", 3)], "\"a\""),
        (&assigned, vec![], "\"a\""),
        (&assigned, vec![log("a", 0), log("x", 0)], "\"x\""),
        (&assigned, vec![log("a", 0), log("a", 0)], "\"a\""),
    ] {
        let error = Assigner::restore(Assignment::OnRequest, 1, state, readers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(names), "{error}");
    }
}

#[test]
fn damaged_state_is_an_error() {
    let mut a = Assigner::new(Assignment::OnRequest, 1);
    a.handle(partial(vec![log("a", 0)]));
    let state = a.snapshot(n(1));
    let mut longer = state.clone();
    longer.push(0);
    let mut other_version = state.clone();
    other_version[0] = 99;
    for bytes in [&state[..state.len() - 1], &longer, &other_version, &[]] {
        let error = Assigner::<Log>::restore(Assignment::OnRequest, 1, bytes, vec![]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn redistribution_is_even_complete_and_independent_of_the_order() {
    for splits in 0..20 {
        for parallelism in 1..8 {
            let logs: Vec<Log> = (0..splits).map(|i| log(&format!("{i:02}"), i)).collect();
            let shares = redistribute(logs.clone(), parallelism);
            let sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            let mut all = shares.concat();
            all.sort_by(|a, b| a.id.cmp(&b.id));
            assert_eq!(all, logs);

            let reversed = logs.into_iter().rev().collect();
            assert_eq!(redistribute(reversed, parallelism), shares);
        }
    }
}
