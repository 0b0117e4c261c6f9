//! Transcripts: `time event => effects; when to wake`, one line each.
//!
//! A transaction is written `c1:a`: prepared for checkpoint 1, token `a`. Back-off in here is 10 ms, 20 ms,
//! …, and three attempts.

use std::time::Duration;

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{Effect, Event, Guarantee, Machine, MachineError, Reply, Retry, Verdict};

use crate::play::{check, prepared};

const RETRY: Retry = Retry::new(Duration::from_millis(10), Duration::from_millis(1000), 3);

/// F143
#[test]
fn nothing_is_committed_without_notice() {
    check(
        running(),
        "
        0 prepared c1:a c2:b => 
        1 woke               => 
        2 completed c1       => commit c1:a
        3 committed          => all c1
    ",
    );
}

/// F143: the notice of 1 was lost.
#[test]
fn completion_commits_everything_up_to_it() {
    check(
        running(),
        "
        0 prepared c1:a      => 
        1 prepared c2:b c2:c => 
        2 prepared c3:d      => 
        3 completed c2       => commit c1:a c2:b c2:c
        4 committed committed already => all c2
        5 completed c1       => 
        6 completed c2       => 
    ",
    );
}

/// Readers see checkpoints in order, each in one step.
#[test]
fn atomic_checkpoints_are_committed_one_by_one() {
    check(
        start(Guarantee::AtomicPerCheckpoint),
        "
        0 prepared c1:a c2:b c2:c => 
        1 completed c2            => commit c1:a
        2 no                      => ; wake 12
        12 woke                   => commit c1:a
        13 committed              => commit c2:b c2:c
        14 committed committed    => all c2
    ",
    );
}

/// B52, SPEC 5.3: in this order, and no writer before the end.
#[test]
fn restored_machine_commits_then_fences_then_sweeps() {
    check(
        restored(&["c4:a", "c5:b"]),
        "
        0 begin               => commit c4:a c5:b
        1 already committed   => all c5, fence g7
        2 done                => sweep
        3 done                => ready
    ",
    );
}

#[test]
fn nothing_is_fenced_while_the_restored_commit_is_in_doubt() {
    check(
        restored(&["c5:a"]),
        "
        0 begin    => commit c5:a
        1 unknown  => ; wake 11
        11 woke    => probe c5:a
        12 unknown => ; wake 32
        32 woke    => probe c5:a
        33 already => all c5, fence g7
        34 error   => ; wake 44
        44 woke    => fence g7
        45 done    => sweep
        46 error   => ; wake 56
        56 woke    => sweep
        57 done    => ready
    ",
    );
}

/// B54k, F146: what succeeded is forgotten, what did not is tried again by itself.
#[test]
fn refused_commit_is_retried_and_the_others_are_not() {
    check(
        running(),
        "
        0 prepared c1:a c1:b => 
        1 completed c1       => commit c1:a c1:b
        2 committed no       => ; wake 12
        5 woke               => ; wake 12
        12 woke              => commit c1:b
        13 no                => ; wake 33
        33 woke              => commit c1:b
        34 committed         => all c1
    ",
    );
}

/// F146
#[test]
fn commit_refused_too_often_fails_the_job() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 completed c1  => commit c1:a
        2 no            => ; wake 12
        12 woke         => commit c1:a
        13 no           => ; wake 33
        33 woke         => commit c1:a
        34 no           => failed refused c1:a
        99 woke         => 
        99 pending      => names c1:a
    ",
    );
}

/// B54m: silence is asked about for ever and is never success.
#[test]
fn unknown_is_probed_and_keeps_its_identity() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 completed c1  => commit c1:a
        2 unknown       => ; wake 12
        12 woke         => probe c1:a
        13 unknown      => ; wake 33
        33 woke         => probe c1:a
        34 unknown      => ; wake 74
        74 woke         => probe c1:a
        75 unknown      => ; wake 155
        80 pending      => names c1:a; wake 155
        155 woke        => probe c1:a
        156 already     => all c1
    ",
    );
}

#[test]
fn probe_that_finds_it_prepared_leads_to_another_commit() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 completed c1  => commit c1:a
        2 unknown       => ; wake 12
        12 woke         => probe c1:a
        13 no           => ; wake 23
        23 woke         => commit c1:a
        24 committed    => all c1
    ",
    );
}

/// B54a: a transaction that timed out in the target is lost, not "already done".
#[test]
fn lost_transaction_fails_the_job_loudly_and_stays_listed() {
    check(
        running(),
        "
        0 prepared c1:a c1:b => 
        1 completed c1       => commit c1:a c1:b
        2 committed lost     => failed lost c1:b
        3 pending            => names c1:b
        4 prepared c2:c      => 
        5 completed c2       => 
    ",
    );
}

#[test]
fn zombie_stops_at_its_next_call_and_names_the_newer_generation() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 completed c1  => commit c1:a
        2 fenced-no g9  => failed fenced g9
    ",
    );
    check(
        restored(&[]),
        "
        0 begin     => all c5, fence g7
        1 fenced g8 => failed fenced g8
    ",
    );
}

/// SPEC 5.3
#[test]
fn abort_undoes_exactly_one_checkpoint() {
    check(
        running(),
        "
        0 prepared c1:a c2:b c3:c => 
        1 rolled-back c2          => abort c2:b
        2 error                   => ; wake 12
        3 completed c3            => commit c1:a c3:c
        12 committed committed    => all c3, abort c2:b
        13 done                   => 
        14 rolled-back c2         => 
        15 completed c2           => 
        16 pending                => names
    ",
    );
}

#[test]
fn late_abort_does_not_undo_what_is_decided() {
    check(
        running(),
        "
        0 prepared c1:a  => 
        1 completed c1   => commit c1:a
        2 rolled-back c1 => 
        3 no             => ; wake 13
        4 rolled-back c1 => ; wake 13
        13 woke          => commit c1:a
        14 committed     => all c1
    ",
    );
}

/// The job goes on after a failed checkpoint and does not send its records again.
#[test]
fn transactions_of_a_checkpoint_that_fails_are_named_by_the_next() {
    check(
        running(),
        "
        0 prepared c1:a       => 
        1 seal c1             => names c1:a
        2 not-completed c1    => 
        3 prepared c2:b       => 
        4 seal c2             => names c1:a c2:b
        5 completed c2        => released <c1, commit c1:a c2:b
        6 committed committed => all c2
    ",
    );
}

/// RESEARCH 4c: with Kafka, an id that is used again too early fences or commits another transaction.
#[test]
fn ids_are_released_when_a_completed_checkpoint_no_longer_names_them() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 seal c1       => names c1:a
        2 completed c1  => released <c1, commit c1:a
        3 prepared c2:b => 
        4 seal c2       => names c1:a c2:b
        5 committed     => all c1
        6 completed c2  => commit c2:b
        7 committed     => all c2
        8 seal c3       => names
        9 completed c3  => released <c3, all c3
    ",
    );
}

#[test]
fn confirmed_checkpoint_is_announced_while_the_next_is_in_doubt() {
    check(
        running(),
        "
        0 prepared c1:a  => 
        1 completed c1   => commit c1:a
        2 prepared c3:b  => 
        3 completed c2   => 
        4 completed c3   => 
        5 committed      => all c2, commit c3:b
        6 unknown        => ; wake 16
        7 completed c4   => ; wake 16
        16 woke          => probe c3:b
        17 already       => all c4
    ",
    );
}

#[test]
fn duplicate_report_changes_nothing() {
    check(
        running(),
        "
        0 prepared c1:a => 
        1 prepared c1:a => 
        2 completed c1  => commit c1:a
        3 prepared c1:a => 
        4 committed     => all c1
    ",
    );
}

/// F147: the last checkpoint of a bounded input is one like any other; then the job may end.
#[test]
fn machine_is_settled_when_the_last_commit_is_confirmed() {
    let mut machine = running();
    let now = Time::ZERO;
    machine
        .handle(now, Event::Prepared(vec![prepared("c9:a")]))
        .unwrap();
    machine
        .handle(now, Event::Completed(CheckpointId::new(9)))
        .unwrap();
    assert!(!machine.is_settled());
    let Some(Effect::Call(id, _)) = machine.poll() else {
        panic!("a commit is due");
    };
    let reply = Reply::Verdicts(vec![Verdict::Committed]);
    machine
        .handle(now, Event::Replied(id, reply.clone()))
        .unwrap();
    assert!(machine.is_settled());
    // The same reply once more, as a retrying transport may deliver it.
    machine.handle(now, Event::Replied(id, reply)).unwrap();
}

#[test]
fn reply_with_too_few_verdicts_is_an_error_and_changes_nothing() {
    let mut machine = running();
    let now = Time::ZERO;
    let two = vec![prepared("c1:a"), prepared("c1:b")];
    machine.handle(now, Event::Prepared(two)).unwrap();
    machine
        .handle(now, Event::Completed(CheckpointId::new(1)))
        .unwrap();
    let Some(Effect::Call(id, _)) = machine.poll() else {
        panic!("a commit is due");
    };
    let short = Reply::Verdicts(vec![Verdict::Committed]);
    let wrong = machine.handle(now, Event::Replied(id, short));
    assert_eq!(wrong, Err(MachineError::WrongReply(id)));
    assert_eq!(machine.pending().count(), 2);
}

fn start(guarantee: Guarantee) -> Machine {
    let mut machine = Machine::new(Generation::new(7), guarantee, RETRY, None);
    for _ in 0..2 {
        let Some(Effect::Call(id, _)) = machine.poll() else {
            panic!("fence, then sweep");
        };
        let done = Event::Replied(id, Reply::Done(Ok(())));
        machine.handle(Time::ZERO, done).unwrap();
    }
    assert!(matches!(machine.poll(), Some(Effect::Ready)));
    machine
}

fn running() -> Machine {
    start(Guarantee::AtomicPerTransaction)
}

fn restored(named: &[&str]) -> Machine {
    let named = named.iter().map(|one| prepared(one)).collect();
    Machine::new(
        Generation::new(7),
        Guarantee::AtomicPerTransaction,
        RETRY,
        Some((CheckpointId::new(5), named)),
    )
}
