//! What ends a checkpoint otherwise, and who hears of it.

use super::{LINE, check_running, config, with};

/// Cases F003, F004, F028.
#[test]
fn a_decline_aborts_once_discards_what_came_in_and_names_the_latest() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 9),
        "
        100 woke             => trigger t0 c1
        110 ack c1 t0        =>
        120 decline c1 t1    => aborted c1 declined t1, discard c1 t0
        121 decline c1 t0    =>
        122 decline c7 t0    =>
        123 ack c1 t1        => discard c1 t1
        200 woke             => trigger t0 c2
        201 ack c2 t0        =>
        202 ack c2 t1        => decide c2 t0 t1
        203 decided c2       => complete c2
        300 woke             => trigger t0 c3
        301 decline c3 t0    => aborted c3 declined t0 latest 2
    ",
    );
}

/// Case F008.
#[test]
fn a_completed_checkpoint_subsumes_older_ones() {
    check_running(
        LINE,
        with(|config| config.concurrent_max = 2),
        "
        100 woke       => trigger t0 c1
        200 woke       => trigger t0 c2
        201 ack c1 t0  =>
        202 ack c2 t0  =>
        203 ack c2 t1  => decide c2 t0 t1
        204 decided c2 => complete c2, subsumed c1 by c2, discard c1 t0
        205 ack c1 t1  => discard c1 t1
    ",
    );
}

/// The older one becomes ready while the newer is being decided: it is not decided after it.
#[test]
fn an_older_checkpoint_that_is_ready_too_late_is_subsumed() {
    check_running(
        LINE,
        with(|config| config.concurrent_max = 2),
        "
        100 woke       => trigger t0 c1
        200 woke       => trigger t0 c2
        202 ack c2 t0  =>
        203 ack c2 t1  => decide c2 t0 t1
        204 ack c1 t0  =>
        205 ack c1 t1  =>
        206 decided c2 => complete c2, subsumed c1 by c2, discard c1 t0, discard c1 t1
    ",
    );
}

/// Cases F009, F025.
#[test]
fn a_savepoint_is_aligned_never_subsumed_and_subsumes_nothing() {
    check_running(
        LINE,
        with(|config| config.concurrent_max = 3),
        "
        100 woke         => trigger t0 c1
        110 savepoint r1 => trigger t0 s2
        200 woke         => trigger t0 c3
        201 ack c2 t0    =>
        202 ack c3 t0    =>
        203 ack c3 t1    => decide c3 t0 t1
        204 decided c3   => complete c3, subsumed c1 by c3
        205 ack c2 t1    => decide s2 t0 t1
        206 decided c2   => complete s2, answer r1 c2
        300 woke         => trigger t0 c4
        301 pass c4 t0   => aborted c4 passed t0 latest 3
    ",
    );
}

/// Case F011.
#[test]
fn a_timeout_aborts_exactly_the_expired() {
    check_running(
        LINE,
        with(|config| {
            config.concurrent_max = 2;
            config.tolerable_failures = 1;
        }),
        "
        100 woke       => trigger t0 c1
        200 woke       => trigger t0 c2; wake 600
        300 ack c1 t0  =>
        599 woke       =>
        600 woke       => aborted c1 expired, discard c1 t0, trigger t0 c3; wake 700
        601 ack c1 t1  => discard c1 t1
        602 ack c2 t0  =>
        603 ack c2 t1  => decide c2 t0 t1
    ",
    );
}

#[test]
fn an_ack_at_the_deadline_is_late() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 1),
        "
        100 woke       => trigger t0 c1
        200 ack c1 t0  =>
        600 ack c1 t1  => aborted c1 expired, discard c1 t0, discard c1 t1, trigger t0 c2
    ",
    );
}

/// Cases F014, F026.
#[test]
fn after_a_stop_nothing_is_triggered_and_everybody_has_an_answer() {
    check_running(
        LINE,
        config(),
        "
        10  savepoint r1  => trigger t0 s1
        11  ack c1 t0     =>
        12  checkpoint r2 =>
        20  stop          => aborted c1 halted, discard c1 t0, refuse r1 halted, refuse r2 halted; wake none
        21  checkpoint r3 => refuse r3 halted
        22  ack c1 t1     => discard c1 t1
        500 woke          =>
    ",
    );
}

#[test]
fn a_decision_under_way_at_the_stop_still_counts() {
    check_running(
        LINE,
        config(),
        "
        10 checkpoint r1  => trigger t0 c1
        11 ack c1 t0      =>
        12 ack c1 t1      => decide c1 t0 t1
        13 stop           =>
        14 decided c1     => complete c1, answer r1 c1
    ",
    );
}

/// Case F018: timeouts and real declines count, others do not, and success starts afresh.
#[test]
fn only_real_failures_in_a_row_fail_the_job() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 1),
        "
        100 woke          => trigger t0 c1
        101 decline c1 t0 => aborted c1 declined t0
        200 woke          => trigger t0 c2
        201 pass c2 t0    => aborted c2 passed t0
        210 savepoint r1  => trigger t0 s3
        220 decline c3 t0 => aborted c3 declined t0, refuse r1 declined t0
        300 woke          => trigger t0 c4
        301 ack c4 t0     =>
        302 ack c4 t1     => decide c4 t0 t1
        303 decided c4    => complete c4
        400 woke          => trigger t0 c5
        401 decline c5 t0 => aborted c5 declined t0 latest 4
        500 woke          => trigger t0 c6
        600 woke          =>
        1000 woke         => aborted c6 expired latest 4, fail failures c6
        1001 woke         => ; wake none
    ",
    );
}

/// Cases F019, F021.
#[test]
fn a_decision_that_failed_is_discarded_and_the_next_one_works() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 1),
        "
        100 woke             => trigger t0 c1
        101 ack c1 t0        =>
        102 ack c1 t1        => decide c1 t0 t1
        103 not-decided c1   => discard c1 t0, discard c1 t1, aborted c1 not durable
        200 woke             => trigger t0 c2
        201 ack c2 t0        =>
        202 ack c2 t1        => decide c2 t0 t1
        203 decided c2       => complete c2
    ",
    );
}

/// Case F021: what may be durable, and what came after it, is not deleted.
#[test]
fn a_decision_that_may_be_durable_deletes_nothing_and_fails_the_job() {
    check_running(
        LINE,
        with(|config| config.concurrent_max = 2),
        "
        100 woke             => trigger t0 c1
        101 ack c1 t0        =>
        102 ack c1 t1        => decide c1 t0 t1
        200 woke             => trigger t0 c2
        201 ack c2 t0        =>
        203 unknown c1       => leave c1 t0, leave c1 t1, aborted c1 undecided, aborted c2 halted, leave c2 t0, fail undecided c1
        204 ack c2 t1        => leave c2 t1
    ",
    );
}

/// A zombie never deletes.
#[test]
fn a_fenced_coordinator_deletes_nothing_and_says_so() {
    check_running(
        LINE,
        config(),
        "
        100 woke       => trigger t0 c1
        101 ack c1 t0  =>
        102 ack c1 t1  => decide c1 t0 t1
        103 fenced c1  => leave c1 t0, leave c1 t1, aborted c1 fenced, fail fenced
        104 ack c1 t1  => leave c1 t1
    ",
    );
}

#[test]
fn a_lost_task_fails_the_job_once() {
    check_running(
        LINE,
        config(),
        "
        100 woke       => trigger t0 c1
        101 ack c1 t0  =>
        102 lost t1    => aborted c1 halted, discard c1 t0, fail lost t1
        103 lost t0    =>
        104 lost t7    => error: the plan has no task 7
    ",
    );
}
