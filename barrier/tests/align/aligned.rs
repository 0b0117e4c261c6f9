//! Exactly-once without overtaking: channels wait for each other.

use crate::transcript::check;

/// Cases F036, F059: the alignment of a single channel costs nothing.
#[test]
fn a_single_channel_passes_its_barrier_at_once() {
    check(
        1,
        "
        5 barrier ch0 c1 => forward c1, snapshot c1, ack c1 5..5, resume
        9 barrier ch0 c2 => forward c2, snapshot c2, ack c2 9..9, resume
    ",
    );
}

/// Cases F037, F059.
#[test]
fn an_early_channel_waits_for_the_last_barrier() {
    check(
        3,
        "
        3 barrier ch0 c1 => ; blocked ch0
        4 barrier ch2 c1 => ; blocked ch0 ch2
        9 barrier ch1 c1 => forward c1, snapshot c1, ack c1 3..9, resume
    ",
    );
}

#[test]
fn a_source_forwards_and_snapshots_when_triggered() {
    check(
        0,
        "
        1 trigger c1 => forward c1, snapshot c1, ack c1 1..1
        2 trigger c1 =>
        3 abort c3   => cancel c3
        4 trigger c3 =>
        5 trigger c4 => forward c4, snapshot c4, ack c4 5..5
        6 trigger c2 =>
    ",
    );
}

/// Case F033: the coordinator knows of an end of input before the task has read up to it.
#[test]
fn a_triggered_task_first_reads_its_channels_to_their_ends() {
    check(
        2,
        "
        1 trigger c1   =>
        2 finished ch1 =>
        4 finished ch0 => forward c1, snapshot c1, ack c1 1..4
        5 trigger c2   => forward c2, snapshot c2, ack c2 5..5
    ",
    );
}

/// Case F042.
#[test]
fn a_finished_channel_counts_as_arrived() {
    check(
        2,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 finished ch1   => forward c1, snapshot c1, ack c1 0..1, resume
        2 barrier ch0 c2 => forward c2, snapshot c2, ack c2 2..2, resume
    ",
    );
}

/// Case F043: the channel ends right behind its barrier.
#[test]
fn a_barrier_and_an_end_on_one_channel_count_once() {
    check(
        3,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 barrier ch1 c1 => ; blocked ch0 ch1
        2 barrier ch2 c1 => forward c1, snapshot c1, ack c1 0..2, resume
        3 finished ch0   =>
        4 barrier ch1 c2 => ; blocked ch1
        5 barrier ch2 c2 => forward c2, snapshot c2, ack c2 4..5, resume
    ",
    );
}

/// Case F044.
#[test]
fn ends_of_all_channels_complete_what_is_pending_and_leave_nothing() {
    check(
        2,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 abort c1       => cancel c1, abort c1 aborted, resume
        2 finished ch0   =>
        3 finished ch1   =>
        4 trigger c2     => forward c2, snapshot c2, ack c2 4..4
    ",
    );
}

/// Cases F038, F040: no cancel marker for c1 ever comes.
#[test]
fn a_newer_barrier_subsumes_the_checkpoint_in_progress() {
    check(
        2,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 barrier ch1 c2 => cancel c1, abort c1 subsumed, resume; blocked ch1
        2 barrier ch0 c2 => forward c2, snapshot c2, ack c2 1..2, resume
    ",
    );
}

/// Case F058. Tasks downstream, which may have begun the older one, need not wait for it.
#[test]
fn an_obsolete_barrier_blocks_nothing() {
    check(
        3,
        "
        0 barrier ch0 c5 => ; blocked ch0
        1 barrier ch1 c4 => cancel c4; blocked ch0
        2 barrier ch1 c5 => ; blocked ch0 ch1
        3 barrier ch2 c3 => cancel c3; blocked ch0 ch1
        4 barrier ch2 c5 => forward c5, snapshot c5, ack c5 0..4, resume
        5 barrier ch1 c5 =>
    ",
    );
}

/// Its barrier is lost to it, so it does not begin when the newer one is given up: it would take what is behind
/// that barrier for something in flight. Seed 578896 of the simulation.
#[test]
fn an_obsolete_checkpoint_does_not_begin_later() {
    check(
        2,
        "
        0 barrier ch1 c2  => ; blocked ch1
        1 barrier ch0 c1  => cancel c1; blocked ch1
        2 cancel ch0 c2   => cancel c2, abort c2 cancelled, resume
        3 overtook ch1 u1 =>
        4 barrier ch1 u1  =>
    ",
    );
}

/// Cases F039, F041, B17.
#[test]
fn a_cancel_marker_releases_the_channels_once() {
    check(
        3,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 cancel ch1 c1  => cancel c1, abort c1 cancelled, resume
        2 cancel ch2 c1  =>
        3 barrier ch2 c1 =>
        4 abort c1       =>
        5 barrier ch0 c2 => ; blocked ch0
        6 cancel ch1 c1  => ; blocked ch0
    ",
    );
}

/// Cases F039, F060.
#[test]
fn an_abort_before_the_barrier_makes_the_barrier_a_no_op() {
    check(
        2,
        "
        0 abort c1       => cancel c1
        1 barrier ch0 c1 =>
        2 barrier ch1 c1 =>
        3 barrier ch0 c2 => ; blocked ch0
        4 barrier ch1 c2 => forward c2, snapshot c2, ack c2 3..4, resume
    ",
    );
}

/// Case B08.
#[test]
fn two_hundred_aborts_before_any_barrier_are_not_forgotten() {
    let aborts: String = (1..=200)
        .map(|raw| format!("0 abort c{raw} => cancel c{raw}\n"))
        .collect();
    check(
        1,
        &format!(
            "{aborts} 1 barrier ch0 c5 =>\n 2 barrier ch0 c201 => forward c201, snapshot c201, ack c201 2..2, resume"
        ),
    );
}

/// Case B08: what is in progress is not taken for one of the aborted, however many these are.
#[test]
fn twenty_later_aborts_leave_the_checkpoint_in_progress_alone() {
    let aborts: String = (2..=21)
        .map(|raw| format!("1 abort c{raw} => cancel c{raw}; blocked ch0\n"))
        .collect();
    let aborted = format!("0 barrier ch0 c1 => ; blocked ch0\n {aborts}");
    check(
        2,
        &format!("{aborted} 2 barrier ch1 c1 => forward c1, snapshot c1, ack c1 0..2, resume"),
    );
    check(
        2,
        &format!("{aborted} 2 cancel ch1 c1 => cancel c1, abort c1 cancelled, resume"),
    );
    check(
        2,
        &format!(
            "{aborted} 2 barrier ch1 c22 => cancel c1, abort c1 subsumed, resume; blocked ch1
            3 barrier ch0 c22 => forward c22, snapshot c22, ack c22 2..3, resume"
        ),
    );
}

/// Case F038, SPEC 2.5: the newer one does not count, but the older one will not come behind it.
#[test]
fn a_newer_barrier_ends_the_wait_for_an_older_one_even_if_it_was_aborted() {
    check(
        3,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 abort c2       => cancel c2; blocked ch0
        2 barrier ch1 c2 => cancel c1, abort c1 subsumed, resume
        3 barrier ch2 c1 =>
        4 barrier ch2 c2 =>
    ",
    );
}

#[test]
fn an_abort_of_a_later_checkpoint_leaves_an_earlier_one_alone() {
    check(
        2,
        "
        0 barrier ch0 c5 => ; blocked ch0
        1 abort c6       => cancel c6; blocked ch0
        2 barrier ch1 c5 => forward c5, snapshot c5, ack c5 0..2, resume
        3 barrier ch0 c6 =>
    ",
    );
}

/// What has been snapshotted is no longer the aligner's to abort.
#[test]
fn an_abort_after_the_snapshot_is_the_drivers_business() {
    check(
        1,
        "
        0 barrier ch0 c1 => forward c1, snapshot c1, ack c1 0..0, resume
        1 abort c1       =>
    ",
    );
}

#[test]
fn impossible_events_are_errors_and_change_nothing() {
    check(
        2,
        "
        0 barrier ch0 c1 => ; blocked ch0
        1 barrier ch0 c2 => error: channel 0 was read while blocked: ask reading() first
        1 cancel ch0 c1  => error: channel 0 was read while blocked: ask reading() first
        1 finished ch0   => error: channel 0 was read while blocked: ask reading() first
        2 barrier ch2 c1 => error: the task has no channel 2
        3 barrier ch1 c1 => forward c1, snapshot c1, ack c1 0..3, resume
        4 finished ch1   =>
        5 finished ch1   => error: channel 1 was read after its end
        6 barrier ch1 c2 => error: channel 1 was read after its end
    ",
    );
}
