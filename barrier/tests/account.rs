//! The account example of the specification (2.1), both ways: what alignment is for.
//!
//! ```text
//!   state    alice 900, bob 300
//!   A        P0@121 alice +50  |42|  P0@122 alice +100
//!   B        P1@81  bob   -20  |42|  P1@82  bob   +200
//! ```
//!
//! A's barrier comes first and A goes on sending. Checkpoint 42 must hold alice 950 and bob 280, with
//! positions P0 = 122 and P1 = 82 from which a recovery reads on.

use std::collections::{BTreeMap, VecDeque};

use cutwater_barrier::align::{Channel, Effect, Event, Reading};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time, Tracker};

#[derive(Clone, Copy)]
enum Item {
    /// A record of a partition: its position there, its account, its amount.
    Record(u64, &'static str, i64),
    Barrier,
}

const BARRIER: Barrier = Barrier::checkpoint(CheckpointId::new(42), Time::ZERO);
const A: [Item; 3] = [
    Item::Record(121, "alice", 50),
    Item::Barrier,
    Item::Record(122, "alice", 100),
];
const B: [Item; 3] = [
    Item::Record(81, "bob", -20),
    Item::Barrier,
    Item::Record(82, "bob", 200),
];

type Balances = BTreeMap<&'static str, i64>;

#[test]
fn exactly_once_snapshots_950_and_280_and_recovers_to_the_same_totals() {
    let mut aligner = Aligner::new(2);
    let snapshot = run(|step| match step {
        Step::Ask(channel) => Answer::Reading(aligner.reading(channel)),
        Step::Handle(event) => {
            aligner.handle(Time::ZERO, event).unwrap();
            Answer::Effects(std::iter::from_fn(|| aligner.poll()).collect())
        }
    });
    assert_eq!(snapshot, Balances::from([("alice", 950), ("bob", 280)]));
    assert_eq!(
        recover(snapshot),
        Balances::from([("alice", 1_050), ("bob", 480)])
    );
}

/// Alice's 100 came behind the barrier and is in the snapshot; after a recovery it is read again.
#[test]
fn at_least_once_snapshots_1050_and_recovers_to_1150() {
    let mut tracker = Tracker::new(2);
    let snapshot = run(|step| match step {
        Step::Ask(channel) => Answer::Reading(tracker.reading(channel)),
        Step::Handle(event) => {
            tracker.handle(Time::ZERO, event).unwrap();
            Answer::Effects(std::iter::from_fn(|| tracker.poll()).collect())
        }
    });
    assert_eq!(snapshot, Balances::from([("alice", 1_050), ("bob", 280)]));
    assert_eq!(
        recover(snapshot),
        Balances::from([("alice", 1_150), ("bob", 480)])
    );
}

enum Step {
    Ask(Channel),
    Handle(Event),
}

enum Answer {
    Reading(Reading),
    Effects(Vec<Effect>),
}

/// Reads A as far as it may be read, then B, until both are empty. Returns what was snapshotted.
fn run(mut machine: impl FnMut(Step) -> Answer) -> Balances {
    let mut channels = [VecDeque::from(A), VecDeque::from(B)];
    let mut balances = Balances::from([("alice", 900), ("bob", 300)]);
    let mut snapshots = Vec::new();
    while channels.iter().any(|channel| !channel.is_empty()) {
        for (index, items) in channels.iter_mut().enumerate() {
            let channel = Channel(index);
            while matches!(machine(Step::Ask(channel)), Answer::Reading(Reading::Free)) {
                let event = match items.pop_front() {
                    None => break,
                    Some(Item::Record(_, account, amount)) => {
                        *balances.get_mut(account).unwrap() += amount;
                        continue;
                    }
                    Some(Item::Barrier) => Event::Barrier {
                        channel,
                        barrier: BARRIER,
                    },
                };
                let Answer::Effects(effects) = machine(Step::Handle(event)) else {
                    unreachable!("an event is answered by effects");
                };
                let snapshot = |effect: &Effect| matches!(effect, Effect::Snapshot(_));
                snapshots.extend(
                    effects
                        .iter()
                        .filter(|&effect| snapshot(effect))
                        .map(|_| balances.clone()),
                );
            }
        }
    }
    assert_eq!(balances, Balances::from([("alice", 1_050), ("bob", 480)]));
    assert_eq!(snapshots.len(), 1);
    snapshots.remove(0)
}

/// Restores a snapshot and reads both partitions from the positions recorded with it.
fn recover(mut balances: Balances) -> Balances {
    for (items, position) in [(A, 122), (B, 82)] {
        for item in items {
            if let Item::Record(at, account, amount) = item
                && at >= position
            {
                *balances.get_mut(account).unwrap() += amount;
            }
        }
    }
    balances
}
