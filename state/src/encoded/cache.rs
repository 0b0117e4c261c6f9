//! The row cache: typed rows in memory, over a backend's encoded ones.
//!
//! ```text
//!  update ─▶ hit: as fast as memory state      ┌──────────┐ freeze, flush, ingest ┌─────────┐
//!         └▶ miss: read, decode, keep ─────────│  cache   │──────────────────────▶│ backend │
//!                                              └──────────┘◀── sorted multi-get ──└─────────┘
//! ```
//!
//! A write changes the row in the cache and nothing else. At a barrier the cache's table is frozen, as
//! memory state is, and the snapshot's writer, in its own thread, writes the rows that changed to the backend
//! ([`flush`](super::flush)). What holds at every moment:
//!
//! 1. A row that the backend does not have as it should be is in the cache, dirty: written after the last
//!    flush that has been ingested. Dirty rows are never evicted.
//! 2. A flush that is given up or fails leaves its rows dirty, and so to the next one.
//! 3. Rows of the backend are not read while the cache has the row.
//!
//! When the cache is full, rows that have not been accessed for a while make room (CLOCK), a few at a
//! time. If most rows are dirty, the task flushes early, in its own thread.

use std::{
    fmt, mem,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use cutwater_keygroups::{Key, KeyHash};

use super::{
    batch::Batch,
    row::{Epoch, Row},
    row_key::{self, HEAD, StateId},
    share::Share,
    store::{FrozenRows, RowStore, backend_failed},
};
use crate::{
    Data, Result,
    append::append,
    place::Place,
    table::{self, AHEAD, Lookup, Spot, Table},
};

/// So many rows are looked at before the share of dirty ones among them decides for a flush.
const SAMPLE: usize = 1024;

/// The rows of one state that are in memory, and the way to the others.
pub(crate) struct Cache<A, S> {
    place: Place,
    state: StateId,
    store: Arc<RowStore>,
    /// This cache's part of the memory.
    share: Share,
    table: Table<A, Row<S>>,
    rows: usize,
    /// Of writes from now on.
    epoch: Epoch,
    /// The last flush that the backend has; set by whoever writes flushes.
    ingested: Arc<AtomicU32>,
    /// The block of the table that is swept next.
    hand: usize,
    /// What a row takes as bytes, on average, and so about what its key and value own on the heap.
    encoded: Arc<AtomicU64>,
    misses: Batch<Miss<A>>,
}

/// A row that was not in the cache.
struct Miss<A> {
    number: usize,
    hash: KeyHash,
    key: A,
}

// Accesses are out of line, so that the loops of those whose states are in memory stay small.
impl<A: Key, S: Data> Cache<A, S> {
    pub(crate) fn new(place: Place, store: &Arc<RowStore>) -> Self {
        Self {
            table: Table::new(place.count()),
            share: store.share(),
            state: place.id(),
            place,
            store: Arc::clone(store),
            rows: 0,
            epoch: 1,
            ingested: Arc::default(),
            hand: 0,
            encoded: Arc::new(AtomicU64::new(64)), // until rows have been read or written
            misses: Batch::default(),
        }
    }

    #[inline(never)]
    pub(crate) fn get(
        &mut self,
        number: usize,
        hash: KeyHash,
        key: impl Lookup<A>,
    ) -> Result<Option<&S>> {
        let spot = self.spot(number, hash, key)?;
        let row = self.table.value(spot);
        row.touch();
        Ok(row.value.as_ref())
    }

    #[inline(never)]
    pub(crate) fn get_mut(
        &mut self,
        number: usize,
        hash: KeyHash,
        key: impl Lookup<A>,
    ) -> Result<Option<&mut S>> {
        let spot = self.spot(number, hash, key)?;
        if self.table.value(spot).value.is_none() {
            return Ok(None); // which is not a write
        }
        Ok(self.table.value_mut(spot).write(self.epoch).as_mut())
    }

    #[inline(never)]
    pub(crate) fn or_insert_with(
        &mut self,
        number: usize,
        hash: KeyHash,
        key: impl Lookup<A>,
        default: impl FnOnce() -> S,
    ) -> Result<&mut S> {
        let spot = self.spot(number, hash, key)?;
        let value = self.table.value_mut(spot).write(self.epoch);
        Ok(value.get_or_insert_with(default))
    }

    #[inline(never)]
    pub(crate) fn update<R>(
        &mut self,
        number: usize,
        hash: KeyHash,
        key: impl Lookup<A>,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<R> {
        let spot = self.spot(number, hash, key)?;
        Ok(self.table.value_mut(spot).lend(self.epoch, f))
    }

    /// Sets or removes a row, without asking the backend what there was.
    #[inline(never)]
    pub(crate) fn set(
        &mut self,
        number: usize,
        hash: KeyHash,
        key: impl Lookup<A>,
        value: Option<S>,
    ) -> Result<()> {
        if let Some(spot) = self.table.find(number, hash, key) {
            *self.table.value_mut(spot).write(self.epoch) = value;
            return Ok(());
        }
        self.make_room(1)?;
        let row = Row::written(value, self.epoch);
        self.insert(number, hash, key.stored(), row);
        Ok(())
    }

    /// Calls `f` with each row, once, in no particular order.
    pub(crate) fn for_each(&mut self, mut f: impl FnMut(&A, &S)) -> Result<()> {
        let cached = self.table.iter();
        for (key, row) in cached {
            if let Some(value) = &row.value {
                f(key, value);
            }
        }
        (0..self.place.count()).try_for_each(|number| {
            let (from, to) = row_key::range(self.place.group_at(number), self.state);
            self.scan(number, &from, &to, &mut f)
        })
    }

    /// Calls `f` with each row of a group whose encoded key starts with `prefix`.
    pub(crate) fn for_each_from(
        &mut self,
        number: usize,
        prefix: &[u8],
        mut f: impl FnMut(&A, &S),
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (key, row) in self.table.iter_group(number) {
            let Some(value) = &row.value else { continue };
            bytes.clear();
            key.encode(&mut bytes);
            if bytes.starts_with(prefix) {
                f(key, value);
            }
        }
        let (from, to) = row_key::range(self.place.group_at(number), self.state);
        let from = [&from[..], prefix].concat();
        let to = row_key::after(&from).unwrap_or_else(|| to.to_vec());
        self.scan(number, &from, &to, &mut f)
    }

    /// The rows between two row keys of a group that the cache does not have.
    fn scan(
        &self,
        number: usize,
        from: &[u8],
        to: &[u8],
        f: &mut impl FnMut(&A, &S),
    ) -> Result<()> {
        let mut result = Ok(());
        let mut each = |key: &[u8], value: &[u8]| {
            let row = self.decode_key(key).and_then(|key| {
                if self.table.find(number, key.key_hash(), &key).is_none() {
                    f(&key, &self.decode(value)?);
                }
                Ok(())
            });
            match row {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    result = Err(error);
                    ControlFlow::Break(())
                }
            }
        };
        let scanned = self.store.rows().scan(from, to, &mut each);
        scanned.map_err(|error| backend_failed(&self.place, "scanning rows", error))?;
        result
    }

    /// Reads the rows of these keys that are not in memory, all at once.
    pub(crate) fn announce<L: Lookup<A>>(&mut self, keys: &[(KeyHash, L)]) -> Result<()> {
        let mut misses = mem::take(&mut self.misses);
        let mut hashes = Vec::with_capacity(AHEAD);
        for keys in keys.chunks(AHEAD) {
            hashes.clear();
            hashes.extend(keys.iter().map(|(hash, _)| *hash));
            self.prefetch(&hashes);
            for &(hash, key) in keys {
                let Some(number) = self.place.owned(A::GROUPING, hash) else {
                    continue; // which is an error when it is accessed
                };
                match self.table.find(number, hash, key) {
                    Some(spot) => self.table.value(spot).touch(),
                    None => {
                        let key = key.stored();
                        let bytes = misses.start();
                        row_key::start(self.place.group_at(number), self.state, bytes);
                        key.encode(bytes);
                        misses.finish(Miss { number, hash, key }, 0);
                    }
                }
            }
        }
        misses.sort();
        misses.dedup();
        let read = self.read_misses(&mut misses);
        misses.clear();
        self.misses = misses;
        read
    }

    /// Reads what was missed, and keeps it.
    fn read_misses(&mut self, misses: &mut Batch<Miss<A>>) -> Result<()> {
        self.make_room(misses.len())?;
        let keys: Vec<&[u8]> = misses.keys().collect();
        let mut values: Vec<Option<S>> = keys.iter().map(|_| None).collect();
        self.look_up(&keys, |number, value| values[number] = Some(value))?;
        for (Miss { number, hash, key }, value) in misses.drain().zip(values) {
            self.insert(number, hash, key, Row::clean(value));
        }
        Ok(())
    }

    fn look_up(&self, keys: &[&[u8]], mut found: impl FnMut(usize, S)) -> Result<()> {
        let (mut result, mut rows, mut bytes) = (Ok(()), 0, 0);
        let read = self.store.rows().get_many(keys, &mut |number, value| {
            (rows, bytes) = (rows + 1, bytes + keys[number].len() + value.len());
            match self.decode(value) {
                Ok(value) => found(number, value),
                Err(error) => result = Err(error),
            }
        });
        note(&self.encoded, bytes, rows);
        read.map_err(|error| backend_failed(&self.place, "reading rows", error))?;
        result
    }

    /// Where the row of a key is in the table; it is read first if it is not there.
    #[inline]
    fn spot(&mut self, number: usize, hash: KeyHash, key: impl Lookup<A>) -> Result<Spot> {
        match self.table.find(number, hash, key) {
            Some(spot) => Ok(spot),
            None => self.read(number, hash, key.stored()),
        }
    }

    #[cold]
    fn read(&mut self, number: usize, hash: KeyHash, key: A) -> Result<Spot> {
        self.make_room(1)?;
        let mut bytes = Vec::with_capacity(64);
        row_key::start(self.place.group_at(number), self.state, &mut bytes);
        key.encode(&mut bytes);
        let mut value = None;
        self.look_up(&[&bytes], |_, found| value = Some(found))?;
        Ok(self.insert(number, hash, key, Row::clean(value)))
    }

    fn insert(&mut self, number: usize, hash: KeyHash, key: A, row: Row<S>) -> Spot {
        self.rows += 1;
        self.table.insert(number, hash, (key, row))
    }

    fn decode(&self, value: &[u8]) -> Result<S> {
        match postcard::take_from_bytes(value) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(self.place.corrupt("a row", "its value is too long")),
            Err(error) => {
                let corrupt = self.place.corrupt("a row", "its value does not decode");
                Err(corrupt.with_source(error))
            }
        }
    }

    fn decode_key(&self, mut key: &[u8]) -> Result<A> {
        key = key.get(HEAD..).unwrap_or_default();
        let decoded = A::decode(&mut key).ok().filter(|_| key.is_empty());
        decoded.ok_or_else(|| self.place.corrupt("a row", "its key does not decode"))
    }

    /// Brings what accesses to these hashes would read into the processor's cache.
    pub(crate) fn prefetch(&mut self, hashes: &[KeyHash]) {
        let place = &self.place;
        self.table
            .prefetch(hashes, |hash| place.number(A::GROUPING, hash));
    }

    /// Evicts rows if there would be too many with so `many` more.
    #[inline]
    fn make_room(&mut self, many: usize) -> Result<()> {
        let owned = match mem::needs_drop::<(A, S)>() {
            true => 2 * self.encoded.load(Ordering::Relaxed), // what an allocator takes
            false => 0,
        };
        let rows_max = self.share.rows_max(size_of::<(A, Row<S>)>(), owned);
        let over = (self.rows + many).saturating_sub(rows_max);
        if over > 0 { self.evict(over) } else { Ok(()) }
    }

    #[cold]
    fn evict(&mut self, many: usize) -> Result<()> {
        if !self.sweep(many) {
            self.flush()?;
            // If there are still too few, this batch needs more than there may be.
            self.sweep(many);
        }
        Ok(())
    }

    /// Goes on around the clock until so `many` rows are gone. `false` if too many of those on the way are
    /// dirty.
    fn sweep(&mut self, many: usize) -> bool {
        let ingested = self.ingested.load(Ordering::Acquire);
        let (mut gone, mut seen, mut dirty) = (0, 0, 0);
        let blocks = self.table.blocks();
        for _ in 0..2 * blocks {
            self.hand = (self.hand + 1) % blocks;
            gone += self.table.retain_in(self.hand, |row| {
                seen += 1;
                dirty += usize::from(row.is_dirty(ingested));
                row.is_dirty(ingested) || row.untouch()
            });
            if gone >= many {
                break;
            }
            if seen >= SAMPLE && 2 * dirty > seen {
                break;
            }
        }
        self.rows -= gone;
        gone >= many
    }

    /// Brings all rows to the backend, now.
    fn flush(&mut self) -> Result<()> {
        let frozen = self.freeze();
        self.store.flush_now(frozen)
    }

    /// A view of the rows as of now, for a flush.
    pub(crate) fn freeze(&mut self) -> Box<dyn FrozenRows> {
        // Blocks that have not been written to since then have no dirty rows. Epochs of the table count
        // the same freezes, from 0.
        let ingested = self.ingested.load(Ordering::Acquire);
        let base = ingested.checked_sub(1).map(u64::from);
        let epoch = self.epoch;
        self.epoch += 1;
        Box::new(FrozenCache {
            place: self.place.clone(),
            state: self.state,
            table: self.table.freeze(base).by_group(),
            epoch,
            ingested: Arc::clone(&self.ingested),
            encoded: Arc::clone(&self.encoded),
        })
    }
}

impl<A, S> fmt::Debug for Cache<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("rows", &self.rows)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The rows of a cache as of one moment.
struct FrozenCache<A, S> {
    place: Place,
    state: StateId,
    table: table::ByGroup<A, Row<S>>,
    epoch: Epoch,
    ingested: Arc<AtomicU32>,
    encoded: Arc<AtomicU64>,
}

impl<A: Key, S: Data> FrozenRows for FrozenCache<A, S> {
    fn state(&self) -> StateId {
        self.state
    }

    fn dirty(&mut self, group: u16, out: &mut Batch<bool>) -> Result<()> {
        // Nobody sets it meanwhile: flushes are written one after the other.
        let ingested = self.ingested.load(Ordering::Acquire);
        let number = group - self.place.groups().start();
        let (place, state) = (&self.place, self.state);
        self.table.drain(number, |entries| {
            for (key, row) in entries.iter().filter(|(_, row)| row.is_dirty(ingested)) {
                let bytes = out.start();
                row_key::start(group, state, bytes);
                key.encode(bytes);
                if let Some(value) = &row.value {
                    let appended = append(value, out.value());
                    appended.map_err(|error| place.not_serialisable(error))?;
                }
                out.finish(row.value.is_some(), HEAD);
            }
            Ok(())
        })?;
        note(&self.encoded, out.bytes(), out.len());
        Ok(())
    }

    fn ingested(&self) {
        self.ingested.store(self.epoch, Ordering::Release);
    }
}

/// Lets the average bytes of a row come nearer to those of `rows` rows with so many `bytes`.
fn note(average: &AtomicU64, bytes: usize, rows: usize) {
    if let Some(row) = bytes.checked_div(rows) {
        let before = average.load(Ordering::Relaxed);
        average.store((7 * before + row as u64).div_ceil(8), Ordering::Relaxed);
    }
}
