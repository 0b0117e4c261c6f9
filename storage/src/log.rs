//! The checkpoint log: one sequence of decisions that processes race to extend.
//!
//! ```text
//!         trimmed        live: oldest ..= tail        next
//!       ┊  …  58  59 ┊ 60 ── 61 ── … ── 99 ── 100 ┊ 101: whoever creates it
//! ```
//!
//! An entry is an object that is created if it is absent; its number is its name. A process that
//! loses a number has been replaced or is behind: it reads what is there and steps down. A generation
//! begins by appending that it took over; from then on no append of an older one can succeed, since
//! that would need a number which is taken.
//!
//! # Trimming and the sleeper
//!
//! Old entries are deleted, and deleting frees numbers. A process that slept through the trimming of
//! its tail could create a freed number. It must not believe that this counts, and nobody else may
//! read it. So:
//!
//! - Entries are deleted oldest first, and only below the `oldest` that a durable later entry states.
//!   The tail and the entry before it are never deleted.
//! - An append of `n` counts only if afterwards `n-1` is there and is the entry that it followed, and
//!   nothing above `n` is there but what follows it.
//! - Readers find the tail as the highest number, and read from the `oldest` that it states; every
//!   entry up to it must be there and name the nonce of the one before. So a missing entry is told
//!   from a trimmed one.

mod entry;
mod state;

pub use entry::Completed;
pub(crate) use entry::{Decision, Entry};
pub(crate) use state::LogState;

use bytes::Bytes;
use cutwater_barrier::Generation;

use crate::{Blobs, Create, Error, ErrorKind, Result, SharedBlobs, layout, nonce::Nonces};

/// So often reading starts over when entries are trimmed under it. Each time somebody else has
/// made progress in between.
const READS_MAX: usize = 64;

/// The log, as far as this process has read it.
#[derive(Debug)]
pub(crate) struct Log {
    blobs: SharedBlobs,
    nonces: Nonces,
    state: LogState,
    /// Appended with an error that does not say whether it took effect.
    unsettled: Option<Entry>,
    /// Entries below this number have been deleted by this process.
    trimmed: u64,
}

impl Log {
    pub(crate) fn new(blobs: SharedBlobs, nonces: Nonces) -> Self {
        Self {
            blobs,
            nonces,
            state: LogState::default(),
            unsettled: None,
            trimmed: 0,
        }
    }

    pub(crate) fn state(&self) -> &LogState {
        &self.state
    }

    pub(crate) fn state_mut(&mut self) -> &mut LogState {
        &mut self.state
    }

    /// Reads the whole live log.
    pub(crate) async fn read(&mut self) -> Result<()> {
        let mut before = None;
        for _ in 0..READS_MAX {
            let Some(tail) = newest(&self.blobs).await? else {
                self.state = LogState::default();
                return Ok(());
            };
            match read_up_to(&self.blobs, &tail).await? {
                Ok(state) => {
                    self.state = state;
                    return Ok(());
                }
                // Trimmed since the tail was listed, if the tail moved on; otherwise it is lost.
                Err(missing) if before == Some(tail.number) => {
                    let reason = "is missing, and a later entry needs it: restore it from a backup";
                    return Err(Error::corrupt(layout::log_entry(missing), reason));
                }
                Err(_) => before = Some(tail.number),
            }
        }
        Err(Error::new(
            ErrorKind::Io,
            layout::LOG,
            "is trimmed faster than it can be read",
        ))
    }

    /// Reads the entries that are there and not needed, which [`read`](Self::read) passes over.
    pub(crate) async fn verify_trimmed(&self) -> Result<()> {
        let oldest = self.state.tail.map_or(0, |tail| tail.oldest);
        for number in numbers(&self.blobs).await? {
            if number < oldest {
                get(&self.blobs, number).await?;
            }
        }
        Ok(())
    }

    /// Appends a decision of `generation`.
    ///
    /// # Errors
    ///
    /// `Fenced` if somebody else has appended. Any other error leaves it open whether the decision
    /// took effect, unless it says so; [`settle`](Self::settle) finds out.
    pub(crate) async fn append(
        &mut self,
        generation: Generation,
        decision: Decision,
    ) -> Result<()> {
        self.settle().await?;
        if self.state.generation() > Some(generation) {
            return Err(self.fenced());
        }
        let tail = self.state.tail;
        let entry = Entry {
            number: self.state.next_number(),
            generation,
            nonce: self.nonces.draw(),
            previous: tail.map_or(0, |tail| tail.nonce),
            oldest: self.state.oldest_needed(),
            next_id: decision.next_id().max(self.state.next_id()),
            decision,
        };
        self.create(entry, Tried::Never).await
    }

    /// Finds out about an append whose outcome is unknown, by trying it once more.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        match self.unsettled.take() {
            Some(entry) => self.create(entry, Tried::Before).await,
            None => Ok(()),
        }
    }

    /// Finds out about an append whose outcome is unknown. One that `gives_up` accepts is given up, by
    /// appending another decision in its place: afterwards either that one counts or the first one
    /// does, and the state tells which.
    pub(crate) async fn settle_instead(
        &mut self,
        decision: Decision,
        gives_up: impl FnOnce(&Decision) -> bool,
    ) -> Result<()> {
        let first = match &self.unsettled {
            Some(first) if gives_up(&first.decision) => first.clone(),
            _ => return self.settle().await,
        };
        let instead = Entry {
            nonce: instead_of(first.nonce),
            decision,
            ..first.clone()
        };
        let path = layout::log_entry(first.number);
        match self.blobs.create(&path, instead.encode()).await? {
            Create::Created => {
                self.unsettled = None;
                self.count(instead).await
            }
            Create::Exists(bytes) => {
                self.unsettled = None;
                let there = Entry::decode(&bytes, first.number)?;
                let mine = if there.nonce == instead.nonce {
                    instead
                } else {
                    first
                };
                self.lost(&bytes, mine).await
            }
        }
    }

    async fn create(&mut self, entry: Entry, tried: Tried) -> Result<()> {
        let path = layout::log_entry(entry.number);
        let created = match self.blobs.create(&path, entry.encode()).await {
            // The reply may be all that was lost.
            Err(e) if !e.is_without_effect() => self
                .blobs
                .create(&path, entry.encode())
                .await
                .map_err(|e| (e, true)),
            created => created.map_err(|e| (e, false)),
        };
        match created {
            Ok(Create::Created) => self.count(entry).await,
            Ok(Create::Exists(bytes)) => self.lost(&bytes, entry).await,
            Err((e, tried_twice)) => {
                // That this try changed nothing says nothing about one before it.
                let open = tried_twice || tried == Tried::Before || !e.is_without_effect();
                self.unsettled = open.then_some(entry);
                Err(e)
            }
        }
    }

    /// Somebody's entry is in the place of `mine`; perhaps it is mine, or gives mine up.
    async fn lost(&mut self, there: &Bytes, mine: Entry) -> Result<()> {
        let there = Entry::decode(there, mine.number)?;
        if there.nonce == mine.nonce || there.nonce == instead_of(mine.nonce) {
            return self.count(there).await;
        }
        self.read().await?;
        Err(self.fenced())
    }

    /// Checks that the entry just created counts, and applies it.
    async fn count(&mut self, entry: Entry) -> Result<()> {
        match self.counts(&entry).await {
            Ok(true) => {
                self.state.apply(&entry).expect("made to follow the tail");
                Ok(())
            }
            Ok(false) => {
                self.read().await?;
                Err(self.fenced())
            }
            Err(e) => {
                self.unsettled = Some(entry);
                Err(e)
            }
        }
    }

    async fn counts(&self, entry: &Entry) -> Result<bool> {
        let before = entry.number - 1;
        if before > 0 {
            match get(&self.blobs, before).await? {
                Some(there) if there.nonce == entry.previous => {}
                _ => return Ok(false),
            }
        }
        let above = numbers(&self.blobs)
            .await?
            .into_iter()
            .rfind(|number| *number > entry.number);
        if above.is_none() {
            return Ok(true);
        }
        let next = get(&self.blobs, entry.number + 1).await?;
        Ok(next.is_some_and(|next| next.previous == entry.nonce))
    }

    fn fenced(&self) -> Error {
        match self.state.generation() {
            Some(newer) => fenced(newer),
            None => Error::corrupt(layout::LOG, "was emptied while it was in use"),
        }
    }

    /// Deletes entries that the tail states are not needed, oldest first.
    pub(crate) async fn trim(&mut self) -> Result<()> {
        let Some(tail) = self.state.tail else {
            return Ok(());
        };
        if self.trimmed >= tail.oldest {
            return Ok(());
        }
        for number in numbers(&self.blobs).await? {
            if number >= tail.oldest {
                break;
            }
            self.blobs.delete(&layout::log_entry(number)).await?;
        }
        self.trimmed = tail.oldest;
        Ok(())
    }
}

/// Whether an entry may be in the log already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tried {
    Never,
    Before,
}

/// The nonce of the entry that gives up the one with `nonce`. Not drawn, so that its writer knows it
/// again when that reply is lost too.
fn instead_of(nonce: u64) -> u64 {
    !nonce
}

/// The error of whoever was replaced by `newer`.
pub(crate) fn fenced(newer: Generation) -> Error {
    let reason = format!("generation {newer} has taken over: this process must stop");
    Error::new(ErrorKind::Fenced { newer }, layout::LOG, reason)
}

/// The newest entry, or `None` if there is no log.
pub(crate) async fn newest(blobs: &SharedBlobs) -> Result<Option<Entry>> {
    let mut before = None;
    loop {
        let Some(&number) = numbers(blobs).await?.last() else {
            return Ok(None);
        };
        match get(blobs, number).await? {
            Some(entry) => return Ok(Some(entry)),
            // Trimmed since, as it seems; then there is a newer one.
            None if before == Some(number) => {
                return Err(Error::corrupt(
                    layout::log_entry(number),
                    "is listed, and is not there",
                ));
            }
            None => before = Some(number),
        }
    }
}

/// The numbers of the entries that are there, in order.
pub(crate) async fn numbers(blobs: &SharedBlobs) -> Result<Vec<u64>> {
    let listed = blobs.list(layout::LOG).await?;
    Ok(listed
        .iter()
        .filter_map(|blob| layout::log_number(&blob.path))
        .collect())
}

/// The state at `tail`, or the number of an entry that is missing below.
async fn read_up_to(blobs: &SharedBlobs, tail: &Entry) -> Result<Result<LogState, u64>> {
    let mut state = LogState::default();
    for number in tail.oldest..tail.number {
        let Some(entry) = get(blobs, number).await? else {
            return Ok(Err(number));
        };
        apply(&mut state, &entry)?;
    }
    apply(&mut state, tail)?;
    Ok(Ok(state))
}

fn apply(state: &mut LogState, entry: &Entry) -> Result<()> {
    let faulty =
        |fault: state::Fault| Error::corrupt(layout::log_entry(entry.number), fault.reason());
    state.apply(entry).map_err(faulty)
}

async fn get(blobs: &SharedBlobs, number: u64) -> Result<Option<Entry>> {
    let bytes = blobs.get(&layout::log_entry(number)).await?;
    bytes.map(|bytes| Entry::decode(&bytes, number)).transpose()
}
