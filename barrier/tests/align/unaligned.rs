//! Barriers that overtake, and the records they overtook.

use cutwater_barrier::align::Input::{Overtakable, Strict};

use crate::transcript::{check, check_inputs};

/// Cases F047, F048: records behind the barrier are not captured, so its channel is not recorded.
#[test]
fn the_first_barrier_makes_the_cut_and_the_other_channels_are_recorded() {
    check(
        3,
        "
        3 barrier ch0 u1  => forward u1, snapshot u1, resume; recording ch1 ch2
        5 overtook ch1 u1 => capture c1 ch1; recording ch2
        8 barrier ch2 u1  => ack c1 3..8
        9 barrier ch0 u2  => forward u2, snapshot u2, resume; recording ch1 ch2
    ",
    );
}

/// Case F047.
#[test]
fn a_barrier_that_overtook_has_its_own_channel_captured() {
    check(
        2,
        "
        3 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        4 overtook ch1 u1 => capture c1 ch1, ack c1 3..4
    ",
    );
}

/// Case F059: nothing waits for anything.
#[test]
fn a_single_channel_is_captured_in_no_time() {
    check(
        1,
        "
        3 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0, ack c1 3..3
        7 barrier ch0 u2  => forward u2, snapshot u2, ack c2 7..7, resume
    ",
    );
}

#[test]
fn a_source_does_the_same_in_every_mode() {
    check(
        0,
        "
        1 trigger u1 => forward u1, snapshot u1, ack c1 1..1
        2 trigger t2 => forward t2, snapshot t2, ack c2 2..2
    ",
    );
}

/// Case F033: everything upstream has finished, but what it sent is still queued.
#[test]
fn a_triggered_task_records_its_channels_to_their_ends() {
    check(
        2,
        "
        1 trigger u1   => forward u1, snapshot u1; recording ch0 ch1
        2 finished ch1 => ; recording ch0
        4 finished ch0 => ack c1 1..4
        5 trigger u2   => forward u2, snapshot u2, ack c2 5..5
    ",
    );
}

/// Cases F042, F043: no barrier comes from a channel that has ended.
#[test]
fn an_end_of_channel_stands_for_its_barrier() {
    check(
        3,
        "
        0 finished ch2    =>
        1 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        2 finished ch0    => ; recording ch1
        3 finished ch1    => ack c1 1..3
    ",
    );
}

/// Cases F074, B13: the edges of one task need not be alike.
#[test]
fn a_strict_channel_is_waited_for_and_never_captured() {
    check_inputs(
        &[Strict, Overtakable, Overtakable],
        "
        1 overtook ch1 u1 =>
        3 barrier ch0 u1  => forward u1, snapshot u1, capture c1 ch1, resume; recording ch2
        4 overtook ch2 u1 => capture c1 ch2, ack c1 3..4
    ",
    );
}

/// Case F074: a strict channel blocks, and a barrier that is reached before the cut blocks too.
#[test]
fn channels_whose_barrier_is_reached_wait_for_the_strict_ones() {
    check_inputs(
        &[Strict, Strict, Overtakable],
        "
        1 barrier ch0 u1  => ; blocked ch0
        2 overtook ch2 u1 => ; blocked ch0
        3 barrier ch2 u1  => ; blocked ch0 ch2
        4 finished ch1    => forward u1, snapshot u1, ack c1 1..4, resume
    ",
    );
}

#[test]
fn a_barrier_never_overtakes_on_a_strict_channel() {
    check_inputs(
        &[Strict, Overtakable],
        "
        1 overtook ch0 u1 => error: a barrier overtook on channel 0, which is strict
        2 overtook ch1 c1 => error: the aligned barrier of checkpoint 1 overtook on channel 1
        2 overtook ch2 u1 => error: the task has no channel 2
    ",
    );
}

/// Cases B03, F025, F057: what counts is the barrier, not what the job does otherwise.
#[test]
fn a_savepoint_is_aligned_between_unaligned_checkpoints() {
    check(
        2,
        "
        1 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        2 overtook ch1 u1 => capture c1 ch1, ack c1 1..2
        3 barrier ch0 s2  => ; blocked ch0
        4 overtook ch1 s2 => error: the aligned barrier of checkpoint 2 overtook on channel 1
        5 barrier ch1 s2  => forward s2, snapshot s2, ack c2 3..5, resume
        6 overtook ch1 u3 => forward u3, snapshot u3, capture c3 ch1; recording ch0
    ",
    );
}

/// Case F049: there is no cancel marker for a barrier that has been sent.
#[test]
fn an_abort_ends_the_recording() {
    check(
        2,
        "
        1 barrier ch0 u1  => forward u1, snapshot u1, resume; recording ch1
        2 abort c1        => abort c1 aborted
        3 overtook ch1 u1 =>
        4 barrier ch1 u1  =>
        5 overtook ch1 u2 => forward u2, snapshot u2, capture c2 ch1; recording ch0
        6 cancel ch0 c2   => abort c2 cancelled
        7 abort c2        =>
    ",
    );
}

/// Case F060.
#[test]
fn an_abort_before_the_barrier_overtakes_makes_it_a_no_op() {
    check(
        2,
        "
        1 abort c1        => cancel c1
        2 overtook ch0 u1 =>
        3 barrier ch0 u1  =>
        4 overtook ch1 u1 =>
    ",
    );
}

/// Case F049: before the cut, an abort forgets what has only been announced.
#[test]
fn an_abort_forgets_announcements() {
    check_inputs(
        &[Strict, Overtakable, Overtakable],
        "
        1 overtook ch1 u1 =>
        2 barrier ch2 u1  => ; blocked ch2
        3 cancel ch0 c1   => cancel c1, abort c1 cancelled, resume
        4 barrier ch1 u1  =>
        5 barrier ch0 u2  => forward u2, snapshot u2, resume; recording ch1 ch2
    ",
    );
}

/// Case F066.
#[test]
fn an_abort_of_another_checkpoint_leaves_the_recording_alone() {
    check(
        2,
        "
        1 barrier ch0 u5  => forward u5, snapshot u5, resume; recording ch1
        2 abort c4        => cancel c4; recording ch1
        3 abort c9        => cancel c9; recording ch1
        4 overtook ch1 u5 => capture c5 ch1, ack c5 1..4
    ",
    );
}

/// Case B04: two inputs, of two and three channels, have five.
#[test]
fn channels_are_counted_over_all_inputs_of_a_task() {
    check(
        5,
        "
        1 overtook ch3 u1 => forward u1, snapshot u1, capture c1 ch3; recording ch0 ch1 ch2 ch4
        2 overtook ch0 u1 => capture c1 ch0; recording ch1 ch2 ch4
        3 overtook ch4 u1 => capture c1 ch4; recording ch1 ch2
        4 overtook ch2 u1 => capture c1 ch2; recording ch1
        5 overtook ch1 u1 => capture c1 ch1, ack c1 1..5
        6 overtook ch5 u2 => error: the task has no channel 5
    ",
    );
}

/// Cases F038, F040, F066: the older one's barriers may be lost.
#[test]
fn a_newer_barrier_ends_the_recording() {
    check(
        2,
        "
        1 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        2 overtook ch0 u2 => abort c1 subsumed, forward u2, snapshot u2, capture c2 ch0; recording ch1
        3 overtook ch1 u1 => ; recording ch1
        4 barrier ch1 u1  => ; recording ch1
        5 overtook ch1 u2 => capture c2 ch1, ack c2 2..5
    ",
    );
}

/// Case F038, SPEC 2.5: the newer one does not count, but the older one will not come behind it.
#[test]
fn a_newer_barrier_ends_the_recording_even_if_it_was_aborted() {
    check(
        2,
        "
        1 barrier ch0 u1  => forward u1, snapshot u1, resume; recording ch1
        2 abort c2        => cancel c2; recording ch1
        3 overtook ch1 u2 => ; recording ch1
        4 barrier ch1 u2  => abort c1 subsumed
        5 barrier ch1 u1  =>
    ",
    );
}

/// The channel has delivered the older one: nothing is missing from it.
#[test]
fn an_aborted_newer_barrier_on_another_channel_leaves_the_recording_alone() {
    check(
        2,
        "
        1 barrier ch0 u1  => forward u1, snapshot u1, resume; recording ch1
        2 abort c2        => cancel c2; recording ch1
        3 barrier ch0 u2  => ; recording ch1
        4 overtook ch1 u1 => capture c1 ch1, ack c1 1..4
        5 overtook ch1 u2 =>
    ",
    );
}

/// The newer one comes by the side lane of a channel that the older one blocks.
#[test]
fn a_blocked_channel_may_be_overtaken_by_a_newer_barrier() {
    check_inputs(
        &[Strict, Overtakable],
        "
        1 barrier ch1 u1  => ; blocked ch1
        2 overtook ch1 u2 => cancel c1, abort c1 subsumed, resume
        3 barrier ch0 u2  => forward u2, snapshot u2, capture c2 ch1, ack c2 3..3, resume
    ",
    );
}

/// Case F058.
#[test]
fn an_older_barrier_changes_no_recording() {
    check(
        2,
        "
        1 barrier ch0 u5  => forward u5, snapshot u5, resume; recording ch1
        2 barrier ch1 u4  => cancel c4; recording ch1
        3 overtook ch1 u3 => cancel c3; recording ch1
        4 cancel ch1 c4   => ; recording ch1
        5 barrier ch1 u5  => ack c5 1..5
    ",
    );
}

#[test]
fn a_repeated_or_late_announcement_is_ignored() {
    check_inputs(
        &[Strict, Overtakable],
        "
        1 overtook ch1 u1 =>
        2 overtook ch1 u1 =>
        3 barrier ch1 u1  => ; blocked ch1
        4 overtook ch1 u1 => ; blocked ch1
        5 barrier ch0 u1  => forward u1, snapshot u1, ack c1 3..5, resume
        6 overtook ch1 u1 =>
        7 finished ch1    =>
        8 overtook ch1 u1 =>
    ",
    );
}

/// A mix that a job cannot have but a faulty sender may: the first barrier decides.
#[test]
fn an_aligned_barrier_is_not_changed_by_an_unaligned_one_of_the_same_checkpoint() {
    check(
        2,
        "
        1 barrier ch0 c1  => ; blocked ch0
        2 overtook ch1 u1 => ; blocked ch0
        3 barrier ch1 u1  => forward c1, snapshot c1, ack c1 1..3, resume
    ",
    );
}
