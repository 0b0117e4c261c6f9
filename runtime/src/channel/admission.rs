//! What may enter a loop, at the gate of its head.
//!
//! ```text
//!   outside ──────────▶ ┐
//!                       ├─ Gate ─▶ head ─▶ … ─▶ tail ─┐
//!   back ─(feedback)──▶ ┘ ◀───────────────────────────┘
//! ```
//!
//! A way back never holds its sender up: a loop of tasks that wait for each other would stand for ever.
//! It is bounded by what its head admits: while it is long, only what circles.
//!
//! A barrier has to get in all the same, or a loop that stays full would never see a checkpoint. So what
//! stands before one is admitted, and, while one is due, whatever it may be waiting behind.

use cutwater_barrier::align::Input;

use super::{Gate, Inner, Queue};

/// Which channels of a gate are ways back, if it is that of a loop's head.
pub(super) struct Admission {
    feedback: Vec<usize>,
    /// Also into a loop that is full.
    is_open: bool,
}

impl Admission {
    pub(super) fn new<C>(queues: &[Queue<C>]) -> Self {
        let is_feedback = |&channel: &usize| queues[channel].input == Input::Feedback;
        Self {
            feedback: (0..queues.len()).filter(is_feedback).collect(),
            is_open: false,
        }
    }
}

impl<C> Gate<C> {
    /// Whether new input may enter a loop that is full: as long as a barrier has to get in.
    pub(crate) fn admit(&self, admits: bool) {
        let mut inner = self.lock();
        inner.admission.is_open = admits;
        let queues = inner.queues.iter_mut().filter(|_| admits);
        let waiting: Vec<_> = queues.filter_map(|queue| queue.waiting.take()).collect();
        drop(inner); // never two gates at once
        waiting.iter().for_each(|sender| sender.room());
    }

    /// Whether what circles is all that may go on.
    pub(super) fn is_loop_full(&self, inner: &Inner<C>) -> bool {
        let is_long = |&channel: &usize| {
            let queue = &inner.queues[channel];
            self.is_over(queue.batches, queue.records)
        };
        let Admission { feedback, is_open } = &inner.admission;
        !is_open && feedback.iter().any(is_long)
    }
}

impl<C> Queue<C> {
    /// Whether it may be read although the loop is full.
    pub(super) fn is_admitted(&self) -> bool {
        self.input == Input::Feedback || self.has_mark()
    }

    /// Whether something other than records waits in it.
    fn has_mark(&self) -> bool {
        self.items.len() > self.batches
    }
}
