//! An open store of rows, and the flushes on their way into it, which are written in order.
//!
//! ```text
//!  task:    freeze ─▶ pending 1, 2, 3        and goes on
//!  writer:  take 1 ─▶ sort, ingest ─▶ checkpoint 1 ─▶ take 2 …
//! ```
//!
//! A store's checkpoint is of what has been ingested until then, so flush 2 must not be ingested before the
//! checkpoint for 1 is there. Snapshots may be written in any order and by any thread nevertheless: who
//! comes for checkpoint 2 first writes 1 too, unless it was cancelled, and leaves it for who comes for it later.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use cutwater_keygroups::KeyGroupRange;

use super::{
    backend::{Rows, RowsCheckpoint},
    batch::Batch,
    expired::Expired,
    row_key::StateId,
    share::{Budget, Share},
};
use crate::{BoxError, Error, ErrorKind, Result, SharedFiles};

/// A cache as of one moment, its types erased.
pub(crate) trait FrozenRows: Send {
    fn state(&self) -> StateId;

    /// Adds the rows of a group that the backend does not have as they should be; `true` stands for a row
    /// that is there, `false` for one that is not. Groups are asked for once, rising.
    fn dirty(&mut self, group: u16, out: &mut Batch<bool>) -> Result<()>;

    /// The backend has them now.
    fn ingested(&self);
}

/// The rows of one operator subtask.
pub(crate) struct RowStore {
    uid: Arc<str>,
    rows: Box<dyn Rows>,
    groups: KeyGroupRange,
    budget: Arc<Budget>,
    expired: Arc<Expired>,
    /// Which files of checkpoints need not be stored again. Held for moments.
    shared_files: Mutex<SharedFiles>,
    /// Held for moments.
    pending: Mutex<Pending>,
    /// Held while flushes are written: checkpoints that nobody has come for yet.
    written: Mutex<BTreeMap<u64, Written>>,
}

#[derive(Default)]
struct Pending {
    flushes: VecDeque<Flush>,
    /// The number of the next one.
    next: u64,
}

/// A flush to be written, with a checkpoint after it.
struct Flush {
    number: u64,
    states: Vec<Box<dyn FrozenRows>>,
    is_wanted: Arc<AtomicBool>,
}

struct Written {
    checkpoint: Result<Box<dyn RowsCheckpoint>>,
    is_wanted: Arc<AtomicBool>,
}

impl RowStore {
    pub(crate) fn new(
        uid: Arc<str>,
        rows: Box<dyn Rows>,
        groups: KeyGroupRange,
        budget: &Arc<Budget>,
        expired: Arc<Expired>,
        shared_files: SharedFiles,
    ) -> Self {
        Self {
            uid,
            rows,
            groups,
            budget: Arc::clone(budget),
            expired,
            shared_files: Mutex::new(shared_files),
            pending: Mutex::default(),
            written: Mutex::default(),
        }
    }

    pub(crate) fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    pub(crate) fn expired(&self) -> &Expired {
        &self.expired
    }

    pub(crate) fn shared_files(&self) -> MutexGuard<'_, SharedFiles> {
        lock(&self.shared_files)
    }

    /// A share for one more cache.
    pub(crate) fn share(&self) -> Share {
        Share::of(&self.budget)
    }

    /// Puts a flush in line, to be written when its checkpoint is come for.
    pub(crate) fn freeze(self: &Arc<Self>, states: Vec<Box<dyn FrozenRows>>) -> Ticket {
        let is_wanted = Arc::new(AtomicBool::new(true));
        let mut pending = lock(&self.pending);
        let number = pending.next;
        pending.next += 1;
        pending.flushes.push_back(Flush {
            number,
            states,
            is_wanted: Arc::clone(&is_wanted),
        });
        drop(pending);
        Ticket {
            store: Arc::clone(self),
            number,
            is_wanted,
        }
    }

    /// Writes what is in line, and then the rows of `state` as well. For the task, which alone puts
    /// flushes in line.
    pub(crate) fn flush_now(&self, state: Box<dyn FrozenRows>) -> Result<()> {
        let mut written = lock(&self.written);
        self.write_up_to(u64::MAX, &mut written);
        self.ingest(&mut [state])
    }

    /// Ingests the flushes in line up to `number`, and leaves their checkpoints.
    ///
    /// An error of a flush is the error of its checkpoint. Its rows stay dirty, and so come with the next
    /// flush, which has them as they are, or newer.
    fn write_up_to(&self, number: u64, written: &mut BTreeMap<u64, Written>) {
        written.retain(|_, written| written.is_wanted.load(Ordering::Relaxed));
        let next = || {
            let mut pending = lock(&self.pending);
            pending.flushes.retain(Flush::is_wanted);
            let is_due = pending.flushes.front()?.number <= number;
            is_due.then(|| pending.flushes.pop_front()).flatten()
        };
        while let Some(mut flush) = next() {
            let checkpoint = self.ingest(&mut flush.states).and_then(|()| {
                let checkpoint = self.rows.checkpoint();
                checkpoint.map_err(|error| self.failed("taking a checkpoint", error))
            });
            let is_wanted = flush.is_wanted;
            written.insert(
                flush.number,
                Written {
                    checkpoint,
                    is_wanted,
                },
            );
        }
    }

    fn failed(&self, what: &str, error: BoxError) -> Error {
        backend_failed(&format_args!("operator `{}`", self.uid), what, error)
    }

    fn ingest(&self, states: &mut [Box<dyn FrozenRows>]) -> Result<()> {
        let failed = |error| self.failed("flushing rows", error);
        states.sort_by_key(|state| state.state());
        let mut batch = Batch::default();
        let mut ingest = None;
        for group in self.groups.start()..self.groups.end() {
            for state in &mut *states {
                batch.clear();
                state.dirty(group, &mut batch)?;
                if batch.len() == 0 {
                    continue;
                }
                batch.sort();
                let ingest = match &mut ingest {
                    Some(ingest) => ingest,
                    none => none.insert(self.rows.ingest().map_err(failed)?),
                };
                for (key, value, &is_there) in batch.iter() {
                    if is_there {
                        ingest.put(key, value).map_err(failed)?;
                    } else {
                        ingest.delete(key).map_err(failed)?;
                    }
                }
            }
        }
        if let Some(ingest) = ingest {
            ingest.finish().map_err(failed)?;
        }
        states.iter().for_each(|state| state.ingested());
        Ok(())
    }
}

impl fmt::Debug for RowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStore").finish_non_exhaustive()
    }
}

impl Flush {
    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }
}

/// The right to a checkpoint. Dropping it gives it up: its rows go with the next flush.
#[derive(Debug)]
pub(crate) struct Ticket {
    store: Arc<RowStore>,
    number: u64,
    is_wanted: Arc<AtomicBool>,
}

impl Ticket {
    pub(crate) fn store(&self) -> &Arc<RowStore> {
        &self.store
    }

    /// Writes the flush, if nobody has yet, and returns its checkpoint.
    pub(crate) fn checkpoint(self) -> Result<Box<dyn RowsCheckpoint>> {
        let mut written = lock(&self.store.written);
        self.store.write_up_to(self.number, &mut written);
        let mine = written.remove(&self.number);
        mine.map_or_else(
            || {
                let message = "whoever wrote this snapshot for us panicked; take another";
                Err(Error::new(ErrorKind::Io, message))
            },
            |mine| mine.checkpoint,
        )
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
        // What was frozen need not be kept, nor a checkpoint that is there already. If a writer is at it,
        // it will see to it.
        lock(&self.store.pending).flushes.retain(Flush::is_wanted);
        if let Ok(mut written) = self.store.written.try_lock() {
            written.remove(&self.number);
        }
    }
}

/// The error of a backend, of the kind that it has if it is one of ours.
pub(crate) fn backend_failed(whose: &dyn fmt::Display, what: &str, error: BoxError) -> Error {
    let kind = error
        .downcast_ref::<Error>()
        .map_or(ErrorKind::Io, Error::kind);
    let message = format!("{whose}: {what} in the byte backend");
    Error::new(kind, message).with_source(error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
