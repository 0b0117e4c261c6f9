//! The keyed operator that most jobs begin with: one value per key, updated by each record.

use std::{marker::PhantomData, sync::Arc};

use cutwater_keygroups::Key;
use cutwater_state::{Data, Handle, ValueState};

use crate::{BoxError, KeyedContext, KeyedProcess, KeyedStream, Record, Stream};

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
        self.process(uid, move |open| {
            Ok(Fold {
                value: open.keyed.value("value")?,
                fold: Arc::clone(&fold),
                types: PhantomData,
            })
        })
    }
}

struct Fold<K, T, V: Data, U, F> {
    value: Handle<ValueState<K, V>>,
    fold: Arc<F>,
    types: PhantomData<fn(T) -> U>,
}

impl<K, T, V, U, F> KeyedProcess<K> for Fold<K, T, V, U, F>
where
    K: Key,
    T: 'static,
    V: Data + Default,
    U: 'static,
    F: Fn(&mut V, T) -> U + 'static,
{
    type In = T;
    type Out = U;

    fn process(
        &mut self,
        record: T,
        context: &mut KeyedContext<'_, K>,
        out: &mut Vec<U>,
    ) -> Result<(), BoxError> {
        let value = context.keyed[self.value].or_insert_with(context.key, V::default)?;
        out.push((self.fold)(value, record));
        Ok(())
    }
}
