//! One operator in a unit test: no job, no threads, no store.
//!
//! ```
//! use cutwater_runtime::{BoxError, KeyedContext, KeyedOpen, KeyedProcess, Result, harness::Keyed};
//! use cutwater_state::{Handle, ValueState};
//!
//! struct Count(Handle<ValueState<String, u64>>);
//!
//! impl Count {
//!     fn open(open: &mut KeyedOpen<'_, String>) -> Result<Self> {
//!         Ok(Self(open.keyed.value("count")?))
//!     }
//! }
//!
//! impl KeyedProcess<String> for Count {
//!     type In = ();
//!     type Out = u64;
//!
//!     fn process(
//!         &mut self,
//!         (): (),
//!         context: &mut KeyedContext<'_, String>,
//!         out: &mut Vec<u64>,
//!     ) -> Result<(), BoxError> {
//!         context.keyed.update(self.0, context.key, |count| {
//!             let count = count.get_or_insert(0);
//!             *count += 1;
//!             out.push(*count);
//!         })?;
//!         Ok(())
//!     }
//! }
//!
//! let mut count = Keyed::open(Count::open)?;
//! assert_eq!(count.process(&"alice".to_owned(), ())?, [1]);
//! assert_eq!(count.process(&"alice".to_owned(), ())?, [2]);
//!
//! let snapshot = count.snapshot()?;
//! let mut restored = Keyed::restore(&[snapshot], Count::open)?;
//! assert_eq!(restored.process(&"alice".to_owned(), ())?, [3]);
//! # Ok::<(), BoxError>(())
//! ```

use std::collections::BTreeMap;

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{Handle, KeyedStates, OperatorStates, Restored, Timer, Timers, Timestamp};

use crate::{
    BoxError, Context, KeyedContext, KeyedOpen, KeyedProcess, Open, Process, Result, Subtask,
};

const UID: &str = "operator under test";

/// The state of an operator as a checkpoint would hold it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    manifest: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
    operator: Vec<u8>,
}

/// An operator with keys, its only subtask.
#[derive(Debug)]
pub struct Keyed<K: Key, P> {
    operator: P,
    keyed: KeyedStates<K>,
    states: OperatorStates,
    timers: Option<Handle<Timers<K>>>,
    now: Timestamp,
    snapshots: u64,
}

impl<K: Key, P: KeyedProcess<K>> Keyed<K, P> {
    /// Opens the operator without any state.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn open(open: impl FnOnce(&mut KeyedOpen<'_, K>) -> Result<P>) -> Result<Self> {
        Self::restore(&[], open)
    }

    /// Opens the operator with the states of all old subtasks, which it takes over whole.
    ///
    /// # Errors
    ///
    /// Those of `open`, among them states that do not fit what was saved.
    pub fn restore(
        old: &[Snapshot],
        open: impl FnOnce(&mut KeyedOpen<'_, K>) -> Result<P>,
    ) -> Result<Self> {
        let max_parallelism = MaxParallelism::default_for(1);
        let groups = KeyGroupRange::all(max_parallelism);
        let handles = old
            .iter()
            .map(|old| Restored::new(old.manifest.clone(), old.files.clone()));
        let mut keyed = KeyedStates::restore(UID, groups, max_parallelism, handles)?;
        let now = Timestamp::from_millis(0);
        keyed.set_time(now);
        let mut states = operator_states(old)?;
        let mut timers = None;
        let operator = open(&mut KeyedOpen {
            subtask: Subtask::new(0, 1),
            groups,
            keyed: &mut keyed,
            operator: &mut states,
            timers: &mut timers,
        })?;
        Ok(Self {
            operator,
            keyed,
            states,
            timers,
            now,
            snapshots: 0,
        })
    }

    /// What the operator emits for one record of `key`.
    ///
    /// # Errors
    ///
    /// The operator's own.
    pub fn process(&mut self, key: &K, record: P::In) -> Result<Vec<P::Out>, BoxError> {
        let mut out = Vec::new();
        let mut context = KeyedContext {
            key: cutwater_state::Keyed::new(key),
            keyed: &mut self.keyed,
            operator: &mut self.states,
            now: self.now,
        };
        self.operator.process(record, &mut context, &mut out)?;
        Ok(out)
    }

    /// Sets the clock, which starts at zero, to `now`. Returns what the operator emits for timers that
    /// are due then.
    ///
    /// # Errors
    ///
    /// The operator's own.
    pub fn advance(&mut self, now: Timestamp) -> Result<Vec<P::Out>, BoxError> {
        self.now = now;
        self.keyed.set_time(now);
        let mut out = Vec::new();
        let Some(timers) = self.timers else {
            return Ok(out);
        };
        while let Some(Timer { time, key, .. }) = self.keyed[timers].pop_due(now)? {
            let mut context = KeyedContext {
                key: cutwater_state::Keyed::new(&key),
                keyed: &mut self.keyed,
                operator: &mut self.states,
                now,
            };
            self.operator.on_timer(time, &mut context, &mut out)?;
        }
        Ok(out)
    }

    /// The operator's state as of now.
    ///
    /// # Errors
    ///
    /// If a value refuses to be serialised.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.snapshots += 1;
        let task = self.keyed.snapshot(CheckpointId::new(self.snapshots));
        let mut files = BTreeMap::new();
        let written = task.run(&mut files)?;
        Ok(Snapshot {
            manifest: written.manifest,
            files,
            operator: self.states.snapshot()?,
        })
    }
}

/// An operator without keys, its only subtask.
#[derive(Debug)]
pub struct Plain<P> {
    operator: P,
    states: OperatorStates,
}

impl<P: Process> Plain<P> {
    /// Opens the operator without any state.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn open(open: impl FnOnce(&mut Open<'_>) -> Result<P>) -> Result<Self> {
        Self::restore(&[], open)
    }

    /// Opens the operator with the states of all old subtasks.
    ///
    /// # Errors
    ///
    /// Those of `open`, among them states that do not fit what was saved.
    pub fn restore(
        old: &[Snapshot],
        open: impl FnOnce(&mut Open<'_>) -> Result<P>,
    ) -> Result<Self> {
        let mut states = operator_states(old)?;
        let operator = open(&mut Open {
            subtask: Subtask::new(0, 1),
            operator: &mut states,
        })?;
        Ok(Self { operator, states })
    }

    /// What the operator emits for one record.
    ///
    /// # Errors
    ///
    /// The operator's own.
    pub fn process(&mut self, record: P::In) -> Result<Vec<P::Out>, BoxError> {
        let mut out = Vec::new();
        let mut context = Context {
            subtask: Subtask::new(0, 1),
            operator: &mut self.states,
        };
        self.operator.process(record, &mut context, &mut out)?;
        Ok(out)
    }

    /// The operator's state as of now.
    ///
    /// # Errors
    ///
    /// If a value refuses to be serialised.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            manifest: Vec::new(),
            files: BTreeMap::new(),
            operator: self.states.snapshot()?,
        })
    }
}

fn operator_states(old: &[Snapshot]) -> Result<OperatorStates> {
    let old = old.iter().map(|old| &old.operator);
    Ok(OperatorStates::restore(UID, 0, 1, old)?)
}
