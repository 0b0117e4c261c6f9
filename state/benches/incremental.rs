//! Incremental snapshots beside full ones: bytes and CPU time after a hundredth of the keys has changed.
//!
//! Values have 100 bytes. Changed are keys of a few key groups, which stand together in the table, or keys here
//! and there. `CUTWATER_BENCH_KEYS=10000000` adds a size. What is printed are medians, of CPU time, because
//! the machine is rarely ours alone; both write to memory that is dropped at once.
#![expect(clippy::print_stdout, reason = "a bench reports")]

mod common;

use std::time::Duration;

use common::{Nowhere, median, sizes, thread_cpu};
use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{Handle, Keyed, KeyedStates, Snapshot, SnapshotTask, ValueState};

const ROUNDS: u64 = 5;
const MAX: MaxParallelism = MaxParallelism::new(1024).unwrap();

type Value = (u64, [u64; 11], u32); // 100 bytes as postcard writes them: fixed below

fn value(round: u64) -> Value {
    (u64::MAX, [u64::from(u32::MAX) << 24 | round; 11], 1 << 10)
}

fn put(states: &mut KeyedStates<u64>, state: Handle<ValueState<u64, Value>>, key: u64, round: u64) {
    states[state].put(Keyed::new(&key), value(round)).unwrap();
}

/// Runs a snapshot; returns it with the CPU time it took.
fn written(task: SnapshotTask) -> (Snapshot, Duration) {
    let start = thread_cpu();
    let snapshot = task.run(&mut Nowhere).unwrap();
    (snapshot, thread_cpu() - start)
}

/// A hundredth of the keys, chosen anew in each round.
fn changed(keys: u64, is_clustered: bool, round: u64) -> Box<dyn Iterator<Item = u64>> {
    if is_clustered {
        let first = round * 97 % 1000;
        let groups = first..first + 10; // of 1024
        Box::new((0..keys).filter(move |key| {
            let group = u64::GROUPING.group(key.key_hash(), MAX);
            groups.contains(&u64::from(group.get()))
        }))
    } else {
        Box::new((0..keys / 100).map(move |n| (n * 0x9e37_79b9 + round * 7919) % keys))
    }
}

fn measure(keys: u64, is_clustered: bool) {
    let mut states = KeyedStates::<u64>::new("op", KeyGroupRange::new(0, MAX.get()), MAX);
    let state = states.value::<Value>("v").unwrap();
    for key in 0..keys {
        put(&mut states, state, key, 0);
    }
    let mut id = (1..).map(CheckpointId::new);
    let mut next = || id.next().unwrap();
    let first = next();
    written(states.snapshot(first));
    states.confirmed(first);
    let (mut full_time, mut time, mut share, mut per_key) = (vec![], vec![], vec![], vec![]);
    for round in 1..=ROUNDS {
        let mut count = 0;
        for key in changed(keys, is_clustered, round) {
            put(&mut states, state, key, round);
            count += 1;
        }
        let (full, took) = written(states.snapshot_canonical(next()));
        full_time.push(took.as_secs_f64());
        let checkpoint = next();
        let (snapshot, took) = written(states.snapshot(checkpoint));
        states.confirmed(checkpoint);
        time.push(took.as_secs_f64());
        share.push(snapshot.bytes_new as f64 / full.bytes_full as f64);
        per_key.push(snapshot.bytes_new as f64 / f64::from(count));
        if round == ROUNDS {
            println!(
                "{:>9} keys, 1 % changed {}: {:5.1} % of the bytes ({:.0} per changed key, of at most 4096), \
                 {:6.1} ms instead of {:6.1} ms; named {:.2} times the state",
                keys,
                if is_clustered {
                    "together "
                } else {
                    "anywhere "
                },
                100.0 * median(share.clone()),
                median(per_key.clone()),
                1e3 * median(time.clone()),
                1e3 * median(full_time.clone()),
                snapshot.bytes_full as f64 / full.bytes_full as f64,
            );
        }
    }
}

fn main() {
    let bytes = postcard_bytes();
    assert_eq!(bytes, 100, "values have 100 bytes");
    for keys in sizes() {
        for is_clustered in [true, false] {
            measure(keys, is_clustered);
        }
    }
}

/// How long a value is in a snapshot.
fn postcard_bytes() -> u64 {
    let mut states = KeyedStates::<u64>::new("op", KeyGroupRange::new(0, MAX.get()), MAX);
    let state = states.value::<Value>("v").unwrap();
    put(&mut states, state, 1, 1);
    let (snapshot, _) = written(states.snapshot_canonical(CheckpointId::new(1)));
    snapshot.bytes_full - 8 - 8 // the file's magic, the key
}
