//! Operators with keys at work: a batch's states are prefetched, then its records processed one by
//! one, each with its key as the current one. Timers that are due come between two batches.

use std::{cell::RefCell, iter::Take, rc::Rc, vec::Drain};

use cutwater_keygroups::{Key, KeyHash};
use cutwater_state::{AHEAD, Handle, KeyedStates, SnapshotTask, Timer, Timers, Timestamp};

use crate::{
    BoxError, Result,
    alarm::Alarm,
    clock::Clock,
    exchange::Keyed,
    function::{KeyedBroadcastProcess, KeyedCoProcess, KeyedContext, KeyedOpen, KeyedProcess},
    plain::{Input, Operator, Visited, failed},
    stage::{AnyStage, Snapshots, Stage, TaskResult, Visit},
    task::TaskContext,
};

pub(crate) struct KeyedOperator<K: Key, P, Out> {
    operator: Operator<P, Out>,
    keyed: KeyedStates<K>,
    hashes: Vec<KeyHash>,
    timers: Option<Handle<Timers<K>>>,
    on_timer: OnTimer<K, P, Out>,
    clock: Clock,
    alarm: Alarm,
}

/// How a user function is told of a timer.
type OnTimer<K, P, Out> =
    fn(&mut P, Timestamp, &mut KeyedContext<'_, K>, &mut Vec<Out>) -> Result<(), BoxError>;

/// Records whose states have been fetched.
pub(crate) type Ahead<'a, 'b, K, T> = Take<&'a mut Drain<'b, Keyed<K, T>>>;

impl<K: Key, P, Out> KeyedOperator<K, P, Out> {
    pub(crate) fn open(
        uid: &str,
        context: &TaskContext,
        downstream: Box<dyn Stage<Out>>,
        open: impl FnOnce(&mut KeyedOpen<'_, K>) -> Result<P>,
        on_timer: OnTimer<K, P, Out>,
    ) -> Result<Self> {
        let restored = &context.attempt.restored;
        let assignment = context.assignment(usize::from(context.parallelism));
        let groups = assignment.range(context.subtask);
        let groups = groups.expect("a contiguous assignment gives one range to every subtask");
        let mut keyed = restored.keyed_states(uid, groups, context.max_parallelism)?;
        let clock = context.attempt.clock;
        keyed.set_time(clock.timestamp(clock.now()));
        let mut timers = None;
        let operator = Operator::open(uid, context, downstream, |subtask, operator| {
            open(&mut KeyedOpen {
                subtask,
                groups,
                keyed: &mut keyed,
                operator,
                timers: &mut timers,
            })
        })?;
        restored.check_declared(uid, "keyed", &keyed.undeclared())?;
        let mut opened = Self {
            operator,
            keyed,
            hashes: Vec::new(),
            timers,
            on_timer,
            clock,
            alarm: context.alarm.clone(),
        };
        opened.set_alarm();
        Ok(opened)
    }

    /// Asks to be called when the next timer is due.
    fn set_alarm(&mut self) {
        if let Some(timers) = self.timers
            && let Some(next) = self.keyed[timers].next_due()
        {
            self.alarm.set(next);
        }
    }

    /// Calls timers that are due at `now`, as many as are a batch.
    fn fire(&mut self, now: Timestamp) -> TaskResult {
        let Some(timers) = self.timers else {
            return Ok(());
        };
        self.keyed.set_time(now);
        let operator = &mut self.operator;
        for _ in 0..operator.batch_size {
            let due = self.keyed[timers].pop_due(now);
            let due = due.map_err(|error| failed(&operator.uid, operator.subtask, error.into()))?;
            let Some(Timer { time, key, .. }) = due else {
                break;
            };
            let mut context = KeyedContext {
                key: cutwater_state::Keyed::new(&key),
                keyed: &mut self.keyed,
                operator: &mut operator.states,
                now,
            };
            (self.on_timer)(
                &mut operator.function,
                time,
                &mut context,
                &mut operator.out,
            )
            .map_err(|error| failed(&operator.uid, operator.subtask, error))?;
            operator.emit_full()?;
        }
        operator.emit()?;
        self.set_alarm();
        Ok(())
    }

    /// Processes records one by one with `process`.
    fn run<T>(
        &mut self,
        batch: &mut Vec<Keyed<K, T>>,
        mut process: impl FnMut(
            &mut P,
            T,
            &mut KeyedContext<'_, K>,
            &mut Vec<Out>,
        ) -> Result<(), BoxError>,
    ) -> TaskResult {
        self.run_ahead(batch, |operator, keyed, now, records| {
            for Keyed { hash, key, record } in records {
                let mut context = KeyedContext {
                    key: cutwater_state::Keyed::with_hash(&key, hash),
                    keyed,
                    operator: &mut operator.states,
                    now,
                };
                process(
                    &mut operator.function,
                    record,
                    &mut context,
                    &mut operator.out,
                )
                .map_err(|error| failed(&operator.uid, operator.subtask, error))?;
                operator.emit_full()?;
            }
            Ok(())
        })
    }

    /// Processes records a few at a time with `process`, all of them, and emits at the end what `process` has not.
    pub(crate) fn run_ahead<T>(
        &mut self,
        batch: &mut Vec<Keyed<K, T>>,
        mut process: impl FnMut(
            &mut Operator<P, Out>,
            &mut KeyedStates<K>,
            Timestamp,
            Ahead<'_, '_, K, T>,
        ) -> TaskResult,
    ) -> TaskResult {
        let keys = batch
            .iter()
            .map(|record| cutwater_state::Keyed::with_hash(&record.key, record.hash));
        let announced = self.keyed.announce(keys);
        let operator = &mut self.operator;
        announced.map_err(|error| failed(&operator.uid, operator.subtask, error.into()))?;
        let now = self.clock.timestamp(self.clock.now());
        self.keyed.set_time(now);
        let mut records = batch.drain(..);
        while !records.as_slice().is_empty() {
            let ahead = records.as_slice().iter().take(AHEAD);
            self.hashes.clear();
            self.hashes.extend(ahead.map(|record| record.hash));
            self.keyed.prefetch(&self.hashes);
            let ahead = records.by_ref().take(AHEAD);
            process(operator, &mut self.keyed, now, ahead)?;
        }
        drop(records);
        operator.emit()?;
        self.set_alarm();
        Ok(())
    }

    fn snapshot(&mut self, snapshots: &Snapshots) -> SnapshotTask {
        if let Some(completed) = snapshots.completed {
            self.keyed.confirmed(completed);
        }
        if snapshots.is_whole {
            self.keyed.snapshot_canonical(snapshots.checkpoint)
        } else {
            self.keyed.snapshot(snapshots.checkpoint)
        }
    }
}

impl<K: Key, P, Out> Visited for KeyedOperator<K, P, Out> {
    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match visit {
            Visit::Snapshot(snapshots) => {
                let mut snapshot = self.operator.snapshot()?;
                snapshot.keyed = Some(self.snapshot(snapshots));
                snapshots.operators.push(snapshot);
            }
            Visit::Timers(now) => self.fire(*now)?,
            Visit::Completed(checkpoint) => self.keyed.confirmed(*checkpoint),
            Visit::Aborted(checkpoint) => self.keyed.aborted(*checkpoint),
            Visit::Flush
            | Visit::Barrier(_)
            | Visit::Cancel(_)
            | Visit::EndOfData
            | Visit::Probe(_)
            | Visit::Released(_) => {}
        }
        self.operator.downstream.visit(visit)
    }
}

/// Makes the stage of a [`KeyedProcess`].
pub(crate) fn make<K: Key, P: KeyedProcess<K>>(
    uid: &str,
    context: &TaskContext,
    open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P>,
    downstream: Box<dyn Stage<P::Out>>,
) -> Result<Vec<AnyStage>>
where
    P::In: 'static,
    P::Out: 'static,
{
    let operator = KeyedOperator::open(uid, context, downstream, open, P::on_timer)?;
    let operator = Rc::new(RefCell::new(operator));
    let input = Input::new(
        &operator,
        |operator: &mut KeyedOperator<K, P, _>, batch: &mut _| operator.run(batch, P::process),
    );
    Ok(vec![AnyStage::new::<Keyed<K, P::In>>(input)])
}

/// Makes the two stages of a [`KeyedCoProcess`].
pub(crate) fn make_connected<K: Key, P: KeyedCoProcess<K>>(
    uid: &str,
    context: &TaskContext,
    open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P>,
    downstream: Box<dyn Stage<P::Out>>,
) -> Result<Vec<AnyStage>>
where
    P::Left: 'static,
    P::Right: 'static,
    P::Out: 'static,
{
    let operator = KeyedOperator::open(uid, context, downstream, open, P::on_timer)?;
    let operator = Rc::new(RefCell::new(operator));
    let left = Input::new(
        &operator,
        |operator: &mut KeyedOperator<K, P, _>, batch: &mut _| operator.run(batch, P::left),
    );
    let right = Input::new(
        &operator,
        |operator: &mut KeyedOperator<K, P, _>, batch: &mut _| operator.run(batch, P::right),
    );
    Ok(vec![
        AnyStage::new::<Keyed<K, P::Left>>(left),
        AnyStage::new::<Keyed<K, P::Right>>(right),
    ])
}

/// Makes the two stages of a [`KeyedBroadcastProcess`].
pub(crate) fn make_broadcast<K: Key, P: KeyedBroadcastProcess<K>>(
    uid: &str,
    context: &TaskContext,
    open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P>,
    downstream: Box<dyn Stage<P::Out>>,
) -> Result<Vec<AnyStage>>
where
    P::In: 'static,
    P::Broadcast: 'static,
    P::Out: 'static,
{
    let operator = KeyedOperator::open(uid, context, downstream, open, P::on_timer)?;
    let operator = Rc::new(RefCell::new(operator));
    let main = Input::new(
        &operator,
        |operator: &mut KeyedOperator<K, P, _>, batch: &mut _| operator.run(batch, P::process),
    );
    let side = Input::new(
        &operator,
        |operator: &mut KeyedOperator<K, P, _>, batch: &mut _| {
            operator.operator.run(batch, P::broadcast)
        },
    );
    Ok(vec![
        AnyStage::new::<Keyed<K, P::In>>(main),
        AnyStage::new::<P::Broadcast>(side),
    ])
}
