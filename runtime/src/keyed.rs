//! Operators with keys at work: a batch's states are prefetched, then its records processed one by
//! one, each with its key as the current one.

use std::{cell::RefCell, rc::Rc};

use cutwater_keygroups::{Key, KeyHash};
use cutwater_state::KeyedStates;

use crate::{
    BoxError, Result,
    exchange::Keyed,
    function::{KeyedBroadcastProcess, KeyedCoProcess, KeyedContext, KeyedOpen, KeyedProcess},
    plain::{Operator, failed},
    stage::{AnyStage, Stage, TaskResult, Visit},
    task::TaskContext,
};

struct KeyedOperator<K: Key, P, Out> {
    operator: Operator<P, Out>,
    keyed: KeyedStates<K>,
    hashes: Vec<KeyHash>,
}

impl<K: Key, P, Out> KeyedOperator<K, P, Out> {
    fn open(
        uid: &str,
        context: &TaskContext,
        downstream: Box<dyn Stage<Out>>,
        open: impl FnOnce(&mut KeyedOpen<'_, K>) -> Result<P>,
    ) -> Result<Self> {
        let restored = &context.attempt.restored;
        let assignment = context.assignment(usize::from(context.parallelism));
        let groups = assignment.range(context.subtask);
        let groups = groups.expect("a contiguous assignment gives one range to every subtask");
        let mut keyed = restored.keyed_states(uid, groups, context.max_parallelism)?;
        let operator = Operator::open(uid, context, downstream, |subtask, operator| {
            open(&mut KeyedOpen {
                subtask,
                groups,
                keyed: &mut keyed,
                operator,
            })
        })?;
        restored.check_declared(uid, "keyed", &keyed.undeclared())?;
        Ok(Self {
            operator,
            keyed,
            hashes: Vec::new(),
        })
    }

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
        self.hashes.clear();
        self.hashes.extend(batch.iter().map(|record| record.hash));
        self.keyed.prefetch(&self.hashes);
        let operator = &mut self.operator;
        for Keyed { hash, key, record } in batch.drain(..) {
            let mut context = KeyedContext {
                key: cutwater_state::Keyed::with_hash(&key, hash),
                keyed: &mut self.keyed,
                operator: &mut operator.states,
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
        operator.emit()
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match visit {
            Visit::Snapshot(snapshots) => {
                let mut snapshot = self.operator.snapshot()?;
                snapshot.keyed = Some(self.keyed.snapshot(snapshots.checkpoint));
                snapshots.operators.push(snapshot);
            }
            Visit::Completed(checkpoint) => self.keyed.confirmed(*checkpoint),
            Visit::Aborted(checkpoint) => self.keyed.aborted(*checkpoint),
            Visit::Flush
            | Visit::Barrier(_)
            | Visit::Cancel(_)
            | Visit::EndOfData
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
    let operator = KeyedOperator::open(uid, context, downstream, open)?;
    Ok(vec![AnyStage::new::<Keyed<K, P::In>>(Single(operator))])
}

struct Single<K: Key, P: KeyedProcess<K>>(KeyedOperator<K, P, P::Out>);

impl<K: Key, P: KeyedProcess<K>> Stage<Keyed<K, P::In>> for Single<K, P> {
    fn process(&mut self, batch: &mut Vec<Keyed<K, P::In>>) -> TaskResult {
        self.0.run(batch, P::process)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.visit(visit)
    }
}

/// Two inputs share the operator; only the first passes visits on.
type Shared<K, P, Out> = Rc<RefCell<KeyedOperator<K, P, Out>>>;

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
    let operator = KeyedOperator::open(uid, context, downstream, open)?;
    let both = Rc::new(RefCell::new(operator));
    Ok(vec![
        AnyStage::new::<Keyed<K, P::Left>>(Left(Rc::clone(&both))),
        AnyStage::new::<Keyed<K, P::Right>>(Right(both)),
    ])
}

struct Left<K: Key, P: KeyedCoProcess<K>>(Shared<K, P, P::Out>);
struct Right<K: Key, P: KeyedCoProcess<K>>(Shared<K, P, P::Out>);

impl<K: Key, P: KeyedCoProcess<K>> Stage<Keyed<K, P::Left>> for Left<K, P> {
    fn process(&mut self, batch: &mut Vec<Keyed<K, P::Left>>) -> TaskResult {
        self.0.borrow_mut().run(batch, P::left)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.borrow_mut().visit(visit)
    }
}

impl<K: Key, P: KeyedCoProcess<K>> Stage<Keyed<K, P::Right>> for Right<K, P> {
    fn process(&mut self, batch: &mut Vec<Keyed<K, P::Right>>) -> TaskResult {
        self.0.borrow_mut().run(batch, P::right)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.borrow_mut().visit(visit)
    }
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
    let operator = KeyedOperator::open(uid, context, downstream, open)?;
    let both = Rc::new(RefCell::new(operator));
    Ok(vec![
        AnyStage::new::<Keyed<K, P::In>>(Main(Rc::clone(&both))),
        AnyStage::new::<P::Broadcast>(Side(both)),
    ])
}

struct Main<K: Key, P: KeyedBroadcastProcess<K>>(Shared<K, P, P::Out>);
struct Side<K: Key, P: KeyedBroadcastProcess<K>>(Shared<K, P, P::Out>);

impl<K: Key, P: KeyedBroadcastProcess<K>> Stage<Keyed<K, P::In>> for Main<K, P> {
    fn process(&mut self, batch: &mut Vec<Keyed<K, P::In>>) -> TaskResult {
        self.0.borrow_mut().run(batch, P::process)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.borrow_mut().visit(visit)
    }
}

impl<K: Key, P: KeyedBroadcastProcess<K>> Stage<P::Broadcast> for Side<K, P> {
    fn process(&mut self, batch: &mut Vec<P::Broadcast>) -> TaskResult {
        self.0.borrow_mut().operator.run(batch, P::broadcast)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.borrow_mut().visit(visit)
    }
}
