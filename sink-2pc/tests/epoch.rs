//! SPEC 5.8: what the epoch fence does, `event => effects`, one line each.

use cutwater_barrier::{CheckpointId, Time};
use cutwater_sink_2pc::{EpochEffect, EpochError, EpochEvent, EpochFence};

#[test]
fn idle_writer_snapshots_at_the_barrier() {
    check(
        "
        freeze c1    => snapshot c1; frozen
        handed c1    => resume
        began        =>
    ",
    );
}

#[test]
fn snapshot_waits_for_the_last_write_before_the_barrier() {
    check(
        "
        began     =>
        began     =>
        freeze c1 => ; frozen
        ended     => ; frozen
        ended     => snapshot c1; frozen
        handed c1 => resume
    ",
    );
}

/// FLINK-25126 has its cousin here: what failed once is missing from every later checkpoint too.
#[test]
fn failed_write_fails_its_checkpoint_and_all_later_ones() {
    check(
        "
        began     =>
        began     =>
        failed    =>
        freeze c1 => fail c1, resume
        ended     =>
        began     =>
        freeze c2 => fail c2, resume
    ",
    );
}

#[test]
fn write_that_fails_while_draining_fails_the_checkpoint_at_once() {
    check(
        "
        began     =>
        began     =>
        freeze c1 => ; frozen
        failed    => fail c1, resume
        ended     =>
    ",
    );
}

#[test]
fn abandoned_checkpoint_thaws_and_leaves_nothing() {
    check(
        "
        began     =>
        freeze c1 => ; frozen
        thaw c1   => resume
        thaw c1   =>
        freeze c2 => ; frozen
        thaw c1   => ; frozen
        ended     => snapshot c2; frozen
        thaw c2   => resume
        freeze c3 => snapshot c3; frozen
    ",
    );
}

/// B54b: with `writes` in flight at the barrier, let each one fail in turn.
#[test]
fn failure_at_every_point_fails_the_checkpoint() {
    for writes in 1..6 {
        for failing in 0..writes {
            for frozen_at in 0..=writes {
                let mut fence = EpochFence::new();
                let mut tell = |event| {
                    fence.handle(Time::ZERO, event).unwrap();
                    std::iter::from_fn(|| fence.poll()).collect::<Vec<_>>()
                };
                let mut seen = Vec::new();
                (0..writes).for_each(|_| seen.extend(tell(EpochEvent::Began)));
                for write in 0..=writes {
                    if write == frozen_at {
                        seen.extend(tell(EpochEvent::Freeze(CheckpointId::new(1))));
                    }
                    if write < writes {
                        let is_failing = write == failing;
                        seen.extend(tell(if is_failing {
                            EpochEvent::Failed
                        } else {
                            EpochEvent::Ended
                        }));
                    }
                }
                let fail = EpochEffect::Fail(CheckpointId::new(1));
                assert_eq!(seen, [fail, EpochEffect::Resume], "write {failing}");
            }
        }
    }
}

#[test]
fn impossible_events_are_errors_and_change_nothing() {
    let mut fence = EpochFence::new();
    let mut tell = |event| fence.handle(Time::ZERO, event);
    let one = CheckpointId::new(1);
    assert_eq!(tell(EpochEvent::Ended), Err(EpochError::NeverBegan));
    assert_eq!(tell(EpochEvent::HandedOff(one)), Err(EpochError::NotAsked));
    assert_eq!(tell(EpochEvent::Freeze(one)), Ok(()));
    assert_eq!(tell(EpochEvent::Began), Err(EpochError::BeganFrozen));
    let two = EpochEvent::Freeze(one.next());
    assert_eq!(tell(two), Err(EpochError::FrozenTwice));
    assert_eq!(fence.in_flight(), 0);
    assert!(fence.is_frozen());
}

fn check(transcript: &str) {
    let mut fence = EpochFence::new();
    for line in transcript.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (input, expected) = line.split_once("=>").expect("event => effects");
        let mut words = input.split_whitespace();
        let name = words.next().expect("an event");
        let mut id = || {
            let id = words.next().expect("a checkpoint");
            CheckpointId::new(id[1..].parse().expect("c1"))
        };
        let event = match name {
            "began" => EpochEvent::Began,
            "ended" => EpochEvent::Ended,
            "failed" => EpochEvent::Failed,
            "freeze" => EpochEvent::Freeze(id()),
            "handed" => EpochEvent::HandedOff(id()),
            "thaw" => EpochEvent::Thaw(id()),
            _ => panic!("no event is called {name}"),
        };
        fence.handle(Time::ZERO, event).expect("a possible event");
        let effects = std::iter::from_fn(|| fence.poll()).map(|effect| match effect {
            EpochEffect::Snapshot(id) => format!("snapshot c{id}"),
            EpochEffect::Fail(id) => format!("fail c{id}"),
            EpochEffect::Resume => "resume".into(),
        });
        let mut seen = effects.collect::<Vec<String>>().join(", ");
        if fence.is_frozen() {
            seen.push_str("; frozen");
        }
        assert_eq!(seen.trim(), expected.trim(), "in line `{line}`");
    }
}
