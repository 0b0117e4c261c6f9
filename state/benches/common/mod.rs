//! The keyed sum that all benches run: `u64 → i64`, uniform keys, batches with their hashes.

#![allow(dead_code, reason = "each bench takes what it needs")]

use std::{env, hint::black_box, time::Duration};

use cutwater_keygroups::{Key, KeyGroupRange, KeyHash, MaxParallelism};
use cutwater_state::{
    AHEAD, BoxError, Handle, Keyed, KeyedStates, NewFile, SnapshotTask, Store, ValueState,
};
use rustix::time::{ClockId, clock_gettime};

pub(crate) const BATCH: usize = 1024;

pub(crate) type Total = Handle<ValueState<u64, i64>>;

/// A keyed sum over all key groups, with `keys` keys.
pub(crate) fn filled(keys: u64) -> (KeyedStates<u64>, Total) {
    let max = MaxParallelism::new(128).unwrap();
    let mut states = KeyedStates::new("sum", KeyGroupRange::new(0, 128), max);
    let total = states.value::<i64>("total").unwrap();
    for key in 0..keys {
        states[total].put(Keyed::new(&key), 0).unwrap();
    }
    (states, total)
}

/// A million records with uniform keys, and their hashes.
pub(crate) struct Records {
    keys: Vec<u64>,
    hashes: Vec<KeyHash>,
    next: usize,
}

impl Records {
    pub(crate) fn new(keys: u64) -> Self {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut key = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % keys
        };
        let keys: Vec<u64> = (0..1 << 20).map(|_| key()).collect();
        let hashes = keys.iter().map(Key::key_hash).collect();
        Self {
            keys,
            hashes,
            next: 0,
        }
    }

    pub(crate) fn batch(&mut self) -> (&[u64], &[KeyHash]) {
        let at = self.next;
        self.next = (at + BATCH) % self.keys.len();
        (&self.keys[at..at + BATCH], &self.hashes[at..at + BATCH])
    }
}

pub(crate) fn add(
    states: &mut KeyedStates<u64>,
    total: Total,
    (keys, hashes): (&[u64], &[KeyHash]),
) {
    for (keys, hashes) in keys.chunks(AHEAD).zip(hashes.chunks(AHEAD)) {
        states.prefetch(hashes);
        let total = &mut states[total];
        for (key, hash) in keys.iter().zip(hashes) {
            *total
                .or_insert_with(Keyed::with_hash(key, *hash), || 0)
                .unwrap() += 1;
        }
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("time is positive"),
        time.tv_nsec.try_into().expect("below a second"),
    )
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * part) as usize]
}

/// Numbers of keys to measure with; `CUTWATER_BENCH_KEYS=10000000` adds one.
pub(crate) fn sizes() -> Vec<u64> {
    let more = env::var("CUTWATER_BENCH_KEYS").ok();
    let more = more.map(|keys| keys.parse().expect("a number of keys"));
    [100_000, 1_000_000].into_iter().chain(more).collect()
}

/// Reads files and forgets them, but knows them when they come again.
pub(crate) struct Nowhere;

impl Store for Nowhere {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        for piece in file.content {
            black_box(piece?);
        }
        Ok(())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
}

/// Writes a snapshot to nowhere.
pub(crate) fn discard(task: SnapshotTask) {
    task.run(&mut Nowhere).unwrap();
}
