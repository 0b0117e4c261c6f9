//! At-least-once: nothing waits.

use crate::transcript::check_tracker;

/// Case F045: the same order as in `an_early_channel_waits_for_the_last_barrier`, nothing blocked.
#[test]
fn the_tracker_never_blocks() {
    check_tracker(
        3,
        "
        3 barrier ch0 c1 =>
        4 barrier ch2 c1 =>
        9 barrier ch1 c1 => forward c1, snapshot c1, ack c1 3..9
    ",
    );
}

/// Case F045.
#[test]
fn a_late_last_barrier_still_completes_the_older_of_two() {
    check_tracker(
        2,
        "
        0 barrier ch0 c1 =>
        1 barrier ch0 c2 =>
        2 barrier ch1 c1 => forward c1, snapshot c1, ack c1 0..2
        3 barrier ch1 c2 => forward c2, snapshot c2, ack c2 1..3
        4 barrier ch1 c2 =>
    ",
    );
}

#[test]
fn the_tracker_gives_up_what_a_newer_checkpoint_has_passed() {
    check_tracker(
        2,
        "
        0 barrier ch0 c1 =>
        1 barrier ch0 c2 =>
        2 barrier ch1 c2 => cancel c1, abort c1 subsumed, forward c2, snapshot c2, ack c2 1..2
        3 barrier ch1 c1 =>
    ",
    );
}

/// Case F058.
#[test]
fn the_tracker_ignores_what_is_older_than_its_last_snapshot() {
    check_tracker(
        2,
        "
        0 barrier ch0 c2 =>
        1 barrier ch1 c2 => forward c2, snapshot c2, ack c2 0..1
        2 barrier ch0 c1 =>
        3 barrier ch1 c1 =>
    ",
    );
}

/// Case F046.
#[test]
fn the_tracker_aborts_each_checkpoint_once() {
    check_tracker(
        2,
        "
        0 barrier ch0 c1 =>
        1 barrier ch0 c2 =>
        2 cancel ch1 c2  => cancel c2, abort c2 cancelled
        3 cancel ch1 c1  => cancel c1, abort c1 cancelled
        4 cancel ch0 c2  =>
        5 cancel ch0 c1  =>
        6 barrier ch1 c2 =>
    ",
    );
}

/// Cases F042, F043, F044.
#[test]
fn an_end_of_channel_completes_all_that_waited_for_it() {
    check_tracker(
        2,
        "
        0 barrier ch0 c1 =>
        1 barrier ch0 c2 =>
        2 finished ch0   =>
        3 finished ch1   => forward c1, snapshot c1, ack c1 0..3, forward c2, snapshot c2, ack c2 1..3
        4 trigger c3     => forward c3, snapshot c3, ack c3 4..4
    ",
    );
}

#[test]
fn the_tracker_is_bounded() {
    let begun: String = (1..=50)
        .map(|raw| format!("0 barrier ch0 c{raw} =>\n"))
        .collect();
    check_tracker(
        2,
        &format!(
            "{begun} 1 barrier ch0 c51 => cancel c1, abort c1 crowded
            2 barrier ch1 c2 => forward c2, snapshot c2, ack c2 0..2"
        ),
    );
}

/// Case B08: what is in progress is not taken for one of the aborted, however many these are.
#[test]
fn twenty_later_aborts_leave_the_trackers_checkpoint_alone() {
    let aborts: String = (2..=21)
        .map(|raw| format!("1 abort c{raw} => cancel c{raw}\n"))
        .collect();
    let aborted = format!("0 barrier ch0 c1 =>\n {aborts}");
    check_tracker(
        2,
        &format!("{aborted} 2 barrier ch1 c1 => forward c1, snapshot c1, ack c1 0..2"),
    );
    check_tracker(
        2,
        &format!(
            "{aborted} 2 barrier ch0 c22 =>
            3 barrier ch1 c22 => cancel c1, abort c1 subsumed, forward c22, snapshot c22, ack c22 2..3"
        ),
    );
}

#[test]
fn the_tracker_refuses_the_same_barrier_twice() {
    check_tracker(
        2,
        "
        0 barrier ch0 c1 =>
        1 barrier ch0 c1 => error: second barrier of checkpoint 1 on channel 0
        2 barrier ch1 c1 => forward c1, snapshot c1, ack c1 0..2
    ",
    );
}

/// Case F045: a snapshot that holds more than its share has no exact rest to save, so nothing overtakes
/// behind it either.
#[test]
fn the_tracker_takes_and_passes_on_every_barrier_as_aligned() {
    check_tracker(
        2,
        "
        0 overtook ch0 u1 =>
        1 barrier ch0 u1  =>
        2 barrier ch1 u1  => forward c1, snapshot c1, ack c1 1..2
    ",
    );
}
