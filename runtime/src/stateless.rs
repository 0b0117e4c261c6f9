//! Operators without state: map, filter, flat-map.

use std::sync::Arc;

use crate::{
    BoxError, Error, ErrorKind,
    stage::{Stage, TaskResult, Visit},
};

/// One record to at most one.
pub(crate) struct FilterMap<F, U> {
    function: Arc<F>,
    out: Vec<U>,
    downstream: Box<dyn Stage<U>>,
}

impl<F, U> FilterMap<F, U> {
    pub(crate) fn new(function: Arc<F>, downstream: Box<dyn Stage<U>>) -> Self {
        Self {
            function,
            out: Vec::new(),
            downstream,
        }
    }
}

impl<T, U, F> Stage<T> for FilterMap<F, U>
where
    F: Fn(T) -> Result<Option<U>, BoxError>,
{
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        for record in batch.drain(..) {
            let mapped = (self.function)(record).map_err(|error| {
                Error::new(ErrorKind::Failed, "a map function failed").with_source(error)
            })?;
            self.out.extend(mapped);
        }
        self.downstream.process(&mut self.out)?;
        self.out.clear();
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.downstream.visit(visit)
    }
}

/// One record to any number.
pub(crate) struct FlatMap<F, U> {
    function: Arc<F>,
    out: Vec<U>,
    batch_size: usize,
    downstream: Box<dyn Stage<U>>,
}

impl<F, U> FlatMap<F, U> {
    pub(crate) fn new(function: Arc<F>, batch_size: usize, downstream: Box<dyn Stage<U>>) -> Self {
        Self {
            function,
            out: Vec::new(),
            batch_size,
            downstream,
        }
    }
}

impl<T, U, F> Stage<T> for FlatMap<F, U>
where
    F: Fn(T, &mut Vec<U>) -> Result<(), BoxError>,
{
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        for record in batch.drain(..) {
            (self.function)(record, &mut self.out).map_err(|error| {
                Error::new(ErrorKind::Failed, "a flat-map function failed").with_source(error)
            })?;
            // One record may become very many.
            if self.out.len() >= self.batch_size {
                self.downstream.process(&mut self.out)?;
                self.out.clear();
            }
        }
        self.downstream.process(&mut self.out)?;
        self.out.clear();
        Ok(())
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.downstream.visit(visit)
    }
}
