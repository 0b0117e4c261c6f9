//! Every interleaving of the task's first writes after a snapshot with the snapshot's writers.
//!
//! loom tries them all, and fails a run in which entries are read beside a write that is not ordered with it,
//! or in which a buffer with such a cell is used after it was freed. Run with `cargo xtask test loom`.

use loom::{model::Builder, thread};

use super::{BlockId, Blocks, Frozen, Spot};

type Entry = (u8, Box<u8>);

/// Tries all interleavings in which threads are stopped against their will up to three times.
fn interleaved(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// One block, and then another, with an entry each.
fn two_blocks() -> Blocks<u8, Box<u8>, ()> {
    let mut blocks = Blocks::new(1);
    for key in 0..2 {
        let number = blocks.push(u16::from(key), ());
        blocks.modify(number, |entries, ()| entries.push((key, Box::new(0))));
    }
    blocks
}

fn set(blocks: &mut Blocks<u8, Box<u8>, ()>, number: usize, value: u8) {
    blocks.modify(number, |entries, ()| *entries[0].1 = value);
}

/// As [`set`], but only the value changes.
fn change(blocks: &mut Blocks<u8, Box<u8>, ()>, number: usize, value: u8) {
    **blocks.value_mut(Spot::At(number, 0)) = value;
}

fn drained(frozen: Frozen<u8, Box<u8>>) -> Vec<Entry> {
    let mut found = Vec::new();
    let all: Result<(), ()> = frozen.drain(|group, entries| {
        assert!(entries.iter().all(|(key, _)| u16::from(*key) == group));
        found.extend_from_slice(entries);
        Ok(())
    });
    all.expect("it does not fail");
    found
}

fn values(entries: &[Entry]) -> Vec<u8> {
    entries.iter().map(|(_, value)| **value).collect()
}

fn live(blocks: &mut Blocks<u8, Box<u8>, ()>) -> Vec<u8> {
    blocks.iter().flat_map(values).collect()
}

/// The same by a writer that takes all blocks aside before it reads them.
fn drained_from_copies(mut frozen: Frozen<u8, Box<u8>>) -> Vec<Entry> {
    frozen.take_aside();
    drained(frozen)
}

/// The task writes while a snapshot is written, which gets both blocks as they were; and then has these values itself.
fn beside_a_writer(
    write: fn(Frozen<u8, Box<u8>>) -> Vec<Entry>,
    expected: &'static [u8],
    task: impl Fn(&mut Blocks<u8, Box<u8>, ()>) + Send + Sync + 'static,
) {
    interleaved(move || {
        let mut blocks = two_blocks();
        let frozen = blocks.freeze(None);
        let writer = thread::spawn(move || write(frozen));
        task(&mut blocks);
        let found = writer.join().expect("the writer does not panic");
        assert_eq!(values(&found), [0, 0]);
        assert_eq!(live(&mut blocks), expected);
    });
}

/// The writer gets both blocks as they were, whichever of both comes first to which.
#[test]
fn later_writes_are_invisible_to_a_snapshot() {
    beside_a_writer(drained, &[3, 2], |blocks| {
        set(blocks, 0, 1);
        set(blocks, 1, 2);
        set(blocks, 0, 3);
    });
}

/// The same with a writer that takes all blocks aside before it reads them.
#[test]
fn later_writes_are_invisible_to_a_pressed_snapshot() {
    beside_a_writer(drained_from_copies, &[1, 2], |blocks| {
        set(blocks, 0, 1);
        set(blocks, 1, 2);
    });
}

/// Values that change are kept, and those of a block that changes once more are copied with it.
#[test]
fn values_that_change_are_kept_as_they_were() {
    beside_a_writer(drained, &[3, 2], |blocks| {
        change(blocks, 0, 1);
        assert_eq!(**blocks.value(Spot::At(0, 0)), 1);
        change(blocks, 1, 2);
        change(blocks, 0, 3);
    });
}

/// The same with a writer that takes all blocks aside before it reads them.
#[test]
fn a_pressed_snapshot_takes_blocks_aside_as_they_were() {
    beside_a_writer(drained_from_copies, &[2, 3], |blocks| {
        change(blocks, 0, 1);
        change(blocks, 0, 2);
        change(blocks, 1, 3);
    });
}

/// A value is kept for one snapshot when another is opened, and both get what they want.
#[test]
fn a_snapshot_is_opened_while_values_are_kept_for_another() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let one = blocks.freeze(None);
        let base = one.epoch();
        let one = thread::spawn(move || drained(one));
        change(&mut blocks, 0, 1);
        let two = blocks.freeze(Some(base));
        change(&mut blocks, 0, 2);
        change(&mut blocks, 1, 3);
        assert_eq!(values(&one.join().expect("it does not panic")), [0, 0]);
        assert_eq!(values(&drained(two)), [1]);
        assert_eq!(live(&mut blocks), [2, 3]);
    });
}

/// An entry whose value is taken goes after its block was copied, and one whose value is changed stays.
#[test]
fn values_that_are_lent_are_kept_as_they_were() {
    beside_a_writer(drained, &[1], |blocks| {
        let one = |value: &mut Option<Box<u8>>| *value = Some(Box::new(1));
        blocks.lend(Spot::At(0, 0), one, |_, _, ()| {});
        blocks.lend(Spot::At(1, 0), |value| *value = None, |_, _, ()| {});
    });
}

/// A snapshot is cancelled while the task keeps values for it.
#[test]
fn a_cancelled_snapshot_leaves_what_was_kept() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let frozen = blocks.freeze(None);
        let canceller = thread::spawn(move || drop(frozen));
        change(&mut blocks, 0, 1);
        change(&mut blocks, 1, 1);
        canceller.join().expect("it does not panic");
        let frozen = blocks.freeze(None);
        change(&mut blocks, 0, 2);
        assert_eq!(values(&drained(frozen)), [1, 1]);
        assert_eq!(live(&mut blocks), [2, 1]);
    });
}

/// Two writers read one block, and the task leaves it to both of them, or to one, or to none.
#[test]
fn two_snapshots_may_read_the_same_block() {
    interleaved(|| {
        let mut blocks = Blocks::new(1);
        blocks.push(0, ());
        blocks.modify(0, |entries, ()| entries.push((0, Box::new(0))));
        let (one, two) = (blocks.freeze(None), blocks.freeze(None));
        let one = thread::spawn(move || drained(one));
        let two = thread::spawn(move || drained(two));
        set(&mut blocks, 0, 1);
        for writer in [one, two] {
            assert_eq!(values(&writer.join().expect("it does not panic")), [0]);
        }
        assert_eq!(live(&mut blocks), [1]);
    });
}

/// A snapshot is cancelled, while the task gives it what it no longer wants; and the next one is
/// given what was left over.
#[test]
fn a_cancelled_snapshot_gives_everything_back() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let frozen = blocks.freeze(None);
        let canceller = thread::spawn(move || drop(frozen));
        set(&mut blocks, 0, 1);
        canceller.join().expect("it does not panic");
        let frozen = blocks.freeze(None);
        set(&mut blocks, 0, 2);
        set(&mut blocks, 1, 2);
        assert_eq!(values(&drained(frozen)), [1, 0]);
        assert_eq!(live(&mut blocks), [2, 2]);
    });
}

/// The task ends first.
#[test]
fn a_snapshot_outlives_the_blocks() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let frozen = blocks.freeze(None);
        let writer = thread::spawn(move || drained(frozen));
        set(&mut blocks, 1, 2);
        drop(blocks);
        let found = writer.join().expect("the writer does not panic");
        assert_eq!(values(&found), [0, 0]);
    });
}

/// A snapshot of what has changed since another: the task copies the one block and passes the other over, and
/// the writer gets the first as it was, and the second only if it was faster.
#[test]
fn what_has_not_changed_is_passed_over_or_read_as_it_was() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let base = blocks.freeze(None).epoch();
        set(&mut blocks, 0, 1);
        let frozen = blocks.freeze(Some(base));
        let writer = thread::spawn(move || {
            let wanted = frozen.wanted();
            let mut found = Vec::new();
            let all = (0..2).map(|number| BlockId {
                group: number as u16,
                number,
            });
            let read: Result<(), ()> = frozen.drain_blocks(all, |_, entries| {
                found.push(values(entries)[0]);
                Ok(())
            });
            read.expect("it does not fail");
            (wanted, found)
        });
        set(&mut blocks, 0, 2);
        set(&mut blocks, 1, 2);
        let (wanted, found) = writer.join().expect("the writer does not panic");
        let wanted: Vec<u32> = wanted.iter().map(|block| block.number).collect();
        assert_eq!(wanted, [0], "whenever it asks");
        assert!(found == [1] || found == [1, 0], "{found:?}");
        assert_eq!(live(&mut blocks), [2, 2]);
    });
}

/// What was noted before a snapshot is not written to behind its back; and where the task leaves a block to the
/// writer, what was noted there is not read any more.
#[test]
fn notes_fall_before_they_mislead() {
    interleaved(|| {
        let mut blocks = two_blocks();
        let note = |blocks: &mut Blocks<u8, Box<u8>, ()>| {
            blocks.forget();
            blocks.note([(0, ()), (1, ())].into_iter(), |(), ()| Some(0));
        };
        note(&mut blocks);
        let frozen = blocks.freeze(None);
        let writer = thread::spawn(move || drained(frozen));
        **blocks.value_mut(Spot::Noted(0)) = 1;
        note(&mut blocks); // the second block is not settled
        assert!(blocks.noted_to_write(0).is_none());
        **blocks.value_mut(Spot::Noted(1)) = 2;
        let noted = blocks.noted(1).map(|(_, value)| **value);
        assert!(noted.is_none_or(|value| value == 2), "{noted:?}");
        let found = writer.join().expect("the writer does not panic");
        assert_eq!(values(&found), [0, 0]);
        assert_eq!(live(&mut blocks), [1, 2]);
    });
}
