//! Removing what has expired from a table: bit by bit as time is told, and when all of it is written.

use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use cutwater_keygroups::Key;

use crate::{
    Data, Lifetime, Timestamp,
    encoded::RowStore,
    place::Place,
    table::{Spot, Table},
};

/// What is left of an entry.
pub(crate) enum Left<S> {
    /// All of it.
    All,
    /// Some of its elements.
    Some(S),
    Nothing,
}

/// What is left of an entry at some time.
type Prune<S> = dyn Fn(&S, Timestamp) -> Left<S> + Send + Sync;

/// How the entries of one table expire.
pub(crate) struct Expiry<S> {
    prune: Arc<Prune<S>>,
    /// Milliseconds: also asked for by those who come across rows.
    now: Arc<AtomicI64>,
    /// The block to look at next.
    next: usize,
    /// Whether the store of the rows, if they are in one, knows that they expire.
    is_known: bool,
}

impl<S> Expiry<S> {
    /// `prune` tells what is left of an entry whose elements live for `lifetime`. None if that is for ever.
    pub(crate) fn new<L: Lifetime>(
        lifetime: &L,
        prune: impl Fn(&L, &S) -> Left<S> + Send + Sync + 'static,
    ) -> Option<Self> {
        let lifetime = lifetime.clone();
        L::STAMPED.then(|| Self {
            prune: Arc::new(move |stored, now| prune(&lifetime.at(now), stored)),
            now: Arc::new(AtomicI64::new(Timestamp::MIN.millis())),
            next: 0,
            is_known: false,
        })
    }

    pub(crate) fn set_time(&mut self, now: Timestamp) {
        self.now.store(now.millis(), Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    /// What is left of an entry as of now, whenever it is asked.
    pub(crate) fn as_of_now(&self) -> impl Fn(&S) -> Left<S> + Send + use<S> {
        let (prune, now) = (Arc::clone(&self.prune), self.now());
        move |stored| prune(stored, now)
    }

    /// Lets the store of the rows drop what has expired by then, whenever it comes across it. All rows that are there
    /// must be of type `S` already.
    pub(crate) fn tell(&mut self, place: &Place, store: &RowStore)
    where
        S: Data,
    {
        if mem::replace(&mut self.is_known, true) {
            return;
        }
        let (prune, now) = (Arc::clone(&self.prune), Arc::clone(&self.now));
        let left = move |value: &[u8]| {
            let now = Timestamp::from_millis(now.load(Ordering::Relaxed));
            // One that cannot be read stays, for an error to those who want it.
            let stored = postcard::from_bytes(value);
            match stored.map_or(Left::All, |stored| prune(&stored, now)) {
                Left::All => Left::All,
                Left::Some(some) => postcard::to_stdvec(&some).map_or(Left::All, Left::Some),
                Left::Nothing => Left::Nothing,
            }
        };
        store.expired().add(place.id(), Arc::new(left));
    }

    /// Removes what has expired in the next block: a look at some hundred entries, whatever the table's size.
    pub(crate) fn sweep<A: Key>(&mut self, table: &mut Table<A, S>)
    where
        S: Clone,
    {
        let Some(block) = table.block(self.next) else {
            self.next = 0;
            return;
        };
        let now = self.now();
        let left = |stored: &S| (self.prune)(stored, now);
        let mut is_any_gone = false;
        let mut rest = Vec::new();
        for (at, (_, stored)) in block.iter().enumerate() {
            match left(stored) {
                Left::All => {}
                Left::Some(some) => rest.push((at, some)),
                Left::Nothing => is_any_gone = true,
            }
        }
        for (at, some) in rest {
            *table.value_mut(Spot::At(self.next, at)) = some;
        }
        if is_any_gone {
            table.retain_in(self.next, |stored| !matches!(left(stored), Left::Nothing));
        }
        self.next += 1;
    }
}

impl<S> fmt::Debug for Expiry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
