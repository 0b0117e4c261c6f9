//! Who provides a block of a snapshot: what the task and the snapshot's writer agree on.
//!
//! ```text
//! free ── writer claims ──▶ reading ── writer is done ──▶ taken
//!  │                           │                            ▲
//!  │ task gives a copy         │ task gives the block       │ writer takes it
//!  │ and writes to the block   │ and writes to a copy; or   │
//!  │                           │ writer gives a copy        │
//!  └────────▶ given ◀──────────┘ ───────────────────────────┘
//! ```
//!
//! A block that the snapshot does not want goes from free to taken when the task first writes to it.
//!
//! Nobody waits: one compare-exchange decides who was first, and either outcome leaves both with a
//! block of their own. The task writes to a block only after it has seen `taken` here or has given.

use std::{marker::PhantomData, ptr, sync::atomic::Ordering};

use super::sync::{Arc, AtomicPtr};

/// One block of one snapshot.
#[derive(Debug)]
pub(super) struct Slot<B> {
    /// Null when free, or one of two addresses at which no block can be, or what [`Arc::into_raw`]
    /// made of the block that was given.
    state: AtomicPtr<B>,
    given: PhantomData<Arc<B>>,
}

/// What the task finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Free,
    Reading,
    /// Given or taken: the task owes nothing.
    Settled,
}

/// What the writer gets.
#[derive(Debug)]
pub(super) enum Claim<B> {
    /// The task's block as it stands there, until [`Slot::done`].
    InPlace,
    Given(Arc<B>),
    /// It was here before.
    Taken,
}

impl<B> Slot<B> {
    pub(super) fn new() -> Self {
        const { assert!(align_of::<B>() > 2, "the two addresses are no blocks'") };
        Self {
            state: AtomicPtr::new(ptr::null_mut()),
            given: PhantomData,
        }
    }

    fn reading() -> *mut B {
        ptr::without_provenance_mut(1)
    }

    fn taken() -> *mut B {
        ptr::without_provenance_mut(2)
    }

    /// For the task. After `Settled` the block is its own to write to.
    pub(super) fn state(&self) -> State {
        // Acquire: what the writer has read, it has read before the task writes.
        let state = self.state.load(Ordering::Acquire);
        if state.is_null() {
            State::Free
        } else if state == Self::reading() {
            State::Reading
        } else {
            State::Settled
        }
    }

    /// Gives `block` to the writer, unless the state is no longer `expected`.
    pub(super) fn give(&self, expected: State, block: Arc<B>) -> bool {
        let expected = match expected {
            State::Free => ptr::null_mut(),
            State::Reading => Self::reading(),
            State::Settled => return false,
        };
        let given = Arc::into_raw(block).cast_mut();
        // Release: the writer sees the entries of a copy. Acquire: as in `state`.
        let exchanged =
            self.state
                .compare_exchange(expected, given, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_err() {
            // SAFETY: it came from `into_raw` just now, and nobody else has seen it.
            drop(unsafe { Arc::from_raw(given) });
        }
        exchanged.is_ok()
    }

    /// For the task, when the snapshot does not want the block: nothing is owed, unless the writer is
    /// reading it by now.
    pub(super) fn pass_over(&self) -> bool {
        // Release: who finds it passed over, finds the task's earlier writes. Acquire: as in `state`.
        let exchanged = self.state.compare_exchange(
            ptr::null_mut(),
            Self::taken(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        exchanged.is_ok()
    }

    /// For the writer: whether the task has given the block.
    pub(super) fn is_given(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        !state.is_null() && state != Self::reading() && state != Self::taken()
    }

    /// For the writer, of which there is one: whether it may read the block in place, until
    /// [`done`](Self::done) or `give`. Otherwise nothing has changed.
    pub(super) fn claim_in_place(&self) -> bool {
        // Release: what the writer did before, such as finding the block, was before the task's answer.
        let exchanged = self.state.compare_exchange(
            ptr::null_mut(),
            Self::reading(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        exchanged.is_ok()
    }

    /// For the writer: the block in place, or what was given.
    pub(super) fn claim(&self) -> Claim<B> {
        if self.claim_in_place() {
            Claim::InPlace
        } else {
            self.done().map_or(Claim::Taken, Claim::Given)
        }
    }

    /// For the writer: it wants nothing more from here. Returns what the task has given, if it has.
    pub(super) fn done(&self) -> Option<Arc<B>> {
        // Release: what was read, was read before the task writes.
        let state = self.state.swap(Self::taken(), Ordering::AcqRel);
        let given = !state.is_null() && state != Self::reading() && state != Self::taken();
        // SAFETY: it came from `into_raw` in `give`, and the swap has taken it out, so once.
        given.then(|| unsafe { Arc::from_raw(state) })
    }
}

impl<B> Drop for Slot<B> {
    fn drop(&mut self) {
        // Relaxed: whoever drops this has synchronised with all others.
        if self.state.load(Ordering::Relaxed) != Self::taken() {
            drop(self.done());
        }
    }
}
