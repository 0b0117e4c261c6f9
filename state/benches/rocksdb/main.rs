//! State in RocksDB beside RocksDB as it is commonly used, in one run.
//!
//! ```text
//! cargo xtask bench rocksdb                               a million keys
//! CUTWATER_BENCH_KEYS=10000000 cargo xtask bench rocksdb
//! ```
//!
//! Windows of all sides alternate, and the median of their ratios counts, so that what else the machine does hits
//! all. One of ours takes about a second with one snapshot in it, which is written beside the task; time on the
//! clock includes that, time on the processor is the task's alone. The rivals take no snapshots.
//!
//! A word chooses what is measured: `uniform`, `Zipf`, `restore`, `incremental`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench prints, reads the clock, and writes snapshots beside the task as an engine does"
)]

#[path = "../common/mod.rs"]
mod common;
mod incremental;
mod restores;
mod rival;
mod sums;
mod workload;

use std::env;

use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
use cutwater_state::{
    Backend, Data, Handle, KeyedStates, Restored, ValueState, rocksdb::RocksOptions,
};

pub(crate) const MAX: MaxParallelism = MaxParallelism::new(128).unwrap();

fn main() {
    let keys = env::var("CUTWATER_BENCH_KEYS").ok();
    let keys: u64 = keys.map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    sums::run(keys);
    if is_wanted("restore") {
        restores::run(keys);
    }
    if is_wanted("incremental") {
        incremental::run(keys);
    }
}

/// Whether the command line asks for this part; without a word it asks for all.
fn is_wanted(name: &str) -> bool {
    let mut words = env::args().skip(1).filter(|word| !word.starts_with('-'));
    words.next().is_none_or(|word| name.contains(&word))
}

fn options(memory: u64) -> RocksOptions {
    let mut options = RocksOptions::default();
    options.memory = memory;
    options
}

fn open<V: Data>(
    backend: &Backend,
    groups: KeyGroupRange,
    old: impl IntoIterator<Item = Restored>,
) -> (KeyedStates<u64>, Handle<ValueState<u64, V>>) {
    let mut states = KeyedStates::open(backend, "sum", groups, MAX, old).unwrap();
    let value = states.value("value").unwrap();
    (states, value)
}
