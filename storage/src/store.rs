//! The checkpoints of one job: written by whoever leads, read by anybody.

mod commit;
mod decide;
mod deletion;
mod leadership;
mod options;
mod pin;
mod restore;
mod verify;

use std::ops::Range;

use bytes::Bytes;
use cutwater_barrier::{CheckpointId, Generation};
use xxhash_rust::xxh64::xxh64;

pub use decide::NotDecided;
pub use deletion::{Deleted, Fate};
pub use leadership::{Leadership, Term};
pub use options::Options;
pub use pin::Pin;
use pin::Pins;
pub use restore::{OldKeyed, RestorePoint};
pub use verify::Verified;

use crate::{
    Blobs, Completed, Create, Error, ErrorKind, FileRef, Metadata, Result, SharedBlobs, StateFiles,
    file::{self, Sizes},
    layout,
    local_copies::LocalCopies,
    log::{Decision, Log, LogState, fenced},
    named::{Named, objects_of},
    nonce::Nonces,
};

/// The checkpoints of one job.
///
/// Opened, it reads; nothing is written. [`take_over`](Self::take_over) makes this process the one
/// that leads, and fences whoever did. From then on the calls for one checkpoint are, in order:
///
/// 1. [`files`](Self::files): every subtask writes its state.
/// 2. [`complete`](Self::complete): the checkpoint is decided. Before, it can only fail; after, it can
///    only be carried out.
/// 3. [`check_leading`](Self::check_leading), then the sinks commit, then [`committed`](Self::committed).
/// 4. [`apply_retention`](Self::apply_retention), whenever there is time.
///
/// An engine that waits for its sinks anyway has 3 and 4 in one: [`carry_out`](Self::carry_out).
///
/// A checkpoint that failed goes to [`discard_failed`](Self::discard_failed) instead of 2 to 4; so
/// does one whose `complete` returned an error, to learn whether it failed.
///
/// # Errors
///
/// Every method that writes fails with `Fenced` once another process has taken over, and with
/// `Misuse` before this one has.
#[derive(Debug)]
pub struct CheckpointStore {
    blobs: SharedBlobs,
    options: Options,
    nonces: Nonces,
    log: Log,
    term: Option<Term>,
    pins: Pins,
    local: Option<LocalCopies>,
    /// What retained checkpoints name; read once, as metadata never changes.
    named: Named,
}

impl CheckpointStore {
    /// Reads the log of the checkpoints in `blobs`. Writes nothing.
    ///
    /// # Errors
    ///
    /// `Corrupt` if an entry of the log is damaged, or missing although there are checkpoints.
    pub async fn open(blobs: impl Blobs, options: Options) -> Result<Self> {
        let blobs = SharedBlobs::new(blobs);
        let nonces = options.seed.map_or_else(Nonces::random, Nonces::from_seed);
        let log = Log::new(blobs.clone(), nonces.clone());
        let local = options.local_copies.as_deref().map(LocalCopies::new);
        let mut store = Self {
            blobs,
            options,
            nonces,
            log,
            term: None,
            pins: Pins::default(),
            local,
            named: Named::default(),
        };
        store.refresh().await?;
        Ok(store)
    }

    /// Reads the log again.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn refresh(&mut self) -> Result<()> {
        // In this order: a log entry is written before anything else is, so who sees something else
        // first and then no entry knows that the log is lost.
        let objects = self.blobs.list(layout::CHECKPOINTS).await?;
        self.log.read().await?;
        match objects.first() {
            Some(object) if self.state().tail.is_none() => {
                let reason = format!(
                    "the checkpoint log is missing, and there are checkpoints (e.g. {}): restore it from a \
                     backup, or start with an empty directory",
                    object.path
                );
                Err(Error::corrupt(layout::LOG, reason))
            }
            _ => Ok(()),
        }
    }

    /// Makes this process the one that leads; whoever led before is fenced from here on.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and `Io`.
    pub async fn take_over(&mut self) -> Result<Term> {
        self.term = None;
        loop {
            self.refresh().await?;
            let listed = self.blobs.list(layout::CHECKPOINTS).await?;
            let ids = listed
                .iter()
                .filter_map(|object| layout::checkpoint_of(&object.path));
            let first = ids
                .map(CheckpointId::next)
                .fold(self.state().next_id(), CheckpointId::max);
            let generation = self
                .state()
                .generation()
                .map_or(Generation::new(1), Generation::next);
            match self
                .log
                .append(generation, Decision::TookOver { first })
                .await
            {
                Ok(()) => {
                    let term = Term { generation, first };
                    self.term = Some(term);
                    self.named.begin_term();
                    self.blobs.sweep().await?;
                    return Ok(term);
                }
                // Somebody else was faster, so there is progress; now replace him.
                Err(e) if e.is_fenced() => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether this process still leads, as the store has it at this moment. Sinks ask before they
    /// commit.
    ///
    /// # Errors
    ///
    /// `Fenced` if not.
    pub async fn check_leading(&self) -> Result<()> {
        self.leadership()?.check().await
    }

    /// [`check_leading`](Self::check_leading) for another task.
    ///
    /// # Errors
    ///
    /// `Misuse` before this process has taken over.
    pub fn leadership(&self) -> Result<Leadership> {
        Ok(Leadership::new(self.blobs.clone(), self.term()?.generation))
    }

    /// What tasks write their state files with.
    ///
    /// # Errors
    ///
    /// `Misuse` before this process has taken over.
    pub fn files(&self) -> Result<StateFiles> {
        let sizes = Sizes {
            inline_max: self.options.inline_max_bytes,
            block: self.options.block_bytes.max(1),
        };
        let generation = self.term()?.generation;
        Ok(StateFiles::new(
            self.blobs.clone(),
            self.local.clone(),
            self.named.clone(),
            generation,
            self.nonces.clone(),
            sizes,
        ))
    }

    /// Decides that a checkpoint is complete: makes its files durable, writes its metadata, and
    /// appends the decision. Once it returns, no crash undoes the checkpoint.
    ///
    /// # Errors
    ///
    /// `Fenced`, and the checkpoint is not complete. `Misuse` if the id or generation is not of this
    /// term, or a file is named that no retained checkpoint has. After any other error
    /// [`discard_failed`](Self::discard_failed) tells whether it is complete.
    pub async fn complete(&mut self, metadata: &Metadata) -> Result<Completed> {
        let id = metadata.checkpoint;
        self.check_completable(metadata).await?;
        self.blobs.sync(&layout::checkpoint(id)).await?;
        let path = layout::metadata(id, metadata.generation);
        let bytes = metadata.encode();
        match self.blobs.create(&path, bytes.clone()).await? {
            Create::Exists(there) if there != bytes => {
                let reason = "was written before with other content: a second try has a new id";
                return Err(Error::new(ErrorKind::Misuse, path, reason));
            }
            Create::Created | Create::Exists(_) => {}
        }
        let before = self
            .state()
            .retained()
            .filter_map(|completed| completed.last_with_transactions);
        let own = metadata.prepared().next().map(|_| id);
        let completed = Completed {
            checkpoint: id,
            kind: metadata.kind,
            metadata: path,
            metadata_bytes: bytes.len() as u64,
            root_hash: xxh64(&bytes, 0),
            last_with_transactions: before.chain(own).max(),
        };
        let decision = Decision::Completed(completed.clone());
        self.log.append(metadata.generation, decision).await?;
        self.named.retain(metadata);
        self.named.decided(id);
        if let Some(local) = &self.local {
            local.keep(&objects_of(metadata), id);
        }
        Ok(completed)
    }

    async fn check_completable(&mut self, metadata: &Metadata) -> Result<()> {
        let id = metadata.checkpoint;
        let term = self.term()?;
        let misuse = |reason: String| Err(Error::new(ErrorKind::Misuse, name(id), reason));
        if metadata.generation != term.generation || id < term.first {
            return misuse(format!(
                "is of generation {}, and this is {}, whose first checkpoint is {}",
                metadata.generation, term.generation, term.first
            ));
        }
        if self.state().get(id).is_some() || self.state().is_discarded(id) {
            return misuse("was completed or discarded before".to_owned());
        }
        let own = |path: &str| {
            layout::checkpoint_of(path) == Some(id)
                && layout::generation_of(path) == Some(term.generation)
        };
        let mut foreign = objects_of(metadata);
        foreign.retain(|path| !own(path));
        if foreign.is_empty() {
            return Ok(());
        }
        self.read_named().await?;
        let named = |path: &String| self.named.names(path) || self.named.is_promised_to(id, path);
        foreign.retain(|path| !named(path));
        match foreign.first() {
            Some(path) => misuse(format!(
                "names {path}, which no retained checkpoint has: it may be deleted"
            )),
            None => Ok(()),
        }
    }

    /// The newest checkpoint or savepoint to restore from.
    pub fn latest(&self) -> Option<&Completed> {
        self.state().retained().next_back()
    }

    /// Everything that can be restored from, oldest first.
    pub fn list(&self) -> impl DoubleEndedIterator<Item = &Completed> {
        self.state().retained()
    }

    /// The generation that leads, or led last. `None` for a store that was never written to.
    pub fn generation(&self) -> Option<Generation> {
        self.state().generation()
    }

    /// What the log says about a completed checkpoint.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, with those there are.
    pub fn get(&self, checkpoint: CheckpointId) -> Result<&Completed> {
        self.state().get(checkpoint).ok_or_else(|| {
            let ids: Vec<_> = self
                .list()
                .map(|completed| completed.checkpoint.to_string())
                .collect();
            let reason = match ids.as_slice() {
                [] => "not found: there is no completed checkpoint".to_owned(),
                ids => format!(
                    "not found: it was never completed, or was discarded; there are {}",
                    ids.join(", ")
                ),
            };
            Error::new(ErrorKind::NotFound, name(checkpoint), reason)
        })
    }

    /// The newest checkpoint before `corrupt` that may be restored from in its place, if one may.
    ///
    /// # Errors
    ///
    /// `Corrupt` if there is none, or if transactions of a newer checkpoint may have been committed:
    /// going back would write their records again.
    pub fn fallback(&self, corrupt: CheckpointId) -> Result<&Completed> {
        let refuse = |reason: String| Err(Error::corrupt(name(corrupt), reason));
        let mut before = self
            .list()
            .rev()
            .skip_while(|completed| completed.checkpoint >= corrupt);
        let Some(older) = before.next() else {
            return refuse("cannot be replaced: there is no older checkpoint".to_owned());
        };
        match self
            .list()
            .filter_map(|completed| completed.last_with_transactions)
            .max()
        {
            Some(last) if last > older.checkpoint => refuse(format!(
                "cannot be replaced by checkpoint {}: transactions of checkpoint {last} may be committed, and \
                 would be written again",
                older.checkpoint
            )),
            _ => Ok(older),
        }
    }

    /// What the newest checkpoint or savepoint consists of; `None` if there is none to restore from.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub async fn load_latest(&self) -> Result<Option<Metadata>> {
        match self.latest() {
            Some(latest) => self.load(latest.checkpoint).await.map(Some),
            None => Ok(None),
        }
    }

    /// What a completed checkpoint consists of, verified against the log.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Corrupt` naming the object.
    pub async fn load(&self, checkpoint: CheckpointId) -> Result<Metadata> {
        match load(&self.blobs, self.get(checkpoint)?).await {
            Err(e)
                if e.kind() == ErrorKind::Corrupt
                    && self.is_discarded_meanwhile(checkpoint).await? =>
            {
                let reason = "was discarded since the log was read: refresh, and take a newer one";
                Err(Error::new(ErrorKind::NotFound, name(checkpoint), reason))
            }
            loaded => loaded.inspect(|metadata| self.named.retain(metadata)),
        }
    }

    /// The bytes `range` of a state file, verified.
    ///
    /// # Errors
    ///
    /// `Corrupt` naming the object and the offset of the block.
    pub async fn read(&self, file: &FileRef, range: Range<u64>) -> Result<Bytes> {
        file::read(&self.blobs, file, range).await
    }

    /// Where the checkpoints are.
    pub fn blobs(&self) -> &SharedBlobs {
        &self.blobs
    }

    /// Keeps retention from dropping a checkpoint as long as the pin lives, e.g. while it is restored
    /// from. It ends with this process at the latest.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not a completed checkpoint.
    pub fn pin(&self, checkpoint: CheckpointId) -> Result<Pin> {
        self.get(checkpoint)?;
        Ok(self.pins.pin(checkpoint))
    }

    fn state(&self) -> &LogState {
        self.log.state()
    }

    /// The term of this process, as long as it has not read of a later one.
    fn term(&self) -> Result<Term> {
        match (self.term, self.generation()) {
            (Some(term), Some(newer)) if newer > term.generation => Err(fenced(newer)),
            (Some(term), _) => Ok(term),
            (None, _) => {
                let reason = "this process does not lead: it has to take over first";
                Err(Error::new(ErrorKind::Misuse, layout::LOG, reason).without_effect())
            }
        }
    }

    /// Reads which objects each retained checkpoint names, where that is not known yet.
    async fn read_named(&mut self) -> Result<()> {
        let state = self.log.state();
        self.named.retain_only(|id| state.get(id).is_some());
        for completed in state.retained() {
            if self.named.knows(completed.checkpoint) {
                continue;
            }
            match load(&self.blobs, completed).await {
                Ok(metadata) => self.named.retain(&metadata),
                Err(e) => {
                    // Perhaps a successor has deleted it, and what is wrong is that this one goes on.
                    if let Some(term) = self.term {
                        Leadership::new(self.blobs.clone(), term.generation)
                            .check()
                            .await?;
                    }
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Whether a checkpoint of this process's view is no longer there, as the store has it now.
    async fn is_discarded_meanwhile(&self, checkpoint: CheckpointId) -> Result<bool> {
        let mut log = Log::new(self.blobs.clone(), self.nonces.clone());
        log.read().await?;
        Ok(log.state().get(checkpoint).is_none())
    }
}

/// The metadata of a completed checkpoint, verified against the log.
async fn load(blobs: &SharedBlobs, completed: &Completed) -> Result<Metadata> {
    let path = &completed.metadata;
    let Some(bytes) = blobs.get(path).await? else {
        return Err(Error::corrupt(
            path,
            "is missing, and the log says that it is complete",
        ));
    };
    let metadata = Metadata::decode(&bytes, path)?;
    let hash = xxh64(&bytes, 0);
    if hash != completed.root_hash || metadata.checkpoint != completed.checkpoint {
        return Err(
            Error::corrupt(path, "is intact, but not what the log says was completed").at(0),
        );
    }
    Ok(metadata)
}

fn name(checkpoint: CheckpointId) -> String {
    format!("checkpoint {checkpoint}")
}
