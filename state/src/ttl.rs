//! How long the elements of a state live: for ever, or for some time after they were last used.
//!
//! An element is what has a stamp of its own: a value, an element of a list, an entry of a map. It is hidden
//! from the moment it expires, and removed later: bit by bit as time is told
//! ([`set_time`](crate::KeyedStates::set_time)), and left out of what snapshots write. In a byte backend it
//! stays until its row is written to, or all of the row has expired and the backend comes across it, as a compaction of
//! RocksDB does.
//!
//! What is stored is when an element was used, not when it expires. So another length applies to what is
//! there already, and time goes on while the job is down.

use std::{fmt, mem, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Data, Timestamp};
use lived::Lived;

/// How long elements live after they were last written, to the millisecond.
///
/// ```
/// # use std::time::Duration;
/// # use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
/// # use cutwater_state::{Keyed, KeyedStates, Timestamp, Ttl};
/// # let max = MaxParallelism::new(128).unwrap();
/// # let mut states = KeyedStates::<u64>::new("seen", KeyGroupRange::new(0, 128), max);
/// states.set_time(Timestamp::from_millis(0));
/// let hour = Ttl::new(Duration::from_secs(3600));
/// let seen = states.expiring(hour)?.value::<u32>("seen")?;
/// states[seen].put(Keyed::new(&7), 1)?;
///
/// states.set_time(Timestamp::from_millis(3_599_999));
/// assert_eq!(states[seen].get(Keyed::new(&7))?, Some(&1));
/// states.set_time(Timestamp::from_millis(3_600_000));
/// assert_eq!(states[seen].get(Keyed::new(&7))?, None);
/// # Ok::<(), cutwater_state::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ttl {
    length: Duration,
    reads_refresh: bool,
    shows_expired: bool,
}

impl Ttl {
    /// `length` from the last write on. Longer than time itself is for ever.
    pub const fn new(length: Duration) -> Self {
        Self {
            length,
            reads_refresh: false,
            shows_expired: false,
        }
    }

    /// Reads count as well. They cost what writes cost then; reading a list or map counts for all its elements.
    #[must_use]
    pub const fn refreshed_by_reads(self) -> Self {
        Self {
            reads_refresh: true,
            ..self
        }
    }

    /// Shows what has expired as long as it has not been removed.
    #[must_use]
    pub const fn showing_expired(self) -> Self {
        Self {
            shows_expired: true,
            ..self
        }
    }

    fn is_over(&self, stamp: Timestamp, now: Timestamp) -> bool {
        let end = stamp.checked_add(self.length);
        end.is_some_and(|end| end <= now)
    }
}

/// What elements of a state live for: [`Forever`] or [`Expiring`].
pub trait Lifetime: Lived {}

/// Elements stay until they are cleared, and cost nothing for it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct Forever;

/// Elements have a stamp, 8 bytes each, and expire.
#[derive(Clone, Copy, Debug)]
pub struct Expiring {
    ttl: Ttl,
    now: Timestamp,
}

impl Expiring {
    pub(crate) const fn new(ttl: Ttl, now: Timestamp) -> Self {
        Self { ttl, now }
    }
}

impl Lifetime for Forever {}

impl Lifetime for Expiring {}

/// An element with the time of its last use.
#[expect(unnameable_types, reason = "how elements are stored is nobody else's")]
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(bound = "T: Data")]
pub struct Stamped<T> {
    stamp: Timestamp,
    value: T,
}

pub(crate) mod lived {
    use super::{Data, Timestamp, fmt};

    /// What states need of a lifetime.
    #[expect(unnameable_types, reason = "there are no other lifetimes")]
    pub trait Lived: Clone + fmt::Debug + Send + Sync + 'static {
        /// An element as it is stored.
        type Of<T: Data>: Data;

        /// Whether it has a stamp.
        const STAMPED: bool;

        fn set_time(&mut self, now: Timestamp);

        /// The same at another time.
        fn at(&self, now: Timestamp) -> Self {
            let mut then = self.clone();
            then.set_time(now);
            then
        }

        /// An element that is written now.
        fn of<T: Data>(&self, value: T) -> Self::Of<T>;

        /// An element that was stored with this stamp; without one, it counts from now.
        fn restored<T: Data>(&self, value: T, stamp: Option<Timestamp>) -> Self::Of<T>;

        fn get<T: Data>(of: &Self::Of<T>) -> &T;

        fn take<T: Data>(of: Self::Of<T>) -> T;

        /// The element, to be written to.
        fn get_mut<'a, T: Data>(&self, of: &'a mut Self::Of<T>) -> &'a mut T;

        /// Lends a slot, and what is visible in it, to be written to.
        fn lend<T: Data, R>(
            &self,
            slot: &mut Option<Self::Of<T>>,
            f: impl FnOnce(&mut Option<T>) -> R,
        ) -> R;

        /// Whether it may be removed.
        fn is_over<T: Data>(&self, of: &Self::Of<T>) -> bool;

        /// Whether it is to be seen.
        fn is_visible<T: Data>(&self, of: &Self::Of<T>) -> bool;

        /// Whether reads are to be noted.
        fn reads_refresh(&self) -> bool;
    }
}

impl Lived for Forever {
    type Of<T: Data> = T;

    const STAMPED: bool = false;

    fn set_time(&mut self, _: Timestamp) {}

    #[inline]
    fn of<T: Data>(&self, value: T) -> T {
        value
    }

    fn restored<T: Data>(&self, value: T, _: Option<Timestamp>) -> T {
        value
    }

    #[inline]
    fn get<T: Data>(of: &T) -> &T {
        of
    }

    #[inline]
    fn take<T: Data>(of: T) -> T {
        of
    }

    #[inline]
    fn get_mut<'a, T: Data>(&self, of: &'a mut T) -> &'a mut T {
        of
    }

    #[inline]
    fn lend<T: Data, R>(&self, slot: &mut Option<T>, f: impl FnOnce(&mut Option<T>) -> R) -> R {
        f(slot)
    }

    #[inline]
    fn is_over<T: Data>(&self, _: &T) -> bool {
        false
    }

    #[inline]
    fn is_visible<T: Data>(&self, _: &T) -> bool {
        true
    }

    #[inline]
    fn reads_refresh(&self) -> bool {
        false
    }
}

impl Lived for Expiring {
    type Of<T: Data> = Stamped<T>;

    const STAMPED: bool = true;

    fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn of<T: Data>(&self, value: T) -> Stamped<T> {
        let stamp = self.now;
        Stamped { stamp, value }
    }

    fn restored<T: Data>(&self, value: T, stamp: Option<Timestamp>) -> Stamped<T> {
        let stamp = stamp.unwrap_or(self.now);
        Stamped { stamp, value }
    }

    fn get<T: Data>(of: &Stamped<T>) -> &T {
        &of.value
    }

    fn take<T: Data>(of: Stamped<T>) -> T {
        of.value
    }

    fn get_mut<'a, T: Data>(&self, of: &'a mut Stamped<T>) -> &'a mut T {
        of.stamp = self.now;
        &mut of.value
    }

    fn lend<T: Data, R>(
        &self,
        slot: &mut Option<Stamped<T>>,
        f: impl FnOnce(&mut Option<T>) -> R,
    ) -> R {
        /// Puts back what is there, also if `f` panics.
        struct Lent<'a, T: Data> {
            value: Option<T>,
            slot: &'a mut Option<Stamped<T>>,
            now: Timestamp,
        }

        impl<T: Data> Drop for Lent<'_, T> {
            fn drop(&mut self) {
                let stamp = self.now;
                let value = mem::take(&mut self.value);
                *self.slot = value.map(|value| Stamped { stamp, value });
            }
        }

        let visible = slot.take_if(|of| self.is_visible(of));
        let mut lent = Lent {
            value: visible.map(|of| of.value),
            slot,
            now: self.now,
        };
        f(&mut lent.value)
    }

    fn is_over<T: Data>(&self, of: &Stamped<T>) -> bool {
        self.ttl.is_over(of.stamp, self.now)
    }

    fn is_visible<T: Data>(&self, of: &Stamped<T>) -> bool {
        self.ttl.shows_expired || !self.is_over(of)
    }

    fn reads_refresh(&self) -> bool {
        self.ttl.reads_refresh
    }
}
