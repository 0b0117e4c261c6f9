//! Checkpoints that start aligned and switch. `t1` times out 10 ms after its trigger at 0.

use cutwater_barrier::align::Input::{Overtakable, Strict};

use crate::transcript::{check, check_inputs};

/// Case F053: the timeout counts until the last barrier, not longer.
#[test]
fn barriers_in_time_make_an_aligned_cut() {
    check(
        2,
        "
         3 barrier ch0 t1 => ; blocked ch0; wake 10
         9 barrier ch1 t1 => forward t1, snapshot t1, ack c1 3..9, resume
        10 woke           =>
    ",
    );
}

/// Cases F050, F055: by timer; the blocked channel goes on.
#[test]
fn the_timeout_unblocks_channels_and_records_the_others() {
    check(
        3,
        "
         3 barrier ch0 t1 => ; blocked ch0; wake 10
         9 woke           => ; blocked ch0; wake 10
        10 woke           => forward u1, snapshot u1, resume; recording ch1 ch2
        11 barrier ch1 t1 => ; recording ch2
        12 overtook ch2 t1 => capture c1 ch2, ack c1 3..12
    ",
    );
}

/// Case F050: the announcement alone starts the timer, and waits for its place in the channel until then.
#[test]
fn an_announced_barrier_overtakes_when_the_time_is_up() {
    check(
        2,
        "
         1 overtook ch0 t1 => ; wake 10
         2 overtook ch1 t1 => ; wake 10
         5 barrier ch0 t1  => ; blocked ch0; wake 10
        10 woke            => forward u1, snapshot u1, capture c1 ch1, ack c1 5..10, resume
    ",
    );
}

/// Case F059: what has only been announced is on its way, and that counts as start delay.
#[test]
fn an_announcement_is_no_alignment() {
    check(
        1,
        "
         1 overtook ch0 t1 => ; wake 10
         5 barrier ch0 t1  => forward t1, snapshot t1, ack c1 5..5, resume
         6 overtook ch0 t2 => ; wake 10
        10 woke            => forward u2, snapshot u2, capture c2 ch0, ack c2 10..10
    ",
    );
}

/// Cases F050, F051: the time since the trigger counts, wherever it was spent.
#[test]
fn a_late_barrier_overtakes_at_once() {
    check(
        2,
        "
        12 overtook ch0 t1 => forward u1, snapshot u1, capture c1 ch0; recording ch1
        13 barrier ch1 t1  => ack c1 12..13
        14 barrier ch0 t2  => forward u2, snapshot u2, resume; recording ch1
    ",
    );
}

/// Case F052.
#[test]
fn an_upstream_that_switched_makes_this_task_switch() {
    check(
        3,
        "
        1 barrier ch0 t1  => ; blocked ch0; wake 10
        2 overtook ch1 t1 => ; blocked ch0; wake 10
        3 overtook ch2 u1 => forward u1, snapshot u1, capture c1 ch1, capture c1 ch2, ack c1 1..3, resume
    ",
    );
}

/// Case F052: an unaligned barrier read in order, as from a strict channel, says the same.
#[test]
fn an_unaligned_barrier_in_order_makes_this_task_switch() {
    check_inputs(
        &[Strict, Overtakable],
        "
        1 overtook ch1 t1 => ; wake 10
        2 barrier ch0 u1  => forward u1, snapshot u1, capture c1 ch1, ack c1 2..2, resume
    ",
    );
}

/// Case F053.
#[test]
fn a_timer_that_fires_after_an_abort_does_nothing() {
    check(
        2,
        "
         1 barrier ch0 t1 => ; blocked ch0; wake 10
         2 abort c1       => cancel c1, abort c1 aborted, resume
        10 woke           =>
        11 finished ch0   =>
        12 finished ch1   =>
        13 woke           =>
    ",
    );
}

/// Case F054: whatever became of the one before.
#[test]
fn the_next_checkpoint_starts_aligned_again() {
    check(
        2,
        "
        1 barrier ch0 t1  => ; blocked ch0; wake 10
        2 overtook ch1 u1 => forward u1, snapshot u1, capture c1 ch1, ack c1 1..2, resume
        3 barrier ch0 t2  => ; blocked ch0; wake 10
        4 barrier ch1 t2  => forward t2, snapshot t2, ack c2 3..4, resume
    ",
    );
}

/// Case F056: the driver was late to wake the machine.
#[test]
fn an_end_of_channel_after_the_timeout_makes_the_cut() {
    check(
        3,
        "
         1 barrier ch0 t1 => ; blocked ch0; wake 10
        11 finished ch1   => forward u1, snapshot u1, resume; recording ch2
        12 finished ch2   => ack c1 1..12
    ",
    );
}

/// Case F074: time changes nothing about a strict channel, and nobody is woken in vain.
#[test]
fn the_timeout_does_not_move_a_strict_channel() {
    check_inputs(
        &[Strict, Overtakable, Overtakable],
        "
         1 overtook ch1 t1 => ; wake 10
        10 woke            =>
        11 barrier ch1 t1  => ; blocked ch1
        12 barrier ch0 t1  => forward u1, snapshot u1, resume; recording ch2
        13 barrier ch2 t1  => ack c1 11..13
    ",
    );
}

#[test]
fn a_triggered_task_waits_for_its_channels_until_the_timeout() {
    check(
        2,
        "
         1 trigger t1   => ; wake 10
         2 finished ch0 => ; wake 10
        10 woke         => forward u1, snapshot u1; recording ch1
        11 finished ch1 => ack c1 1..11
    ",
    );
}
