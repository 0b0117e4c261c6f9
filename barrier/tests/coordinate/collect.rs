//! What completes a checkpoint.

use std::time::Duration;

use cutwater_barrier::coordinate::{Attempt, Effect, Event, TaskId};
use cutwater_barrier::stats::TaskStats;
use cutwater_barrier::{CheckpointId, Coordinator, Generation, Time};

use super::{LINE, check, check_running, config, plan, with};

/// Cases F001, F017.
#[test]
fn a_checkpoint_is_complete_when_all_tasks_acked_and_the_decision_is_durable() {
    check(
        LINE,
        config(),
        "
        0   running t0 =>
        7   running t1 => ; wake 107
        107 woke       => trigger t0 c1; wake 607
        110 ack c1 t1  =>
        111 ack c1 t0  => decide c1 t0 t1; wake none
        115 decided c1 => complete c1; wake 207
        207 woke       => trigger t0 c2
    ",
    );
}

/// Cases F005, F006, B18.
#[test]
fn doubles_are_left_alone_and_strangers_discarded() {
    check_running(
        LINE,
        config(),
        "
        100 woke       => trigger t0 c1
        101 ack c1 t0  =>
        102 ack c1 t0  => leave c1 t0
        103 ack c1 t9  => discard c1 t9
        104 ack c5 t0  => discard c5 t0
        105 ack c1 t1  => decide c1 t0 t1
        106 ack c1 t1  => leave c1 t1
        107 decline c1 t1 =>
        108 decided c1 => complete c1
        109 ack c1 t1  => leave c1 t1
        110 decided c1 => error: no decision about checkpoint 1 is under way
    ",
    );
}

/// Case B15: the acknowledgements of an earlier attempt do not count, and what they name may be part of
/// a checkpoint that the earlier attempt completed.
#[test]
fn acks_of_another_generation_are_left_alone() {
    check_running(
        LINE,
        config(),
        "
        100 woke            => trigger t0 c1
        101 ack c1 t0 g6    => leave c1 t0
        102 ack c1 t1 g8    => leave c1 t1
        103 decline c1 t1 g6 =>
        104 ack c1 t0       =>
        105 ack c1 t1       => decide c1 t0 t1
    ",
    );
}

/// Case F007: the newer one is ready first while the older is being decided.
#[test]
fn two_concurrent_checkpoints_are_decided_one_after_the_other() {
    check_running(
        LINE,
        with(|config| config.concurrent_max = 2),
        "
        100 woke       => trigger t0 c1
        200 woke       => trigger t0 c2; wake 600
        201 ack c1 t0  =>
        202 ack c2 t0  =>
        203 ack c1 t1  => decide c1 t0 t1
        204 ack c2 t1  => ; wake none
        205 decided c1 => complete c1, decide c2 t0 t1
        206 decided c2 => complete c2; wake 300
    ",
    );
}

#[test]
fn a_decision_says_which_part_and_whose_was_slow() {
    let attempt = Attempt::new(Generation::new(7), CheckpointId::new(1));
    let mut coordinator = Coordinator::new(config(), plan(LINE), attempt);
    for task in [0, 1].map(TaskId) {
        coordinator
            .handle(Time::ZERO, Event::Running { task })
            .unwrap();
    }
    coordinator
        .handle(Time::from_millis(100), Event::Woke)
        .unwrap();
    for (task, at, sync, bytes) in [(1, 130, 2, 1_000), (0, 190, 70, 24)] {
        let mut stats = TaskStats::default();
        stats.sync = Duration::from_millis(sync);
        stats.bytes_written = bytes;
        let event = Event::Acked {
            generation: Generation::new(7),
            checkpoint: CheckpointId::new(1),
            task: TaskId(task),
            part: (),
            stats,
        };
        coordinator.handle(Time::from_millis(at), event).unwrap();
    }
    let decision = std::iter::from_fn(|| coordinator.poll())
        .find_map(|effect| match effect {
            Effect::Decide(decision) => Some(decision),
            _ => None,
        })
        .unwrap();
    let stats = decision.stats;
    assert_eq!(stats.duration(), Duration::from_millis(90));
    assert_eq!(stats.slowest().unwrap().task, TaskId(0));
    assert_eq!(stats.sum(|task| task.bytes_written), 1_024);
    let sync = stats.spread(|task| task.sync).unwrap();
    assert_eq!(
        (sync.max, sync.max_by),
        (Duration::from_millis(70), TaskId(0))
    );
    assert_eq!(
        (sync.min, sync.min_by),
        (Duration::from_millis(2), TaskId(1))
    );
}
