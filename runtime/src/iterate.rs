//! Loops: an operator whose output comes back to it.

use std::{cell::RefCell, rc::Rc};

use crate::{
    stage::{AnyStage, Stage, TaskResult, Visit},
    stream::{Record, Stream},
};

impl<T: Record> Stream<T> {
    /// Sends records round a loop. `body` gets what enters the loop and what comes back, and returns
    /// two streams: what goes round again, and what the whole loop yields. Both may be made of several
    /// operators, with keys and state; loops do not nest.
    ///
    /// Each record counts once, in the loop as elsewhere: what circles when a checkpoint is taken is
    /// logged by the head and circles again after a restore, ahead of new input (Carbone et al., 2015,
    /// Algorithm 2). After a rescale, records in the loop and on their way into it may overtake each
    /// other and enter at another subtask: a body that cares partitions them by key.
    ///
    /// The loop ends when its input has and nothing circles any more. It should not yield more for
    /// itself than it takes, on average: then what waits at its head is bounded.
    ///
    /// ```
    /// # use cutwater_runtime::{Collect, Job, Settings};
    /// # use cutwater_source::VecSource;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let job = Job::new("halves");
    /// let halved = Collect::new();
    /// job.source("numbers", VecSource::new(vec![vec![(40_u64, 0_u32), (7, 0)]]))
    ///     .iterate("halving", |numbers| {
    ///         let again = numbers
    ///             .filter(|(n, _)| n % 2 == 0)
    ///             .map(|(n, halvings)| (n / 2, halvings + 1));
    ///         (again, numbers.filter(|(n, _)| n % 2 == 1))
    ///     })
    ///     .sink("out", halved.clone());
    /// # let directory = tempfile::tempdir()?;
    /// # let blobs = cutwater_storage::LocalBlobs::open(directory.path())?;
    /// job.start(blobs, Settings::default())?.wait()?;
    ///
    /// let mut halved = halved.take();
    /// halved.sort();
    /// assert_eq!(halved, [(5, 3), (7, 0)]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn iterate<U: Record>(
        &self,
        uid: impl Into<String>,
        body: impl FnOnce(&Self) -> (Self, Stream<U>),
    ) -> Stream<U> {
        let head = self.head(uid.into(), |_, downstream| {
            let head = Rc::new(RefCell::new(downstream.typed::<T>()));
            let input = || AnyStage::new::<T>(Head(Rc::clone(&head)));
            Ok(vec![input(), input()])
        });
        let (again, out) = body(&head);
        again.feed_back(&head);
        out
    }
}

/// One input of a loop's head, which passes everything on.
struct Head<T>(Rc<RefCell<Box<dyn Stage<T>>>>);

impl<T> Stage<T> for Head<T> {
    fn process(&mut self, batch: &mut Vec<T>) -> TaskResult {
        self.0.borrow_mut().process(batch)
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        self.0.borrow_mut().visit(visit)
    }
}
