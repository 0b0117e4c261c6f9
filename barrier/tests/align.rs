//! What aligner and tracker do, told as transcripts: `event => effects; blocked channels`.

use std::fmt::Write as _;

use cutwater_barrier::align::{AbortReason, AlignError, Channel, Effect, Event};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time, Tracker};

/// Cases F036, F059: the alignment of a single channel costs nothing.
#[test]
fn a_single_channel_passes_its_barrier_at_once() {
    check(
        1,
        "
        5 barrier ch0 c1 => forward c1, snapshot c1 5..5, resume
        9 barrier ch0 c2 => forward c2, snapshot c2 9..9, resume
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
        9 barrier ch1 c1 => forward c1, snapshot c1 3..9, resume
    ",
    );
}

#[test]
fn a_source_forwards_and_snapshots_when_triggered() {
    check(
        0,
        "
        1 trigger c1 => forward c1, snapshot c1 1..1
        2 trigger c1 =>
        3 abort c3   => cancel c3
        4 trigger c3 =>
        5 trigger c4 => forward c4, snapshot c4 5..5
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
        4 finished ch0 => forward c1, snapshot c1 1..4
        5 trigger c2   => forward c2, snapshot c2 5..5
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
        1 finished ch1   => forward c1, snapshot c1 0..1, resume
        2 barrier ch0 c2 => forward c2, snapshot c2 2..2, resume
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
        2 barrier ch2 c1 => forward c1, snapshot c1 0..2, resume
        3 finished ch0   =>
        4 barrier ch1 c2 => ; blocked ch1
        5 barrier ch2 c2 => forward c2, snapshot c2 4..5, resume
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
        4 trigger c2     => forward c2, snapshot c2 4..4
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
        2 barrier ch0 c2 => forward c2, snapshot c2 1..2, resume
    ",
    );
}

/// Case F058.
#[test]
fn an_obsolete_barrier_is_ignored() {
    check(
        3,
        "
        0 barrier ch0 c5 => ; blocked ch0
        1 barrier ch1 c4 => ; blocked ch0
        2 barrier ch1 c5 => ; blocked ch0 ch1
        3 barrier ch2 c3 => ; blocked ch0 ch1
        4 barrier ch2 c5 => forward c5, snapshot c5 0..4, resume
        5 barrier ch1 c5 =>
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
        4 barrier ch1 c2 => forward c2, snapshot c2 3..4, resume
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
            "{aborts} 1 barrier ch0 c5 =>\n 2 barrier ch0 c201 => forward c201, snapshot c201 2..2, resume"
        ),
    );
}

#[test]
fn an_abort_of_a_later_checkpoint_leaves_an_earlier_one_alone() {
    check(
        2,
        "
        0 barrier ch0 c5 => ; blocked ch0
        1 abort c6       => cancel c6; blocked ch0
        2 barrier ch1 c5 => forward c5, snapshot c5 0..2, resume
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
        0 barrier ch0 c1 => forward c1, snapshot c1 0..0, resume
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
        1 barrier ch0 c2 => error: channel 0 was read while blocked: ask is_blocked first; blocked ch0
        1 cancel ch0 c1  => error: channel 0 was read while blocked: ask is_blocked first; blocked ch0
        1 finished ch0   => error: channel 0 was read while blocked: ask is_blocked first; blocked ch0
        2 barrier ch2 c1 => error: the task has no channel 2; blocked ch0
        3 barrier ch1 c1 => forward c1, snapshot c1 0..3, resume
        4 finished ch1   =>
        5 finished ch1   => error: channel 1 was read after its end
        6 barrier ch1 c2 => error: channel 1 was read after its end
    ",
    );
}

/// Case F045: the same order as in `an_early_channel_waits_for_the_last_barrier`, nothing blocked.
#[test]
fn the_tracker_never_blocks() {
    check_tracker(
        3,
        "
        3 barrier ch0 c1 =>
        4 barrier ch2 c1 =>
        9 barrier ch1 c1 => forward c1, snapshot c1 3..9
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
        2 barrier ch1 c1 => forward c1, snapshot c1 0..2
        3 barrier ch1 c2 => forward c2, snapshot c2 1..3
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
        2 barrier ch1 c2 => cancel c1, abort c1 subsumed, forward c2, snapshot c2 1..2
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
        1 barrier ch1 c2 => forward c2, snapshot c2 0..1
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
        3 finished ch1   => forward c1, snapshot c1 0..3, forward c2, snapshot c2 1..3
        4 trigger c3     => forward c3, snapshot c3 4..4
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
            2 barrier ch1 c2 => forward c2, snapshot c2 0..2"
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
        2 barrier ch1 c1 => forward c1, snapshot c1 0..2
    ",
    );
}

#[test]
fn a_finished_task_knows_the_last_checkpoint_it_saw() {
    let mut aligner = Aligner::new(1);
    assert_eq!(aligner.last(), None);
    let barrier = Barrier::checkpoint(CheckpointId::new(3), Time::ZERO);
    let channel = Channel(0);
    aligner
        .handle(Time::ZERO, Event::Barrier { channel, barrier })
        .unwrap();
    assert_eq!(aligner.last(), Some(CheckpointId::new(3)));
}

/// The only place that calls the aligner, so its API can change without touching a test.
#[track_caller]
fn check(channels: usize, transcript: &str) {
    let mut aligner = Aligner::new(channels);
    play(channels, transcript, |step| match step {
        Step::Handle(now, event) => Answer::Handled(aligner.handle(now, event)),
        Step::Poll => Answer::Polled(aligner.poll()),
        Step::IsBlocked(channel) => Answer::Blocked(aligner.is_blocked(channel)),
    });
}

/// The only place that calls the tracker.
#[track_caller]
fn check_tracker(channels: usize, transcript: &str) {
    let mut tracker = Tracker::new(channels);
    play(channels, transcript, |step| match step {
        Step::Handle(now, event) => Answer::Handled(tracker.handle(now, event)),
        Step::Poll => Answer::Polled(tracker.poll()),
        Step::IsBlocked(channel) => Answer::Blocked(tracker.is_blocked(channel)),
    });
}

enum Step {
    Handle(Time, Event),
    Poll,
    IsBlocked(Channel),
}

enum Answer {
    Handled(Result<(), AlignError>),
    Polled(Option<Effect>),
    Blocked(bool),
}

#[track_caller]
fn play(channels: usize, transcript: &str, mut machine: impl FnMut(Step) -> Answer) {
    let lines = transcript.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let (input, expected) = line.split_once("=>").expect("`event => effects`");
        let (now, event) = parse(input);
        let mut got = match machine(Step::Handle(now, event)) {
            Answer::Handled(Ok(())) => std::iter::from_fn(|| match machine(Step::Poll) {
                Answer::Polled(effect) => effect,
                _ => unreachable!("a poll is answered by an effect"),
            })
            .map(show)
            .collect::<Vec<_>>()
            .join(", "),
            Answer::Handled(Err(error)) => format!("error: {error}"),
            _ => unreachable!("an event is answered by a result"),
        };
        let mut separator = "; blocked";
        for i in 0..channels {
            if matches!(machine(Step::IsBlocked(Channel(i))), Answer::Blocked(true)) {
                write!(got, "{separator} ch{i}").unwrap();
                separator = "";
            }
        }
        assert_eq!(got.trim(), expected.trim(), "after `{}`", input.trim());
    }
}

fn parse(input: &str) -> (Time, Event) {
    let words: Vec<&str> = input.split_whitespace().collect();
    let number = |word: &str, prefix: &str| word.strip_prefix(prefix).unwrap().parse().unwrap();
    let channel = |word: &str| Channel(usize::try_from(number(word, "ch")).unwrap());
    let checkpoint = |word: &str| CheckpointId::new(number(word, "c"));
    let barrier = |word: &str| Barrier::checkpoint(checkpoint(word), Time::ZERO);
    let event = match words[1..] {
        ["trigger", c] => Event::Triggered {
            barrier: barrier(c),
        },
        ["barrier", ch, c] => Event::Barrier {
            channel: channel(ch),
            barrier: barrier(c),
        },
        ["cancel", ch, c] => Event::Cancelled {
            channel: channel(ch),
            checkpoint: checkpoint(c),
        },
        ["abort", c] => Event::Aborted {
            checkpoint: checkpoint(c),
        },
        ["finished", ch] => Event::Finished {
            channel: channel(ch),
        },
        _ => panic!("not an event: {input}"),
    };
    (Time::from_millis(words[0].parse().unwrap()), event)
}

fn show(effect: Effect) -> String {
    match effect {
        Effect::Forward(barrier) => format!("forward c{}", barrier.checkpoint),
        Effect::ForwardCancel(checkpoint) => format!("cancel c{checkpoint}"),
        Effect::Snapshot { barrier, alignment } => {
            // Triggered at 0: the start delay is the first time, the duration the difference.
            let first = alignment.start_delay().as_millis();
            let last = first + alignment.duration().as_millis();
            format!("snapshot c{} {first}..{last}", barrier.checkpoint)
        }
        Effect::Resume => "resume".to_owned(),
        Effect::Abort { checkpoint, reason } => {
            let reason = match reason {
                AbortReason::Aborted => "aborted",
                AbortReason::Cancelled => "cancelled",
                AbortReason::Subsumed => "subsumed",
                AbortReason::Crowded => "crowded",
                _ => "other",
            };
            format!("abort c{checkpoint} {reason}")
        }
    }
}
