//! A sink on a server made of a map: the reference that passes the exam, and what tests build on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};

use super::Target;
use crate::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};

/// A server with transactions, which outlives the jobs that write to it.
#[derive(Clone, Debug, Default)]
pub struct MemoryTarget {
    server: Arc<Mutex<Server>>,
    /// See [`rolling`](Self::rolling).
    rows_min: usize,
}

#[derive(Debug, Default)]
struct Server {
    transactions: BTreeMap<Name, Transaction>,
    /// The newest generation of each job and sink.
    fences: BTreeMap<(String, String), Generation>,
}

/// Job, sink, generation, subtask, counter: never the same twice.
type Name = (String, String, Generation, u16, u64);

#[derive(Clone, Debug)]
struct Transaction {
    status: Status,
    rows: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Status {
    Open,
    Prepared,
    Committed,
    Aborted,
}

impl MemoryTarget {
    /// An empty server whose sink prepares at each checkpoint.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty server whose sink keeps a transaction open over checkpoints until it has at least
    /// `rows_min` rows, as a file sink does that rolls by size.
    pub fn rolling(rows_min: usize) -> Self {
        Self {
            rows_min,
            ..Self::default()
        }
    }

    /// What a reader sees.
    pub fn rows(&self) -> Vec<u64> {
        let server = self.lock();
        let committed = server
            .transactions
            .values()
            .filter(|one| one.status == Status::Committed);
        committed.flat_map(|one| one.rows.iter().copied()).collect()
    }

    /// Aborts every prepared transaction, as a server does whose transaction timeout has come.
    pub fn time_out(&self) {
        for transaction in self.lock().transactions.values_mut() {
            if transaction.status == Status::Prepared {
                transaction.status = Status::Aborted;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("no holder panics")
    }
}

impl Target for MemoryTarget {
    type Sink = MemorySink;

    fn sink(&self) -> MemorySink {
        MemorySink(self.clone())
    }

    fn record(&self, id: u64) -> u64 {
        id
    }

    async fn visible(&self) -> Vec<u64> {
        self.rows()
    }

    async fn unfinished(&self) -> Vec<String> {
        let server = self.lock();
        let unfinished = server
            .transactions
            .iter()
            .filter(|(_, one)| matches!(one.status, Status::Open | Status::Prepared));
        unfinished.map(|(name, _)| format!("{name:?}")).collect()
    }
}

/// The sink of a [`MemoryTarget`].
#[derive(Clone, Debug)]
pub struct MemorySink(MemoryTarget);

impl Sink for MemorySink {
    type Record = u64;
    type Writer = MemoryWriter;
    type Committer = MemoryCommitter;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerCheckpoint
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, restored: Vec<Vec<u8>>) -> Result<MemoryWriter> {
        let mut writer = MemoryWriter {
            target: self.0.clone(),
            context,
            counter: 0,
            open: None,
        };
        let mut rows = Vec::new();
        for piece in restored {
            let (name, length) = decode_piece(&piece)?;
            let server = writer.target.lock();
            let old = server.transactions.get(&name);
            let old = old.and_then(|old| old.rows.get(..length));
            let old = old.ok_or_else(|| Error::new("restoring a writer", "its rows are gone"))?;
            rows.extend_from_slice(old);
        }
        if !rows.is_empty() {
            // Copied: the old writer may still append to its own.
            writer.append(&mut rows)?;
        }
        Ok(writer)
    }

    async fn committer(&self, context: CommitterContext) -> Result<MemoryCommitter> {
        Ok(MemoryCommitter {
            target: self.0.clone(),
            context,
        })
    }
}

/// Writes rows into transactions.
#[derive(Debug)]
pub struct MemoryWriter {
    target: MemoryTarget,
    context: WriterContext,
    counter: u64,
    open: Option<Name>,
}

impl MemoryWriter {
    fn append(&mut self, rows: &mut Vec<u64>) -> Result<()> {
        let mut server = self.target.lock();
        let context = &self.context;
        let sink = (context.job.clone(), context.uid.clone());
        if let Some(newer) = server.fences.get(&sink)
            && *newer > context.generation
        {
            return Err(Error::fenced("writing rows", *newer));
        }
        let name = self.open.get_or_insert_with(|| {
            self.counter += 1;
            let (job, uid) = sink;
            (job, uid, context.generation, context.subtask, self.counter)
        });
        let transaction = server
            .transactions
            .entry(name.clone())
            .or_insert(Transaction {
                status: Status::Open,
                rows: Vec::new(),
            });
        transaction.rows.append(rows);
        Ok(())
    }
}

impl Writer for MemoryWriter {
    type Record = u64;

    async fn write(&mut self, _now: Time, batch: &mut Vec<u64>) -> Result<()> {
        self.append(batch)
    }

    async fn prepare(
        &mut self,
        _now: Time,
        checkpoint: CheckpointId,
        input: Input,
    ) -> Result<Flushed> {
        let Some(name) = self.open.take() else {
            return Ok(Flushed::default());
        };
        let mut server = self.target.lock();
        let transaction = server.transactions.get_mut(&name);
        let transaction = transaction.expect("opened by `append`");
        if transaction.status != Status::Open {
            return Err(Error::new("preparing a transaction", "it was swept"));
        }
        if input == Input::Continues && transaction.rows.len() < self.target.rows_min {
            let piece = encode_piece(&name, transaction.rows.len());
            self.open = Some(name);
            return Ok(Flushed::default().with_state(vec![piece]));
        }
        transaction.status = Status::Prepared;
        let token = encode_piece(&name, transaction.rows.len());
        Ok(Flushed::new(vec![Prepared::new(checkpoint, token)]))
    }

    async fn released(&mut self, _before: CheckpointId) -> Result<()> {
        Ok(()) // Names are not used twice, so nothing waits for this.
    }
}

/// Ends transactions.
#[derive(Debug)]
pub struct MemoryCommitter {
    target: MemoryTarget,
    context: CommitterContext,
}

impl MemoryCommitter {
    fn judge(&self, prepared: &[Prepared], is_commit: bool) -> Vec<Verdict> {
        let mut server = self.target.lock();
        let sink = (self.context.job.clone(), self.context.uid.clone());
        let newer = server.fences.get(&sink).copied();
        let newer = newer.filter(|newer| *newer > self.context.generation);
        let gone = || match newer {
            Some(newer) => Error::fenced("committing", newer),
            None => Error::new("committing", "the server has aborted it"),
        };
        let verdict = |one: &Prepared| {
            let status = decode_piece(&one.token).ok().and_then(|(name, _)| {
                let transaction = server.transactions.get_mut(&name)?;
                Some(&mut transaction.status)
            });
            match status {
                Some(Status::Committed) => Verdict::AlreadyCommitted,
                Some(status @ Status::Prepared) if is_commit => {
                    *status = Status::Committed;
                    Verdict::Committed
                }
                Some(Status::Prepared) => {
                    Verdict::NotCommitted(Error::new("probing", "it is prepared"))
                }
                Some(Status::Aborted | Status::Open) | None => Verdict::Lost(gone()),
            }
        };
        prepared.iter().map(verdict).collect()
    }
}

impl Committer for MemoryCommitter {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.judge(prepared, true)
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.judge(prepared, false)
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        let mut server = self.target.lock();
        for one in prepared {
            let (name, _) = decode_piece(&one.token)?;
            if let Some(transaction) = server.transactions.get_mut(&name)
                && transaction.status == Status::Prepared
            {
                transaction.status = Status::Aborted;
            }
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        let mut server = self.target.lock();
        let sink = (self.context.job.clone(), self.context.uid.clone());
        let fence = server.fences.entry(sink).or_insert(generation);
        if *fence > generation {
            return Err(Error::fenced("fencing older writers", *fence));
        }
        *fence = generation;
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        // Also what restored state names: the rows of an aborted transaction can still be copied,
        // and its old writer can no longer prepare it.
        let context = &self.context;
        for (name, transaction) in &mut self.target.lock().transactions {
            let is_ours = (&name.0, &name.1) == (&context.job, &context.uid);
            let is_old = name.2 < context.generation;
            let is_unfinished = matches!(transaction.status, Status::Open | Status::Prepared);
            if is_ours && is_old && is_unfinished {
                transaction.status = Status::Aborted;
            }
        }
        Ok(())
    }
}

/// A transaction's name and how many rows of it count.
fn encode_piece((job, uid, generation, subtask, counter): &Name, length: usize) -> Vec<u8> {
    format!("{job}\n{uid}\n{generation}\n{subtask}\n{counter}\n{length}").into_bytes()
}

fn decode_piece(piece: &[u8]) -> Result<(Name, usize)> {
    let decode = || {
        let text = std::str::from_utf8(piece).ok()?;
        let mut parts = text.split('\n');
        let (job, uid) = (parts.next()?.into(), parts.next()?.into());
        let generation = Generation::new(parts.next()?.parse().ok()?);
        let subtask = parts.next()?.parse().ok()?;
        let counter = parts.next()?.parse().ok()?;
        let length = parts.next()?.parse().ok()?;
        Some(((job, uid, generation, subtask, counter), length))
    };
    decode().ok_or_else(|| Error::new("reading a token", "it is not one of this sink's"))
}
