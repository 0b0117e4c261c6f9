//! The head of a loop: channel 1 is the back edge, whose barrier comes back only after the cut.

use cutwater_barrier::align::Input::{Feedback, Overtakable, Strict};

use crate::transcript::check_inputs;

/// SPEC 2.7, Algorithm 2: the records in the loop are those between the barrier's leaving and its return.
#[test]
fn an_aligned_cut_does_not_wait_for_the_loop_and_records_it() {
    check_inputs(
        &[Overtakable, Feedback],
        "
        1 barrier ch0 c1 => forward c1, snapshot c1, resume; recording ch1
        5 barrier ch1 c1 => ack c1 1..5
        6 barrier ch0 c2 => forward c2, snapshot c2, resume; recording ch1
        7 barrier ch1 c2 => ack c2 6..7
    ",
    );
}

#[test]
fn an_aligned_cut_still_waits_for_what_is_outside_the_loop() {
    check_inputs(
        &[Overtakable, Feedback, Strict],
        "
        1 barrier ch0 c1 => ; blocked ch0
        2 barrier ch2 c1 => forward c1, snapshot c1, resume; recording ch1
        5 barrier ch1 c1 => ack c1 1..5
    ",
    );
}

/// What the barrier overtook on its way back is in the loop as well.
#[test]
fn an_unaligned_barrier_may_overtake_on_the_way_back() {
    check_inputs(
        &[Overtakable, Feedback],
        "
        1 overtook ch0 u1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        5 overtook ch1 u1 => capture c1 ch1, ack c1 1..5
    ",
    );
}

#[test]
fn a_loop_is_recorded_after_a_switch_too() {
    check_inputs(
        &[Overtakable, Feedback, Overtakable],
        "
         1 barrier ch0 t1  => ; blocked ch0; wake 10
        10 woke            => forward u1, snapshot u1, resume; recording ch1 ch2
        11 overtook ch2 t1 => capture c1 ch2; recording ch1
        12 overtook ch1 u1 => capture c1 ch1, ack c1 1..12
    ",
    );
}

/// Case F033: the input of the loop has ended, records still go round.
#[test]
fn a_loop_whose_input_has_ended_is_triggered() {
    check_inputs(
        &[Overtakable, Feedback],
        "
        1 finished ch0   =>
        2 trigger c1     => forward c1, snapshot c1; recording ch1
        3 barrier ch1 c1 => ack c1 2..3
        4 trigger c2     => forward c2, snapshot c2; recording ch1
        5 finished ch1   => ack c2 4..5
    ",
    );
}

/// Cases F039, F049: somebody in the loop gave it up.
#[test]
fn a_cancel_marker_that_comes_back_ends_the_recording() {
    check_inputs(
        &[Overtakable, Feedback],
        "
        1 barrier ch0 c1 => forward c1, snapshot c1, resume; recording ch1
        2 cancel ch1 c1  => abort c1 cancelled
        3 barrier ch0 c2 => forward c2, snapshot c2, resume; recording ch1
        4 barrier ch1 c2 => ack c2 3..4
    ",
    );
}

/// The loop is slower than the checkpoints follow each other: the last one counts.
#[test]
fn a_newer_barrier_gives_up_what_is_still_in_the_loop() {
    check_inputs(
        &[Overtakable, Feedback],
        "
        1 barrier ch0 c1 => forward c1, snapshot c1, resume; recording ch1
        2 barrier ch0 c2 => abort c1 subsumed, forward c2, snapshot c2, resume; recording ch1
        3 barrier ch1 c1 => ; recording ch1
        4 barrier ch1 c2 => ack c2 2..4
    ",
    );
}

/// A loop with a second way in: its barrier may be back before this task has cut.
#[test]
fn a_barrier_that_comes_back_early_blocks_the_loop_until_the_cut() {
    check_inputs(
        &[Strict, Feedback],
        "
        1 barrier ch1 u1 => ; blocked ch1
        2 barrier ch0 u1 => forward u1, snapshot u1, ack c1 1..2, resume
    ",
    );
}
