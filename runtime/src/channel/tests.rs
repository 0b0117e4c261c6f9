//! Channels, item by item.

#![expect(
    clippy::disallowed_methods,
    reason = "two ends of a channel need two threads"
)]

use cutwater_barrier::Mode;

use super::*;

fn batch(value: u64) -> Item {
    let batch = Box::new(Batch(vec![value]));
    Item::Batch { batch, records: 1 }
}

fn value_of(batch: &AnyBatch) -> u64 {
    batch.downcast_ref::<Batch<u64>>().unwrap().0[0]
}

fn value(received: Option<Received<u8>>) -> (usize, u64) {
    match received {
        Some(Received::Item {
            channel,
            item: Item::Batch { batch, .. },
        }) => (channel, value_of(&batch)),
        _ => panic!("expected a batch"),
    }
}

fn gate(inputs: &[Input], batches: usize) -> Arc<Gate<u8>> {
    let capacity = Capacity {
        batches,
        records: 1000,
    };
    Gate::new(inputs.iter().copied(), capacity)
}

fn unaligned(checkpoint: u64) -> Barrier {
    let barrier = Barrier::checkpoint(CheckpointId::new(checkpoint), cutwater_barrier::Time::ZERO);
    barrier.with_mode(Mode::Unaligned)
}

const ANY: Input = Input::Overtakable;

#[test]
fn a_blocked_channel_stays_unread_while_others_go_on() {
    let gate = gate(&[ANY, ANY], 4);
    let (a, b) = (gate.sender(0), gate.sender(1));
    for i in 0..3 {
        a.send(batch(i)).unwrap();
        b.send(batch(10 + i)).unwrap();
    }
    for i in 0..3 {
        let received = gate.poll(Wanted::All, |channel| channel == 0).unwrap();
        assert_eq!(value(received), (1, 10 + i));
    }
    assert!(
        gate.poll(Wanted::All, |channel| channel == 0)
            .unwrap()
            .is_none()
    );
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (0, 0));
}

#[test]
fn a_sender_that_found_a_full_channel_is_told_when_half_of_it_is_free() {
    let (sending, receiving) = (gate(&[], 1), gate(&[ANY], 4));
    let sender = receiving.sender(0);
    for i in 0..3 {
        assert!(!sender.send(batch(i)).unwrap().is_full);
    }
    assert!(sender.send(batch(3)).unwrap().is_full);
    assert!(!sender.has_room(&sending).unwrap());
    let is_told = || std::mem::take(&mut sending.lock().has_room);
    for (i, told) in [(0, false), (1, false), (2, true), (3, false)] {
        assert_eq!(
            value(receiving.poll(Wanted::All, |_| false).unwrap()),
            (0, i)
        );
        assert_eq!(is_told(), told, "after {i}");
    }
    assert!(sender.has_room(&sending).unwrap());
}

#[test]
fn a_bound_on_records_makes_a_channel_full_as_well() {
    let gate = gate(&[ANY], 100);
    gate.limit(2);
    let sender = gate.sender(0);
    assert!(!sender.send(batch(0)).unwrap().is_full);
    assert!(sender.send(batch(1)).unwrap().is_full);
}

#[test]
fn a_feedback_channel_never_holds_its_sender_back_but_is_read_first_when_long() {
    let gate = gate(&[ANY, Input::Feedback], 2);
    let (outside, back) = (gate.sender(0), gate.sender(1));
    for i in 0..10 {
        outside.send(batch(i)).unwrap();
        assert!(!back.send(batch(100 + i)).unwrap().is_full);
    }
    let channels: Vec<_> = (0..9)
        .map(|_| value(gate.poll(Wanted::All, |_| false).unwrap()).0)
        .collect();
    // Ten wait there: it is read alone until fewer than two are left.
    assert_eq!(channels, [1; 9]);
}

#[test]
fn what_stands_before_a_barrier_enters_even_a_full_loop() {
    let gate = gate(&[ANY, Input::Feedback], 2);
    let (outside, back) = (gate.sender(0), gate.sender(1));
    outside.send(batch(0)).unwrap();
    outside.send(batch(1)).unwrap();
    for i in 0..10 {
        back.send(batch(100 + i)).unwrap();
    }
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (1, 100));
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (1, 101));

    outside.send(Item::Barrier(unaligned(7))).unwrap();
    let noted = gate.poll(Wanted::All, |_| false).unwrap();
    assert!(matches!(noted, Some(Received::Overtook { channel: 0, .. })));
    for read in [(0, 0), (1, 102), (0, 1), (1, 103)] {
        assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), read);
    }
    let barrier = gate.poll(Wanted::All, |_| false).unwrap();
    assert!(matches!(
        barrier,
        Some(Received::Item {
            channel: 0,
            item: Item::Barrier(_)
        })
    ));
    outside.send(batch(2)).unwrap();
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (1, 104));
    assert_eq!(
        value(gate.poll(Wanted::All, |_| false).unwrap()),
        (1, 105),
        "it is still full"
    );
}

#[test]
fn while_a_barrier_is_due_new_input_enters_a_full_loop_too() {
    let (sending, receiving) = (gate(&[], 1), gate(&[ANY, Input::Feedback], 2));
    let (outside, back) = (receiving.sender(0), receiving.sender(1));
    for i in 0..3 {
        back.send(batch(i)).unwrap();
    }
    outside.send(batch(10)).unwrap();
    assert!(!outside.has_room(&sending).unwrap());
    let others = |channel| channel == 1;
    assert!(receiving.poll(Wanted::All, others).unwrap().is_none());

    receiving.admit(true);
    assert!(std::mem::take(&mut sending.lock().has_room), "it is told");
    assert!(outside.has_room(&sending).unwrap());
    assert_eq!(value(receiving.poll(Wanted::All, others).unwrap()), (0, 10));

    receiving.admit(false);
    assert!(!outside.has_room(&sending).unwrap());
}

#[test]
fn nothing_is_sent_into_a_full_loop_until_it_has_room_again() {
    let (sending, receiving) = (gate(&[], 1), gate(&[ANY, Input::Feedback], 2));
    let (outside, back) = (receiving.sender(0), receiving.sender(1));
    for i in 0..3 {
        back.send(batch(i)).unwrap();
    }
    assert!(outside.send(batch(10)).unwrap().is_full);
    assert!(!outside.has_room(&sending).unwrap());
    let is_told = || std::mem::take(&mut sending.lock().has_room);
    assert_eq!(
        value(receiving.poll(Wanted::All, |_| false).unwrap()),
        (1, 0)
    );
    assert!(!is_told(), "two are in the loop");
    assert_eq!(
        value(receiving.poll(Wanted::All, |_| false).unwrap()),
        (1, 1)
    );
    assert!(
        !is_told(),
        "a channel that is half full does not call for more"
    );
    assert_eq!(
        value(receiving.poll(Wanted::All, |_| false).unwrap()),
        (0, 10)
    );
    assert!(is_told());
    assert!(outside.has_room(&sending).unwrap());
}

#[test]
fn a_barrier_overtakes_what_waits_and_takes_a_copy_of_it() {
    let gate = gate(&[ANY], 8);
    let sender = gate.sender(0);
    sender.send(batch(0)).unwrap();
    sender.send(batch(1)).unwrap();
    sender.send(Item::Barrier(unaligned(7))).unwrap();
    sender.send(batch(2)).unwrap();

    let received = gate.poll(Wanted::All, |_| true).unwrap();
    assert!(matches!(
        received,
        Some(Received::Overtook { channel: 0, .. })
    ));
    let mut captured = Vec::new();
    gate.capture(0, CheckpointId::new(7), |batch| {
        captured.push(value_of(batch));
    });
    assert_eq!(captured, [0, 1]);
    for i in 0..3 {
        assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (0, i));
    }
    assert!(
        gate.poll(Wanted::All, |_| false).unwrap().is_none(),
        "the barrier is gone"
    );
}

#[test]
fn nothing_overtakes_in_a_strict_channel() {
    let gate = gate(&[Input::Strict], 8);
    let sender = gate.sender(0);
    sender.send(batch(0)).unwrap();
    sender.send(Item::Barrier(unaligned(7))).unwrap();
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (0, 0));
    let next = gate.poll(Wanted::All, |_| false).unwrap();
    assert!(matches!(
        next,
        Some(Received::Item {
            item: Item::Barrier(_),
            ..
        })
    ));
}

#[test]
fn restored_records_are_read_before_anything_new_in_any_channel() {
    let gate = gate(&[ANY, ANY], 8);
    let (a, b) = (gate.sender(0), gate.sender(1));
    b.send(batch(0)).unwrap();
    b.send(batch(1)).unwrap();
    gate.mark_restored();
    a.send(batch(10)).unwrap();
    b.send(batch(2)).unwrap();
    let read: Vec<_> = (0..4)
        .map(|_| value(gate.poll(Wanted::All, |_| false).unwrap()).1)
        .collect();
    assert_eq!(read, [0, 1, 10, 2]);
}

#[test]
fn closing_wakes_whoever_waits() {
    let gate = gate(&[ANY], 1);
    let reader = std::thread::spawn({
        let gate = Arc::clone(&gate);
        move || gate.wait(None, Instant::now, Wanted::All, |_| true)
    });
    gate.close();
    assert_eq!(reader.join().unwrap(), Err(Closed));
    assert!(gate.sender(0).send(batch(0)).is_err());
}

#[test]
fn a_task_without_room_reads_barriers_and_no_records() {
    let gate = gate(&[ANY, ANY], 8);
    let (a, b) = (gate.sender(0), gate.sender(1));
    a.send(batch(0)).unwrap();
    a.send(Item::EndOfData).unwrap();
    b.send(Item::EndOfData).unwrap();
    let next = gate.poll(Wanted::Marks, |_| false).unwrap();
    assert!(matches!(next, Some(Received::Item { channel: 1, .. })));
    assert!(gate.poll(Wanted::Marks, |_| false).unwrap().is_none());
    assert!(gate.poll(Wanted::None, |_| false).unwrap().is_none());
    assert_eq!(value(gate.poll(Wanted::All, |_| false).unwrap()), (0, 0));
}

#[test]
fn messages_overtake_items() {
    let gate = gate(&[ANY], 1);
    gate.sender(0).send(batch(0)).unwrap();
    gate.tell(7);
    let received = gate.poll(Wanted::All, |_| false).unwrap();
    assert!(matches!(received, Some(Received::Control(7))));
}

#[test]
fn an_emptied_batch_comes_back_to_its_sender() {
    let gate = gate(&[ANY], 4);
    let sender = gate.sender(0);
    assert!(sender.send(batch(0)).unwrap().spare.is_none());
    let Some(Received::Item {
        item: Item::Batch { batch: emptied, .. },
        ..
    }) = gate.poll(Wanted::All, |_| false).unwrap()
    else {
        panic!("expected a batch");
    };
    gate.recycle(0, emptied);
    assert!(sender.send(batch(1)).unwrap().spare.is_some());
}
