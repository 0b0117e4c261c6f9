//! What users write: operators that process one record at a time.
//!
//! An operator is made by an `open` closure, once per subtask and attempt, on the thread that will
//! run it. `open` declares the operator's states; processing uses the handles it got. Functions are
//! synchronous, and may block: a task has its own thread.

use cutwater_keygroups::{Key, KeyGroupRange};
use cutwater_state::{Handle, Keyed, KeyedStates, OperatorStates, Timers, Timestamp};

use crate::{BoxError, Result};

/// An operator with operator state and without keys.
pub trait Process: 'static {
    /// What comes in.
    type In;
    /// What goes out.
    type Out;

    /// Processes one record. An error fails the attempt.
    fn process(
        &mut self,
        record: Self::In,
        context: &mut Context<'_>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;
}

/// [`Process`] with a second input that every subtask gets all of.
pub trait BroadcastProcess: 'static {
    /// What comes in, each record in one subtask.
    type In;
    /// What comes in, each record in every subtask.
    type Broadcast;
    /// What goes out.
    type Out;

    /// Processes a record that only this subtask gets.
    fn process(
        &mut self,
        record: Self::In,
        context: &mut Context<'_>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// Processes a record that every subtask gets. What it writes to broadcast state must follow from
    /// the record alone, so that all subtasks agree.
    fn broadcast(
        &mut self,
        record: Self::Broadcast,
        context: &mut Context<'_>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;
}

/// An operator with keyed state.
pub trait KeyedProcess<K: Key>: 'static {
    /// What comes in.
    type In;
    /// What goes out.
    type Out;

    /// Processes one record of the key in `context`. An error fails the attempt.
    fn process(
        &mut self,
        record: Self::In,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// A processing-time timer of the key in `context`, set for `time`, is due. Only for operators that
    /// [declared timers](KeyedOpen::processing_timers); an error fails the attempt, as this default does.
    fn on_timer(
        &mut self,
        time: Timestamp,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError> {
        let _ = (context, out);
        Err(unexpected_timer(time))
    }
}

/// [`KeyedProcess`] with two inputs that share keys and states.
pub trait KeyedCoProcess<K: Key>: 'static {
    /// What comes in on the stream that was connected.
    type Left;
    /// What comes in on the stream it was connected to.
    type Right;
    /// What goes out.
    type Out;

    /// Processes one record of the left input.
    fn left(
        &mut self,
        record: Self::Left,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// Processes one record of the right input.
    fn right(
        &mut self,
        record: Self::Right,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// A processing-time timer of the key in `context`, set for `time`, is due. Only for operators that
    /// [declared timers](KeyedOpen::processing_timers); an error fails the attempt, as this default does.
    fn on_timer(
        &mut self,
        time: Timestamp,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError> {
        let _ = (context, out);
        Err(unexpected_timer(time))
    }
}

/// [`KeyedProcess`] with a second input that every subtask gets all of.
pub trait KeyedBroadcastProcess<K: Key>: 'static {
    /// What comes in, by key.
    type In;
    /// What comes in, each record in every subtask.
    type Broadcast;
    /// What goes out.
    type Out;

    /// Processes one record of the key in `context`.
    fn process(
        &mut self,
        record: Self::In,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// Processes a record that every subtask gets. It has no key. What it writes to broadcast state
    /// must follow from the record alone, so that all subtasks agree.
    fn broadcast(
        &mut self,
        record: Self::Broadcast,
        context: &mut Context<'_>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError>;

    /// A processing-time timer of the key in `context`, set for `time`, is due. Only for operators that
    /// [declared timers](KeyedOpen::processing_timers); an error fails the attempt, as this default does.
    fn on_timer(
        &mut self,
        time: Timestamp,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), BoxError> {
        let _ = (context, out);
        Err(unexpected_timer(time))
    }
}

pub(crate) fn unexpected_timer(time: Timestamp) -> BoxError {
    format!("the operator set a timer for {time} and has no `on_timer`; implement it").into()
}

/// Which subtask of an operator is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Subtask {
    /// Its number, from 0.
    pub index: u16,
    /// How many there are.
    pub parallelism: u16,
}

impl Subtask {
    /// Subtask `index` of `parallelism`.
    pub const fn new(index: u16, parallelism: u16) -> Self {
        Self { index, parallelism }
    }
}

/// Where an operator without keys declares its states.
#[derive(Debug)]
#[non_exhaustive]
pub struct Open<'a> {
    /// Which subtask is being opened.
    pub subtask: Subtask,
    /// Its list, union and broadcast states.
    pub operator: &'a mut OperatorStates,
}

/// Where an operator with keys declares its states.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeyedOpen<'a, K: Key> {
    /// Which subtask is being opened.
    pub subtask: Subtask,
    /// The key groups it owns.
    pub groups: KeyGroupRange,
    /// Its value, list and map states, one of each per key.
    pub keyed: &'a mut KeyedStates<K>,
    /// Its list, union and broadcast states, one of each per subtask.
    pub operator: &'a mut OperatorStates,
    /// The timers it asked for.
    pub(crate) timers: &'a mut Option<Handle<Timers<K>>>,
}

/// The state that holds an operator's processing-time timers. Part of its identity, so it never changes.
const PROCESSING_TIMERS: &str = "processing-time timers";

impl<K: Key> KeyedOpen<'_, K> {
    /// Declares timers by the clock, with those that were restored: whatever is
    /// [set](Timers::set) with the handle leads to a call of `on_timer` once the clock says so, or as
    /// soon as possible after a restore.
    ///
    /// # Errors
    ///
    /// As for [`KeyedStates::value`].
    pub fn processing_timers(&mut self) -> Result<Handle<Timers<K>>> {
        if let Some(timers) = *self.timers {
            return Ok(timers);
        }
        let timers = self.keyed.timers(PROCESSING_TIMERS)?;
        *self.timers = Some(timers);
        Ok(timers)
    }
}

/// What an operator without keys can reach while it processes a record.
#[derive(Debug)]
#[non_exhaustive]
pub struct Context<'a> {
    /// Which subtask this is.
    pub subtask: Subtask,
    /// Its operator states.
    pub operator: &'a mut OperatorStates,
}

/// What an operator with keys can reach while it processes a record.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeyedContext<'a, K: Key> {
    /// The record's key, with the hash computed at the key-by.
    pub key: Keyed<'a, K>,
    /// The keyed states; access takes the handle and [`key`](Self::key).
    pub keyed: &'a mut KeyedStates<K>,
    /// The operator states.
    pub operator: &'a mut OperatorStates,
    /// The time of the clock when this batch of records or timers was begun.
    pub now: Timestamp,
}
