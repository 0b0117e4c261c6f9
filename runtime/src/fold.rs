//! The keyed operator that most jobs begin with: one value per key, updated by each record.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use cutwater_keygroups::Key;
use cutwater_state::{Data, Handle, ValueState};

use crate::{
    KeyedStream, Record, Stream,
    exchange::Keyed,
    function,
    keyed::KeyedOperator,
    plain::{Input, failed},
    stage::{AnyStage, TaskResult},
};

impl<K: Key, T: Record> KeyedStream<K, T> {
    /// Folds the records of each key into one value and emits what `fold` returns for each record.
    ///
    /// A key's value starts as `V::default()`. It is the keyed state `value` of the operator, so
    /// `V` is part of the checkpoint.
    pub fn fold<V, U>(
        &self,
        uid: impl Into<String>,
        fold: impl Fn(&mut V, T) -> U + Send + Sync + 'static,
    ) -> Stream<U>
    where
        V: Data + Default,
        U: Record,
    {
        let fold = Arc::new(fold);
        self.operator(uid, "fold", move |uid, context, downstream| {
            let operator = KeyedOperator::open(
                uid,
                context,
                downstream.typed(),
                |open| {
                    Ok(Fold {
                        value: open.keyed.value("value")?,
                        fold: Arc::clone(&fold),
                    })
                },
                |_, time, _, _| Err(function::unexpected_timer(time)),
            )?;
            let operator = Rc::new(RefCell::new(operator));
            Ok(vec![AnyStage::new::<Keyed<K, T>>(Input::new(
                &operator, run,
            ))])
        })
    }
}

struct Fold<K, V: Data, F> {
    value: Handle<ValueState<K, V>>,
    fold: Arc<F>,
}

/// Finds the state once for several records, which is a good part of the work for each.
fn run<K: Key, T, V: Data + Default, U>(
    operator: &mut KeyedOperator<K, Fold<K, V, impl Fn(&mut V, T) -> U>, U>,
    batch: &mut Vec<Keyed<K, T>>,
) -> TaskResult {
    operator.run_ahead(batch, |operator, states, _, records| {
        let Fold { value, fold } = &operator.function;
        let values = &mut states[*value];
        for Keyed { hash, key, record } in records {
            let keyed = cutwater_state::Keyed::with_hash(&key, hash);
            let value = values.or_insert_with(keyed, V::default);
            let value =
                value.map_err(|error| failed(&operator.uid, operator.subtask, error.into()))?;
            operator.out.push(fold(value, record));
        }
        Ok(())
    })
}
