//! What begins a checkpoint, and what has to wait.

use std::time::Duration;

use cutwater_barrier::coordinate::{Attempt, Config, Effect, Event, Request, RequestId, TaskId};
use cutwater_barrier::{CheckpointId, Coordinator, Generation, Mode, Time};

use super::{LINE, SQUARE, check, check_running, config, on_request, plan, with};

/// Cases F002, B09: refused for want of each single task, and nothing is left behind.
#[test]
fn nothing_is_triggered_before_every_task_runs() {
    check(
        SQUARE,
        config(),
        "
        0   checkpoint r1 => refuse r1 not running t0
        0   running t3    =>
        0   running t0    =>
        1   savepoint r2  => refuse r2 not running t1
        1   running t1    =>
        500 woke          => ; wake none
        500 stop-with r3  => refuse r3 not running t2
        600 running t2    => ; wake 700
        601 checkpoint r4 => trigger t0 c1, trigger t1 c1
    ",
    );
}

/// Case F012.
#[test]
fn a_periodic_checkpoint_waits_for_room_and_savepoints_do_not() {
    check_running(
        LINE,
        config(),
        "
        100 woke          => trigger t0 c1; wake 600
        200 woke          => ; wake 600
        210 savepoint r1  => trigger t0 s2
        220 checkpoint r2 =>
        230 ack c1 t0     =>
        231 ack c1 t1     => decide c1 t0 t1
        232 decided c1    => complete c1
        233 ack c2 t0     =>
        234 ack c2 t1     => decide s2 t0 t1
        235 decided c2    => complete s2, answer r1 c2, trigger t0 c3
        240 ack c3 t0     =>
        241 ack c3 t1     => decide c3 t0 t1
        242 decided c3    => complete c3, answer r2 c3, trigger t0 c4
    ",
    );
}

/// SPEC 2.3: what a task records for one checkpoint it gives up for a newer one.
#[test]
fn one_unaligned_checkpoint_is_in_progress_at_a_time() {
    check_running(
        LINE,
        with(|config| {
            config.mode = Mode::Unaligned;
            config.concurrent_max = 3;
        }),
        "
        100 woke          => trigger t0 c1 unaligned; wake 600
        200 woke          => ; wake 600
        210 checkpoint r1 =>
        230 ack c1 t0     =>
        231 ack c1 t1     => decide c1 t0 t1
        232 decided c1    => complete c1, trigger t0 c2 unaligned
        233 decline c2 t0 => aborted c2 declined t0 latest 1, refuse r1 declined t0, fail failures c2
    ",
    );
}

/// Cases B03, F025, F057: savepoints and what ends the job, whatever the job's mode.
#[test]
fn only_checkpoints_have_the_mode_of_the_job() {
    let timeout = Duration::from_secs(1);
    check_running(
        LINE,
        with(|config| config.mode = Mode::AlignedFor(timeout)),
        "
        10  savepoint r1 => trigger t0 s1
        11  ack c1 t0    =>
        12  ack c1 t1    => decide s1 t0 t1
        13  decided c1   => complete s1, answer r1 c1
        100 woke         => trigger t0 c2 timed
        101 pass c2 t1   => aborted c2 passed t1 latest 1
        110 stop-with r2 => trigger t0 s3 suspend
    ",
    );
    check_running(
        LINE,
        with(|config| config.mode = Mode::Unaligned),
        "
        10 drained t0    =>
        11 drained t1    => trigger t0 c1 drain
    ",
    );
}

/// SPEC 2.3: what is stuck behind strict edges is not tried again the same way.
#[test]
fn after_an_expiry_checkpoints_are_aligned_until_one_completes() {
    check_running(
        LINE,
        with(|config| {
            config.mode = Mode::Unaligned;
            config.align_after_expiry = true;
            config.tolerable_failures = 2;
        }),
        "
        100  woke          => trigger t0 c1 unaligned
        600  woke          => aborted c1 expired, trigger t0 c2
        1100 woke          => aborted c2 expired, trigger t0 c3
        1101 ack c3 t0     =>
        1102 ack c3 t1     => decide c3 t0 t1
        1103 decided c3    => complete c3
        1200 woke          => trigger t0 c4 unaligned
        1201 decline c4 t0 => aborted c4 declined t0 latest 3
        1300 woke          => trigger t0 c5 unaligned
    ",
    );
}

/// Where nothing is strict, to align would take longer still.
#[test]
fn without_strict_edges_the_mode_stays_after_an_expiry() {
    check_running(
        LINE,
        with(|config| {
            config.mode = Mode::Unaligned;
            config.tolerable_failures = 1;
        }),
        "
        100 woke => trigger t0 c1 unaligned
        600 woke => aborted c1 expired, trigger t0 c2 unaligned
    ",
    );
}

/// A savepoint that is in progress is behind the records that an unaligned barrier would overtake.
#[test]
fn an_unaligned_checkpoint_waits_for_the_savepoint_before_it() {
    check_running(
        LINE,
        with(|config| config.mode = Mode::Unaligned),
        "
        10  savepoint r1 => trigger t0 s1
        100 woke         =>
        150 ack c1 t0    =>
        151 ack c1 t1    => decide s1 t0 t1
        152 decided c1   => complete s1, answer r1 c1, trigger t0 c2 unaligned
    ",
    );
}

/// Case F013.
#[test]
fn the_pause_counts_from_the_end_of_the_previous_also_after_failures() {
    check_running(
        LINE,
        with(|config| {
            config.min_pause = Duration::from_millis(80);
            config.tolerable_failures = 1;
        }),
        "
        100 woke          => trigger t0 c1
        190 decline c1 t0 => aborted c1 declined t0; wake 270
        200 woke          =>
        270 woke          => trigger t0 c2
        280 ack c2 t0     =>
        281 ack c2 t1     => decide c2 t0 t1
        285 decided c2    => complete c2; wake 370
    ",
    );
}

/// Case F015.
#[test]
fn waiting_requests_go_by_importance() {
    check_running(
        LINE,
        with(|config| config.requests_max = 2),
        "
        0   cleaning 2    =>
        1   checkpoint r1 =>
        2   checkpoint r2 =>
        3   savepoint r3  => refuse r2 too many
        4   savepoint r4  => refuse r1 too many
        5   checkpoint r5 => refuse r5 too many
        100 cleaning 1    => trigger t0 s1, trigger t0 s2
    ",
    );
}

/// Case F016.
#[test]
fn nothing_is_triggered_while_too_much_is_being_deleted() {
    check_running(
        LINE,
        config(),
        "
        10  cleaning 2 => ; wake none
        200 woke       =>
        300 cleaning 1 => trigger t0 c1
    ",
    );
}

/// Case F020: an attempt starts where it is told to, a refused request uses no id.
#[test]
fn ids_strictly_increase() {
    let attempt = Attempt::new(Generation::new(7), CheckpointId::new(31));
    let mut coordinator = Coordinator::<()>::new(
        on_request(),
        plan(LINE),
        attempt.restored(CheckpointId::new(30)),
    );
    assert_eq!(coordinator.latest(), Some(CheckpointId::new(30)));
    let mut last = coordinator.latest();
    for round in 0..10 {
        let now = Time::from_millis(round);
        let task = TaskId((round % 2) as usize);
        coordinator.handle(now, Event::Running { task }).unwrap();
        let request = Request::savepoint(RequestId(round));
        coordinator.handle(now, Event::Requested(request)).unwrap();
        while let Some(effect) = coordinator.poll() {
            if let Effect::Trigger { barrier, .. } = effect {
                assert!(
                    last < Some(barrier.checkpoint),
                    "{last:?} before {barrier:?}"
                );
                last = Some(barrier.checkpoint);
            }
        }
    }
    assert_eq!(last, Some(CheckpointId::new(39)));
    assert_eq!(coordinator.next(), CheckpointId::new(40));
}

#[test]
fn a_request_waits_for_room_and_not_for_the_pause() {
    check_running(
        LINE,
        with(|config| config.min_pause = Duration::from_secs(9)),
        "
        10 checkpoint r1 => trigger t0 c1
        11 checkpoint r2 =>
        12 ack c1 t0     =>
        13 ack c1 t1     => decide c1 t0 t1
        14 decided c1    => complete c1, answer r1 c1, trigger t0 c2
    ",
    );
}

#[test]
fn an_interval_of_zero_means_as_often_as_there_is_room() {
    check_running(
        LINE,
        Config::every(Duration::ZERO),
        "
        1 woke       => ; wake 600000
        2 ack c1 t0  =>
        3 ack c1 t1  => decide c1 t0 t1
        4 decided c1 => complete c1, trigger t0 c2
    ",
    );
}
