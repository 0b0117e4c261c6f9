//! Aggregating state: an accumulator per key, of another type than what is added and what is read.

use cutwater_keygroups::Key;

use crate::{
    Data, Forever, Keyed, Lifetime, Result, Timestamp,
    format::Kind,
    keyed_table::{AnyTable, KeyedState, TypedState},
    place::Place,
    schema::Reading,
    single::Single,
};

/// How what is added becomes what is read.
///
/// - What it does must follow from its arguments, in this run and the next: the accumulator is all that is kept.
/// - `merge` of two accumulators yields what one would be that had got all of both, first the one merged into.
///
/// ```
/// use cutwater_state::Aggregate;
///
/// /// The mean of integers.
/// struct Mean;
///
/// impl Aggregate for Mean {
///     type In = i64;
///     type Accumulator = (i64, u32);
///     type Out = f64;
///
///     fn start(&self) -> (i64, u32) {
///         (0, 0)
///     }
///
///     fn add(&self, (sum, count): &mut (i64, u32), value: i64) {
///         *sum += value;
///         *count += 1;
///     }
///
///     fn merge(&self, into: &mut (i64, u32), from: (i64, u32)) {
///         into.0 += from.0;
///         into.1 += from.1;
///     }
///
///     fn result(&self, (sum, count): &(i64, u32)) -> f64 {
///         *sum as f64 / f64::from(*count)
///     }
/// }
/// ```
pub trait Aggregate: Send + 'static {
    /// What is added.
    type In;
    /// What is kept.
    type Accumulator: Data;
    /// What is read.
    type Out;

    /// The accumulator before anything was added.
    fn start(&self) -> Self::Accumulator;

    /// Adds one value.
    fn add(&self, accumulator: &mut Self::Accumulator, value: Self::In);

    /// Adds all that another accumulator has got.
    fn merge(&self, into: &mut Self::Accumulator, from: Self::Accumulator);

    /// What the accumulator amounts to.
    fn result(&self, accumulator: &Self::Accumulator) -> Self::Out;
}

/// One accumulator per key, and per namespace `N` if the state has such.
///
/// In a snapshot: the accumulator as postcard, behind its stamp if it expires.
#[derive(Debug)]
pub struct AggregatingState<K, A: Aggregate, N = (), L: Lifetime = Forever> {
    single: Single<K, A::Accumulator, N, L>,
    aggregate: A,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "`WrongGroup` from all, said on the crate's first page"
)]
impl<K: Key, A: Aggregate, N: Key, L: Lifetime> AggregatingState<K, A, N, L> {
    pub(crate) fn new(place: Place, lifetime: L, aggregate: A) -> Self {
        Self {
            single: Single::new(place, lifetime),
            aggregate,
        }
    }

    /// What was added to a key amounts to; `None` if nothing was.
    #[inline]
    pub fn get(&mut self, keyed: Keyed<'_, K, N>) -> Result<Option<A::Out>> {
        let accumulator = self.single.get(&keyed)?;
        Ok(accumulator.map(|accumulator| self.aggregate.result(accumulator)))
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, keyed: Keyed<'_, K, N>, value: A::In) -> Result<()> {
        let Self { single, aggregate } = self;
        let accumulator = single.or_insert_with(&keyed, || aggregate.start())?;
        aggregate.add(accumulator, value);
        Ok(())
    }

    /// Forgets what was added to a key.
    #[inline]
    pub fn clear(&mut self, keyed: Keyed<'_, K, N>) -> Result<()> {
        self.single.set(&keyed, None)
    }

    /// Adds what stands in the namespaces `from` to `into`, in this order, and leaves them empty.
    pub fn merge(
        &mut self,
        keyed: Keyed<'_, K>,
        into: N,
        from: impl IntoIterator<Item = N>,
    ) -> Result<()> {
        let Self { single, aggregate } = self;
        single.merge(keyed, into, from, |slot, accumulator| match slot {
            Some(into) => aggregate.merge(into, accumulator),
            None => *slot = Some(accumulator),
        })
    }

    /// The namespaces in which a key has an accumulator, in no particular order.
    ///
    /// Looks at all entries of the key's group, so it is for what happens rarely.
    pub fn namespaces(&mut self, keyed: Keyed<'_, K>) -> Result<Vec<N>> {
        self.single.namespaces(keyed)
    }

    /// Calls `f` with each key and namespace and what was added to it amounts to, once, in no particular
    /// order.
    pub fn for_each_namespaced(&mut self, mut f: impl FnMut(&K, &N, A::Out)) -> Result<()> {
        let Self { single, aggregate } = self;
        single.for_each(|key, namespace, accumulator| {
            f(key, namespace, aggregate.result(accumulator));
        })
    }
}

#[expect(clippy::missing_errors_doc, reason = "as above")]
impl<K: Key, A: Aggregate, L: Lifetime> AggregatingState<K, A, (), L> {
    /// Calls `f` with each key and what was added to it amounts to, once, in no particular order.
    pub fn for_each(&mut self, mut f: impl FnMut(&K, A::Out)) -> Result<()> {
        self.for_each_namespaced(|key, (), out| f(key, out))
    }
}

impl<K: Key, A: Aggregate, N: Key, L: Lifetime> TypedState<K> for AggregatingState<K, A, N, L> {
    const KIND: Kind = Kind::Aggregating;

    type Element = A::Accumulator;
    type Namespace = N;
    type Lifetime = L;

    fn read_as(&mut self, reading: Reading<A::Accumulator>) {
        self.single.read_as(reading);
    }
}

impl<K: Key, A: Aggregate, N: Key, L: Lifetime> KeyedState<K> for AggregatingState<K, A, N, L> {
    fn table(&mut self) -> &mut dyn AnyTable<K> {
        self.single.table()
    }

    fn set_time(&mut self, now: Timestamp) {
        self.single.set_time(now);
    }
}
