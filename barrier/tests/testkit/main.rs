//! Drivers that are flawed on purpose, and what the watch says of each. Without its flaw the same driver
//! plays the same script and breaks nothing.
//!
//! A script feeds channels (`r` a record, `c1`, `t1`, `u1` barriers: aligned, aligned for 10 ms, unaligned;
//! `x1` a cancel marker, `end`), has the driver read so many items or a note of the side lane, and ends
//! with `rest`. The first channel is [`Strict`](Input::Strict) if the script says `strict`.

mod driver;

use cutwater_barrier::align::Input::{self, Overtakable, Strict};

use cutwater_barrier::align::{Channel, Event};
use cutwater_barrier::testkit::{Did, Fed, Watch};
use cutwater_barrier::{Barrier, CheckpointId, Mode, Time};

use driver::{Driver, Flaw};

/// Checks what a driver with a flaw is told, and that it is the flaw that matters.
#[track_caller]
fn caught(flaw: Flaw, script: &str, message: &str) {
    assert_eq!(play(Flaw::None, script), Ok(()), "without a flaw");
    assert_eq!(play(flaw, script), Err(message.to_owned()));
}

fn play(flaw: Flaw, script: &str) -> Result<(), String> {
    let first: Input = if script.contains("strict") {
        Strict
    } else {
        Overtakable
    };
    let mut driver = Driver::new(flaw, &[first, Overtakable], &[Overtakable, Strict]);
    for line in script.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words[..] {
            [] | ["strict"] => Ok(()),
            ["feed", channel, ref items @ ..] => driver.feed(number(channel), items),
            ["read", channel, count] => driver.read(number(channel), number(count)),
            ["note", channel] => driver.note(number(channel)),
            ["abort", checkpoint] => driver.abort(checkpoint),
            ["late"] => driver.wake_late(),
            ["rest"] => driver.rest(),
            _ => panic!("not a step: {line}"),
        };
        outcome.map_err(|broken| broken.to_string())?;
    }
    Ok(())
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

const ALIGNED: &str = "
    feed 0 r r c3 r
    feed 1 r c3 r
    read 0 3
    read 0 1
    read 1 3
    read 0 1
    rest
";

/// Both channels have records before the barrier when it comes by the side lane of channel 0.
const OVERTAKEN: &str = "
    feed 0 r r r u3 r
    feed 1 r r r u3 r
    read 0 1
    read 1 1
    note 0
    read 1 1
    note 1
    read 0 3
    read 1 2
    rest
";

#[test]
fn a_blocked_channel_is_read() {
    caught(
        Flaw::ReadsBlocked,
        ALIGNED,
        "record 2 of channel 0 was read while the channel was blocked for checkpoint 3",
    );
}

/// Case B01.
#[test]
fn a_snapshot_comes_a_record_late() {
    caught(
        Flaw::SnapshotsLate,
        ALIGNED,
        "record 1 of channel 1 was processed between Forward and Snapshot of checkpoint 3",
    );
}

#[test]
fn a_timer_fires_between_forward_and_snapshot() {
    caught(
        Flaw::EmitsBeforeSnapshot,
        ALIGNED,
        "a record was emitted into output 0 before Snapshot of checkpoint 3",
    );
}

#[test]
fn a_snapshot_is_skipped() {
    caught(
        Flaw::SkipsSnapshot,
        ALIGNED,
        "checkpoint 3 was acknowledged before Snapshot of checkpoint 3",
    );
}

#[test]
fn a_snapshot_comes_before_the_barrier() {
    caught(
        Flaw::SnapshotsFirst,
        ALIGNED,
        "Snapshot of checkpoint 3 came before Forward of checkpoint 3",
    );
}

#[test]
fn a_checkpoint_is_never_acknowledged() {
    caught(
        Flaw::NeverAcknowledges,
        ALIGNED,
        "Acknowledge of checkpoint 3 was skipped",
    );
}

#[test]
fn a_checkpoint_is_acknowledged_twice() {
    caught(
        Flaw::AcknowledgesTwice,
        ALIGNED,
        "checkpoint 3 was acknowledged before its last barrier, or a second time",
    );
}

#[test]
fn a_checkpoint_is_acknowledged_at_the_cut() {
    caught(
        Flaw::AcknowledgesAtSnapshot,
        OVERTAKEN,
        "checkpoint 3 was acknowledged before Capture of channel 0 for checkpoint 3",
    );
}

#[test]
fn a_checkpoint_is_acknowledged_while_records_are_in_flight() {
    caught(
        Flaw::AcknowledgesAtSnapshot,
        "
        feed 0 u3 r
        feed 1 r u3 r
        read 0 2
        read 1 3
        rest
    ",
        "checkpoint 3 was acknowledged before its last barrier, or a second time",
    );
}

#[test]
fn a_record_in_flight_is_read_and_not_saved() {
    caught(
        Flaw::SavesNoReads,
        OVERTAKEN,
        "record 1 of channel 1 was in flight at checkpoint 3, which was acknowledged without it",
    );
}

#[test]
fn a_capture_misses_its_first_record() {
    caught(
        Flaw::CapturesTooLittle,
        OVERTAKEN,
        "record 1 of channel 0 was in flight at checkpoint 3, which was acknowledged without it",
    );
}

#[test]
fn a_capture_goes_on_behind_the_barrier() {
    caught(
        Flaw::CapturesTooMuch,
        OVERTAKEN,
        "record 3 of channel 0 was saved with checkpoint 3, behind whose barrier it is",
    );
}

#[test]
fn a_capture_has_a_record_twice() {
    caught(
        Flaw::CapturesTwice,
        OVERTAKEN,
        "record 1 of channel 0 was saved with checkpoint 3 twice, or out of order",
    );
}

#[test]
fn a_capture_has_what_the_snapshot_has() {
    caught(
        Flaw::CapturesProcessed,
        OVERTAKEN,
        "record 0 of channel 0 was saved with checkpoint 3, whose snapshot has it already",
    );
}

#[test]
fn what_was_captured_is_not_processed() {
    caught(
        Flaw::LosesCaptured,
        OVERTAKEN,
        "record 3 of channel 0 was read when it was the turn of record 1",
    );
}

#[test]
fn a_captured_barrier_stays_in_the_channel() {
    caught(
        Flaw::LeavesBarrier,
        OVERTAKEN,
        "the marker of checkpoint 3 was reported on channel 0, where it is not the next item",
    );
}

#[test]
fn a_record_is_saved_that_nobody_asked_for() {
    caught(
        Flaw::SavesAlways,
        ALIGNED,
        "a copy from channel 0 for checkpoint 0 was not asked for",
    );
}

#[test]
fn a_barrier_does_not_overtake() {
    caught(
        Flaw::NeverAnnounces,
        OVERTAKEN,
        "the barrier of checkpoint 3 was forwarded into output 0 behind records that it should have overtaken",
    );
}

/// Case B03, F074.
#[test]
fn a_barrier_overtakes_in_a_strict_output() {
    caught(
        Flaw::AlwaysAnnounces,
        OVERTAKEN,
        "the barrier of checkpoint 3 overtook in output 1, where it has to keep its place",
    );
}

/// Case B03.
#[test]
fn an_aligned_barrier_overtakes() {
    caught(
        Flaw::AlwaysAnnounces,
        ALIGNED,
        "the barrier of checkpoint 3 overtook in output 0, where it has to keep its place",
    );
}

#[test]
fn a_half_filled_batch_is_left_behind_the_barrier() {
    caught(
        Flaw::KeepsBatch,
        ALIGNED,
        "3 records emitted into output 0 before the barrier of checkpoint 3 are behind it",
    );
}

#[test]
fn a_barrier_that_changed_its_mode_is_forwarded_as_it_came() {
    caught(
        Flaw::ForwardsAsReceived,
        "
        feed 0 t3 r
        feed 1 r t3
        read 0 1
        late
        note 1
        read 0 1
        read 1 1
        rest
    ",
        "what went into output 0 is not the barrier of checkpoint 3 as it was to be forwarded (Unaligned)",
    );
}

#[test]
fn a_barrier_is_reported_before_what_it_comes_behind() {
    caught(
        Flaw::ReportsEarly,
        "
        feed 0 r t3
        feed 1 t3
        note 0
        read 0 2
        read 1 1
        rest
    ",
        "the marker of checkpoint 3 was reported on channel 0, and record 0 before it not read",
    );
}

#[test]
fn a_barrier_is_dropped() {
    caught(
        Flaw::DropsBarriers,
        ALIGNED,
        "record 2 of channel 0 was read, and the marker of checkpoint 3 before it not reported",
    );
}

#[test]
fn a_strict_channel_is_said_to_be_overtaken() {
    caught(
        Flaw::NotesStrict,
        "
        strict
        feed 0 r u3
        feed 1 u3
        read 0 2
        note 1
        read 1 1
        rest
    ",
        "the driver reported what cannot be: a barrier overtook on channel 0, which is strict",
    );
}

const GIVEN_UP: &str = "
    feed 0 c3 r
    feed 1 r x3 r
    read 0 2
    read 1 3
    read 0 1
    rest
";

#[test]
fn a_cancel_marker_is_kept_to_itself() {
    caught(
        Flaw::KeepsCancel,
        GIVEN_UP,
        "Abort of checkpoint 3 came before ForwardCancel of checkpoint 3",
    );
}

#[test]
fn what_is_given_up_is_not_dropped() {
    caught(
        Flaw::KeepsAborted,
        GIVEN_UP,
        "record 1 of channel 1 was processed before Abort of checkpoint 3",
    );
}

/// Case F049.
#[test]
fn an_abort_while_records_are_in_flight_is_not_heeded() {
    caught(
        Flaw::KeepsAborted,
        "
        feed 0 u3 r
        feed 1 r r u3 r
        read 0 1
        read 1 1
        abort c3
        read 0 1
        read 1 3
        rest
    ",
        "record 0 of channel 0 was processed before Abort of checkpoint 3",
    );
}

/// Cases B21, F045: the driver of a tracker owes the same, but no channel blocks and nothing is saved.
#[test]
fn the_driver_of_a_tracker_is_watched_as_well() {
    let checkpoint = CheckpointId::new(3);
    let barrier = Barrier::checkpoint(checkpoint, Time::ZERO);
    let mut watch = Watch::tracker(2, []);
    let mut play = || {
        for channel in [0, 1].map(Channel) {
            watch.fed(channel, Fed::Barrier(barrier))?;
            watch.fed(channel, Fed::Record)?;
        }
        let record = 0;
        let channel = Channel(0);
        watch.told(Time::ZERO, Event::Barrier { channel, barrier })?;
        watch.did(Did::Read { channel, record })?;
        let channel = Channel(1);
        watch.told(Time::ZERO, Event::Barrier { channel, barrier })?;
        watch.did(Did::Snapshotted { checkpoint })?;
        watch.did(Did::Read { channel, record })?;
        watch.did(Did::Acknowledged { checkpoint })?;
        watch.at_rest()?;
        watch.did(Did::Saved {
            checkpoint,
            channel,
            record,
        })
    };
    assert_eq!(
        play().map_err(|broken| broken.to_string()),
        Err("a copy from channel 1 for checkpoint 3 was not asked for".to_owned())
    );
}

/// Seed 52808 of the whole-job simulation: the driver was blamed where a trigger had come late.
#[test]
fn a_note_is_true_also_if_an_older_barrier_has_come_behind_its_own() {
    let unaligned = |checkpoint| {
        let barrier = Barrier::checkpoint(CheckpointId::new(checkpoint), Time::ZERO);
        barrier.with_mode(Mode::Unaligned)
    };
    let mut watch = Watch::aligner([Overtakable], []);
    let channel = Channel(0);
    watch.fed(channel, Fed::Barrier(unaligned(5))).unwrap();
    watch.fed(channel, Fed::Barrier(unaligned(4))).unwrap();
    let barrier = unaligned(5);
    let note = Event::Overtook { channel, barrier };
    assert_eq!(watch.told(Time::ZERO, note), Ok(()));
}

/// Seed 71900 of the whole-job simulation: what is behind the barrier of a newer checkpoint, but before its own,
/// belongs to a checkpoint whose trigger came late.
#[test]
fn what_is_saved_may_be_behind_a_newer_barrier() {
    let script = "
        feed 0 r c4 r u3 r
        feed 1 r u3
        abort c4
        note 0
        rest
    ";
    assert_eq!(play(Flaw::None, script), Ok(()));
}
