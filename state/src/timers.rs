//! Timers: what is due at some time for some key, as state.
//!
//! ```text
//! set, delete ──▶ table   by key, time and namespace: each timer once, snapshots, key groups
//!            └──▶ queue   the same timers by time: which one is next
//! ```
//!
//! The table is what is snapshotted and restored, as any state by the groups of its keys; the queue
//! is made anew from it. Invariant: both hold the same timers.

use std::collections::BTreeSet;

use cutwater_keygroups::Key;

use crate::{
    Forever, Keyed, Result, Timestamp,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, KeyedTable, TypedState},
    place::Place,
    schema::Reading,
};

/// Timers of one kind of time, such as event time or processing time: for each, states of its own.
///
/// A timer is a time, a key, and a namespace `N` if there are such; it is there once or not at all. Who
/// drives the operator takes those that are [due](Self::pop_due) when the watermark or the clock
/// moves; a timer that was taken is gone, and comes again only if it is set again.
///
/// ```
/// # use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
/// # use cutwater_state::{Keyed, KeyedStates, Timestamp};
/// # let max = MaxParallelism::new(128).unwrap();
/// # let mut states = KeyedStates::<String>::new("idle", KeyGroupRange::new(0, 128), max);
/// let timers = states.timers("event-time")?;
/// let timers = &mut states[timers];
/// let (alice, bob) = ("alice".to_owned(), "bob".to_owned());
/// timers.set(Keyed::new(&alice), Timestamp::from_millis(2000))?;
/// timers.set(Keyed::new(&bob), Timestamp::from_millis(1000))?;
/// timers.set(Keyed::new(&bob), Timestamp::from_millis(1000))?; // as before
///
/// let watermark = Timestamp::from_millis(1500);
/// let due = timers.pop_due(watermark)?.expect("bob's");
/// assert_eq!((due.key, due.time.millis()), (bob, 1000));
/// assert_eq!(timers.pop_due(watermark)?, None);
/// assert_eq!(timers.next_due(), Some(Timestamp::from_millis(2000)));
/// # Ok::<(), cutwater_state::Error>(())
/// ```
///
/// All timers are in memory twice, whatever the backend. Setting, deleting and taking one takes
/// time in the order of its number's logarithm. In a snapshot: key, time and namespace, without a value.
#[derive(Debug)]
pub struct Timers<K, N = ()> {
    table: KeyedTable<K, (), (Timestamp, N)>,
    queue: BTreeSet<Timer<K, N>>,
}

/// A timer that is due.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a time for a key in a namespace is all that a timer is"
)]
pub struct Timer<K, N = ()> {
    /// When it was to be due.
    pub time: Timestamp,
    /// For which key.
    pub key: K,
    /// In which namespace.
    pub namespace: N,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, N: Key> Timers<K, N> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            table: KeyedTable::new(place),
            queue: BTreeSet::new(),
        }
    }

    /// Sets a timer for a key, unless it is set already. Returns whether it was not.
    pub fn set(&mut self, keyed: Keyed<'_, K, N>, time: Timestamp) -> Result<bool> {
        let keyed = keyed.within(|namespace| (time, namespace));
        let is_new = self
            .table
            .update(&keyed, |slot| slot.replace(()).is_none())?;
        if is_new {
            self.queue.insert(timer(keyed));
        }
        Ok(is_new)
    }

    /// Deletes a timer. Returns whether it was set.
    pub fn delete(&mut self, keyed: Keyed<'_, K, N>, time: Timestamp) -> Result<bool> {
        let keyed = keyed.within(|namespace| (time, namespace));
        let was_set = self.table.update(&keyed, |slot| slot.take().is_some())?;
        if was_set {
            self.queue.remove(&timer(keyed));
        }
        Ok(was_set)
    }

    /// Whether a timer is set.
    pub fn is_set(&mut self, keyed: Keyed<'_, K, N>, time: Timestamp) -> Result<bool> {
        let keyed = keyed.within(|namespace| (time, namespace));
        Ok(self.table.get(&keyed)?.is_some())
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.queue.first().map(|timer| timer.time)
    }

    /// Takes the earliest timer that is due at `now`, a watermark or the time of a clock. Of equally
    /// early ones the one with the least key.
    ///
    /// Timers set between two calls count, so whoever sets one for `now` or earlier whenever one
    /// fires never comes to an end.
    pub fn pop_due(&mut self, now: Timestamp) -> Result<Option<Timer<K, N>>> {
        if self.next_due().is_none_or(|next| next > now) {
            return Ok(None);
        }
        let Some(timer) = self.queue.pop_first() else {
            return Ok(None);
        };
        let keyed = Keyed::new(&timer.key).at((timer.time, timer.namespace.clone()));
        self.table.set(&keyed, None)?;
        Ok(Some(timer))
    }

    /// All timers, by time.
    pub fn iter(&self) -> impl Iterator<Item = &Timer<K, N>> {
        self.queue.iter()
    }
}

fn timer<K: Key, N: Key>(keyed: Keyed<'_, K, (Timestamp, N)>) -> Timer<K, N> {
    let key = keyed.key().clone();
    let (time, namespace) = keyed.into_namespace();
    Timer {
        time,
        key,
        namespace,
    }
}

impl<K: Key, N: Key> TypedState<K> for Timers<K, N> {
    const KIND: Kind = Kind::Timers;

    type Element = ();
    type Namespace = (Timestamp, N);
    type Lifetime = Forever;

    fn read_as(&mut self, _: Reading<()>) {}

    fn loaded(&mut self) -> Result<()> {
        let Self { table, queue } = self;
        table.for_each(|key, (time, namespace), ()| {
            queue.insert(Timer {
                time: *time,
                key: key.clone(),
                namespace: namespace.clone(),
            });
        })
    }
}

impl<K: Key, N: Key> KeyedState<K> for Timers<K, N> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        &mut self.table
    }

    fn set_time(&mut self, _: Timestamp) {}
}
