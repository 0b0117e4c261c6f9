//! What users write: operators that process one record at a time.
//!
//! An operator is made by an `open` closure, once per subtask and attempt, on the thread that will
//! run it. `open` declares the operator's states; processing uses the handles it got. Functions are
//! synchronous, and may block: a task has its own thread.

use cutwater_keygroups::{Key, KeyGroupRange};
use cutwater_state::{Keyed, KeyedStates, OperatorStates};

use crate::BoxError;

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
}
