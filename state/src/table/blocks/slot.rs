//! Who provides a block of a snapshot: what the task and the snapshot's writer agree on.
//!
//! ```text
//!      writing ◀── task changes a value ──┐
//!         └──── and has kept the old ──▶ kept
//!                                         │
//! free ───────── writer claims ───────────┴─▶ reading ── writer is done ──▶ taken
//!  │                                             │                            ▲
//!  │ task gives a copy,                          │ task gives the block       │ writer takes it
//!  │ also in place of kept values,               │ and writes to a copy; or   │
//!  │ and writes to the block                     │ writer provides a copy     │
//!  └──────────────────▶ given ◀──────────────────┘ ───────────────────────────┘
//! ```
//!
//! From free the task gets to writing as from kept. A block that the snapshot does not want goes from free to taken
//! when the task first writes to it.
//!
//! One compare-exchange decides who was first. The task never waits: either outcome leaves it with a block of its own, to
//! which it writes after it has seen `taken` here or has given, or with the right to change one value. The writer
//! waits only for `writing`, in which the task swaps one value for another.

use std::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::Ordering,
};

use super::sync::{Arc, AtomicPtr, yield_now};

/// One block `B` of one snapshot, of which values may be kept in a `V`.
#[derive(Debug)]
pub(super) struct Slot<B, V> {
    /// Null when free; or an address which tells the state, as below; or what [`Arc::into_raw`] made of the block that
    /// was given, which is a multiple of four.
    state: AtomicPtr<B>,
    given: PhantomData<Arc<B>>,
    kept: PhantomData<fn() -> V>,
}

/// An address with this bit is one more than that of what is kept.
const KEPT: usize = 1;
const READING: usize = 2;
const TAKEN: usize = 6;
const WRITING: usize = 10;

/// What the task finds.
#[derive(Debug)]
pub(super) enum State<V> {
    Free,
    /// Values have been changed, and are kept here as they were.
    Kept(NonNull<V>),
    Reading,
    /// Given or taken: the task owes nothing.
    Settled,
}

impl<V> Clone for State<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for State<V> {}

/// What the writer gets.
#[derive(Debug)]
pub(super) enum Claim<B, V> {
    /// The task's block as it stands there, until [`Slot::done`], but for what has been kept.
    InPlace(Option<NonNull<V>>),
    Given(Arc<B>),
    /// It was here before.
    Taken,
}

impl<B, V> Slot<B, V> {
    const ALIGNED: () = assert!(align_of::<B>() >= 4 && align_of::<V>() >= 4);

    pub(super) fn new() -> Self {
        const { Self::ALIGNED };
        Self {
            state: AtomicPtr::new(ptr::null_mut()),
            given: PhantomData,
            kept: PhantomData,
        }
    }

    /// For the task. After `Settled` the block is its own to write to.
    pub(super) fn state(&self) -> State<V> {
        // Acquire: what the writer has read, it has read before the task writes.
        let state = self.state.load(Ordering::Acquire);
        match state.addr() {
            0 => State::Free,
            READING => State::Reading,
            _ => kept_in(state).map_or(State::Settled, State::Kept),
        }
    }

    /// Gives `block` to the writer, unless the state is no longer `expected`.
    pub(super) fn give(&self, expected: State<V>, block: Arc<B>) -> bool {
        let Some(expected) = address(expected) else {
            return false;
        };
        let given = Arc::into_raw(block).cast_mut();
        // Release: the writer sees the entries of a copy. Acquire: as in `state`.
        let is_given = self.exchange(expected, given);
        if !is_given {
            // SAFETY: it came from `into_raw` just now, and nobody else has seen it.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_given
    }

    /// For the task, when the snapshot does not want the block: nothing is owed, unless the writer is
    /// reading it by now.
    pub(super) fn pass_over(&self) -> bool {
        // Release: who finds it passed over, finds the task's earlier writes. Acquire: as in `state`.
        self.exchange(ptr::null_mut(), ptr::without_provenance_mut(TAKEN))
    }

    /// For the task: whether it may change a value now, and must then call [`end`](Self::end). Not if the state is no
    /// longer `expected`, which was free or kept.
    pub(super) fn begin(&self, expected: State<V>) -> bool {
        // Acquire: as in `state`.
        address(expected)
            .is_some_and(|expected| self.exchange(expected, ptr::without_provenance_mut(WRITING)))
    }

    /// For the task: a value has been changed, and `kept` as it was.
    pub(super) fn end(&self, kept: NonNull<V>) {
        // Release: the writer sees what has been changed and kept. If it fails, the writer wants nothing any more.
        self.exchange(ptr::without_provenance_mut(WRITING), with_bit(kept));
    }

    /// For the writer: whether the task has written to the block, and given or kept what it was.
    pub(super) fn is_provided(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        !matches!(state.addr(), 0 | READING | TAKEN)
    }

    /// For the writer, of which there is one: the right to read the block in place, until [`done`](Self::done)
    /// or `give`, but for values that were kept. Otherwise nothing has changed.
    pub(super) fn claim_in_place(&self) -> Option<Option<NonNull<V>>> {
        loop {
            // Acquire: for the values that were kept.
            let state = self.state.load(Ordering::Acquire);
            let kept = kept_in(state);
            if state.addr() == WRITING {
                yield_now(); // the task is swapping two values, or stopped amid that
            } else if !state.is_null() && kept.is_none() {
                return None;
            } else if self.exchange(state, ptr::without_provenance_mut(READING)) {
                // Release: what the writer did before, such as finding the block, was before the task's answer.
                return Some(kept);
            }
        }
    }

    /// For the writer: the block in place, or what was given.
    pub(super) fn claim(&self) -> Claim<B, V> {
        match self.claim_in_place() {
            Some(kept) => Claim::InPlace(kept),
            None => self.done().map_or(Claim::Taken, Claim::Given),
        }
    }

    /// For the writer, which is reading the block: it has a copy by now, to be claimed later. Returns what the task has
    /// given in the meantime, in which values may have changed.
    pub(super) fn provide(&self, copy: Arc<B>) -> Option<Arc<B>> {
        // Release: what was read, was read before the task writes.
        let before = self
            .state
            .swap(Arc::into_raw(copy).cast_mut(), Ordering::AcqRel);
        // SAFETY: the swap has taken it out.
        unsafe { given_in(before) }
    }

    /// For the writer: it wants nothing more from here. Returns what the task has given, if it has.
    pub(super) fn done(&self) -> Option<Arc<B>> {
        // Release: what was read, was read before the task writes.
        let taken = ptr::without_provenance_mut(TAKEN);
        let before = self.state.swap(taken, Ordering::AcqRel);
        // SAFETY: the swap has taken it out.
        unsafe { given_in(before) }
    }

    fn exchange(&self, expected: *mut B, new: *mut B) -> bool {
        self.state
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// What a slot holds in this state; none where that is not for the task to change.
fn address<B, V>(state: State<V>) -> Option<*mut B> {
    match state {
        State::Free => Some(ptr::null_mut()),
        State::Kept(kept) => Some(with_bit(kept)),
        State::Reading => Some(ptr::without_provenance_mut(READING)),
        State::Settled => None,
    }
}

fn with_bit<B, V>(kept: NonNull<V>) -> *mut B {
    kept.as_ptr().map_addr(|address| address | KEPT).cast()
}

fn kept_in<B, V>(state: *mut B) -> Option<NonNull<V>> {
    let is_kept = state.addr() % 2 == KEPT;
    let kept = state.map_addr(|address| address & !KEPT);
    is_kept.then(|| NonNull::new(kept.cast()).expect("never null with the bit"))
}

/// # Safety
///
/// The slot that had this state has another now.
unsafe fn given_in<B>(state: *mut B) -> Option<Arc<B>> {
    let is_given = !state.is_null() && state.addr().is_multiple_of(4);
    // SAFETY: it came from `into_raw`, and is taken out once.
    is_given.then(|| unsafe { Arc::from_raw(state) })
}

impl<B, V> Drop for Slot<B, V> {
    fn drop(&mut self) {
        // Relaxed: whoever drops this has synchronised with all others.
        if self.state.load(Ordering::Relaxed).addr() != TAKEN {
            drop(self.done());
        }
    }
}
