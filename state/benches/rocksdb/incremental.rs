//! Checkpoints after little has changed, beside full ones.

use std::time::Instant;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange};
use cutwater_state::{Backend, Keyed, KeyedStates, rocksdb::RocksDb};

use crate::{MAX, common::Nowhere, options, workload::Draw};

/// A checkpoint after 1 % of 100-byte values have changed, beside a full one.
pub(crate) fn run(keys: u64) {
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::rows(RocksDb::new(folder.path(), options(keys * 300)).unwrap());
    let mut states = KeyedStates::open(&backend, "sum", KeyGroupRange::all(MAX), MAX, []).unwrap();
    let value = states.value::<String>("value").unwrap();
    let mut draw = Draw::uniform(keys);
    let mut text = || {
        format!(
            "{:016x}{:016x}{:016x}{:052x}",
            draw.random(),
            draw.random(),
            draw.random(),
            0
        )
    };
    for key in 0..keys {
        states[value].put(Keyed::new(&key), text()).unwrap();
    }
    println!("\n{keys} values of 100 bytes | bytes stored | of all | time");
    let line = |name: &str, states: &mut KeyedStates<u64>, n| {
        let task = states.snapshot(CheckpointId::new(n));
        let begin = Instant::now();
        let snapshot = task.run(&mut Nowhere).unwrap();
        let (new, full) = (snapshot.bytes_new as f64, snapshot.bytes_full as f64);
        let time = begin.elapsed().as_secs_f64();
        println!(
            "{name} | {:.1} MB | {:.1} % | {:.0} ms",
            new / 1e6,
            100.0 * new / full,
            time * 1e3
        );
        states.confirmed(CheckpointId::new(n));
    };
    line("full", &mut states, 1);
    let spread = (0..keys).step_by(100);
    for key in spread {
        states[value].put(Keyed::new(&key), text()).unwrap();
    }
    line("1 % of all, spread", &mut states, 2);
    let of_one_group = |key: &u64| u64::GROUPING.group(key.key_hash(), MAX).get() == 0;
    for key in (0..keys).filter(of_one_group) {
        states[value].put(Keyed::new(&key), text()).unwrap();
    }
    line("one key group of 128", &mut states, 3);
    line("nothing", &mut states, 4);
}
