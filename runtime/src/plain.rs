//! Operators without keys at work: user function, operator state, and what comes after.

use std::{cell::RefCell, rc::Rc};

use cutwater_state::OperatorStates;

use crate::{
    BoxError, Error, ErrorKind, Result,
    function::{BroadcastProcess, Context, Open, Process, Subtask},
    stage::{AnyStage, OperatorSnapshot, Stage, TaskError, TaskResult, Visit},
    task::TaskContext,
};

/// A user function, the operator state it declared, and the stage it emits to.
pub(crate) struct Operator<P, Out> {
    pub(crate) uid: String,
    pub(crate) subtask: Subtask,
    pub(crate) function: P,
    pub(crate) states: OperatorStates,
    pub(crate) out: Vec<Out>,
    pub(crate) batch_size: usize,
    pub(crate) downstream: Box<dyn Stage<Out>>,
}

impl<P, Out> Operator<P, Out> {
    /// Opens `function` on restored state, and refuses state that it does not declare.
    pub(crate) fn open(
        uid: &str,
        context: &TaskContext,
        downstream: Box<dyn Stage<Out>>,
        open: impl FnOnce(Subtask, &mut OperatorStates) -> Result<P>,
    ) -> Result<Self> {
        let attempt = &context.attempt;
        let subtask = Subtask::new(context.subtask, context.parallelism);
        let mut states = attempt.restored.operator_states(uid, subtask)?;
        let function = open(subtask, &mut states)?;
        attempt
            .restored
            .check_declared(uid, "operator", &states.undeclared())?;
        Ok(Self {
            uid: uid.to_owned(),
            subtask,
            function,
            states,
            out: Vec::new(),
            batch_size: context.batch_size(),
            downstream,
        })
    }

    /// Passes on what has been emitted.
    pub(crate) fn emit(&mut self) -> TaskResult {
        self.downstream.process(&mut self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Passes it on before it becomes very much.
    pub(crate) fn emit_full(&mut self) -> TaskResult {
        if self.out.len() >= self.batch_size {
            self.emit()?;
        }
        Ok(())
    }

    pub(crate) fn snapshot(&mut self) -> TaskResult<OperatorSnapshot> {
        let operator = self
            .states
            .snapshot()
            .map_err(|error| failed(&self.uid, self.subtask, error.into()))?;
        Ok(OperatorSnapshot {
            uid: self.uid.clone(),
            operator,
            ..OperatorSnapshot::default()
        })
    }

    /// Processes records one by one with `process`.
    pub(crate) fn run<T>(
        &mut self,
        batch: &mut Vec<T>,
        mut process: impl FnMut(&mut P, T, &mut Context<'_>, &mut Vec<Out>) -> Result<(), BoxError>,
    ) -> TaskResult {
        for record in batch.drain(..) {
            let mut context = Context {
                subtask: self.subtask,
                operator: &mut self.states,
            };
            process(&mut self.function, record, &mut context, &mut self.out)
                .map_err(|error| failed(&self.uid, self.subtask, error))?;
            self.emit_full()?;
        }
        self.emit()
    }
}

pub(crate) fn failed(uid: &str, subtask: Subtask, error: BoxError) -> TaskError {
    let message = format!("operator `{uid}` failed in subtask {}", subtask.index);
    Error::new(ErrorKind::Failed, message)
        .with_source(error)
        .into()
}

/// What an operator's inputs share.
pub(crate) trait Visited {
    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult;
}

impl<P, Out> Visited for Operator<P, Out> {
    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        if let Visit::Snapshot(snapshots) = visit {
            let snapshot = self.snapshot()?;
            snapshots.operators.push(snapshot);
        }
        self.downstream.visit(visit)
    }
}

/// One input of an operator. A task visits its first input only, as all lead to the same operator.
pub(crate) struct Input<O, F> {
    operator: Rc<RefCell<O>>,
    process: F,
}

impl<O, F> Input<O, F> {
    pub(crate) fn new(operator: &Rc<RefCell<O>>, process: F) -> Self {
        Self {
            operator: Rc::clone(operator),
            process,
        }
    }
}

impl<T, O: Visited, F: Fn(&mut O, &mut Vec<T>) -> TaskResult> Stage<T> for Input<O, F> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        (self.process)(&mut self.operator.borrow_mut(), batch)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.operator.borrow_mut().visit(visit)
    }
}

/// Makes the stage of a [`Process`].
pub(crate) fn make<P: Process>(
    uid: &str,
    context: &TaskContext,
    open: impl Fn(&mut Open<'_>) -> Result<P>,
    downstream: Box<dyn Stage<P::Out>>,
) -> Result<Vec<AnyStage>>
where
    P::In: 'static,
    P::Out: 'static,
{
    let operator = Operator::open(uid, context, downstream, |subtask, operator| {
        open(&mut Open { subtask, operator })
    })?;
    let operator = Rc::new(RefCell::new(operator));
    let input = Input::new(&operator, |operator: &mut Operator<P, _>, batch: &mut _| {
        operator.run(batch, P::process)
    });
    Ok(vec![AnyStage::new::<P::In>(input)])
}

/// Makes the two stages of a [`BroadcastProcess`].
pub(crate) fn make_broadcast<P: BroadcastProcess>(
    uid: &str,
    context: &TaskContext,
    open: impl Fn(&mut Open<'_>) -> Result<P>,
    downstream: Box<dyn Stage<P::Out>>,
) -> Result<Vec<AnyStage>>
where
    P::In: 'static,
    P::Broadcast: 'static,
    P::Out: 'static,
{
    let operator = Operator::open(uid, context, downstream, |subtask, operator| {
        open(&mut Open { subtask, operator })
    })?;
    let operator = Rc::new(RefCell::new(operator));
    let main = Input::new(&operator, |operator: &mut Operator<P, _>, batch: &mut _| {
        operator.run(batch, P::process)
    });
    let side = Input::new(&operator, |operator: &mut Operator<P, _>, batch: &mut _| {
        operator.run(batch, P::broadcast)
    });
    Ok(vec![
        AnyStage::new::<P::In>(main),
        AnyStage::new::<P::Broadcast>(side),
    ])
}
