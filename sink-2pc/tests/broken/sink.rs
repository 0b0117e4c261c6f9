//! A sink with a switch for each flaw; with none it is a correct one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext, testkit::Target,
};

/// What is wrong with the sink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flaw {
    None,
    /// Rows are visible as soon as they are written.
    WritesThrough,
    /// Prepare commits already.
    CommitsInPrepare,
    /// B52: a committer that finds no producer of its own process says yes and does nothing.
    ForgetsOverRestart,
    /// A repeated commit inserts the rows again.
    CommitsTwice,
    /// Says `Committed` whenever it is visible, whoever did it.
    ClaimsEveryCommit,
    /// A commit that was done already is answered `Lost`.
    TakesDoneForLost,
    /// The trace of a commit goes with the next prepare, while a checkpoint still names it.
    CleansUpEarly,
    /// A probe takes what is only prepared for committed.
    ProbesYes,
    /// A probe takes what is committed for gone.
    ProbesNo,
    /// B52: counters start again with each process, and nothing else is in the name.
    ReusesNames,
    /// B54a: "not there any more" is taken for "already committed".
    TakesAbortedForDone,
    /// The fence is not told to the target.
    DoesNotFence,
    /// B54d: sweeps the subtasks that exist now, not those of a larger parallelism.
    SweepsTwoSubtasks,
    /// B54g: sweeps whatever is old and prepared, also another job's.
    SweepsNeighbours,
    /// A transaction for a checkpoint without records.
    PreparesEmpty,
    /// B21: acknowledges the barrier with rows still in its buffer.
    BuffersOverPrepare,
}

#[derive(Clone)]
pub(crate) struct BrokenTarget {
    flaw: Flaw,
    server: Arc<Mutex<Server>>,
}

#[derive(Default)]
struct Server {
    visible: Vec<u64>,
    open: BTreeMap<String, Transaction>,
    prepared: BTreeMap<String, Transaction>,
    committed: BTreeMap<String, Transaction>,
    fences: BTreeMap<String, Generation>,
}

#[derive(Clone)]
struct Transaction {
    job: String,
    generation: Generation,
    subtask: u16,
    rows: Vec<u64>,
}

impl BrokenTarget {
    pub(crate) fn new(flaw: Flaw) -> Self {
        let server = Arc::default();
        Self { flaw, server }
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }
}

impl Target for BrokenTarget {
    type Sink = BrokenSink;

    fn sink(&self) -> BrokenSink {
        BrokenSink {
            target: self.clone(),
            of_this_process: Arc::default(),
        }
    }

    fn record(&self, id: u64) -> u64 {
        id
    }

    async fn visible(&self) -> Vec<u64> {
        self.lock().visible.clone()
    }

    async fn unfinished(&self) -> Vec<String> {
        let server = self.lock();
        let names = server.open.keys().chain(server.prepared.keys());
        names.cloned().collect()
    }
}

pub(crate) struct BrokenSink {
    target: BrokenTarget,
    of_this_process: Arc<Mutex<BTreeSet<String>>>,
}

impl Sink for BrokenSink {
    type Record = u64;
    type Writer = BrokenWriter;
    type Committer = BrokenCommitter;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, _: Vec<Vec<u8>>) -> Result<BrokenWriter> {
        Ok(BrokenWriter {
            target: self.target.clone(),
            of_this_process: self.of_this_process.clone(),
            context,
            counter: 0,
            buffer: Vec::new(),
        })
    }

    async fn committer(&self, context: CommitterContext) -> Result<BrokenCommitter> {
        Ok(BrokenCommitter {
            target: self.target.clone(),
            of_this_process: self.of_this_process.clone(),
            context,
        })
    }
}

pub(crate) struct BrokenWriter {
    target: BrokenTarget,
    of_this_process: Arc<Mutex<BTreeSet<String>>>,
    context: WriterContext,
    counter: u64,
    buffer: Vec<u64>,
}

impl BrokenWriter {
    fn name(&self) -> String {
        let context = &self.context;
        let (job, generation, subtask) = (&context.job, context.generation, context.subtask);
        if self.target.flaw == Flaw::ReusesNames {
            return format!("{job}/{subtask}/{}", self.counter);
        }
        format!("{job}/{generation}/{subtask}/{}", self.counter)
    }

    fn check_fence(&self, server: &Server) -> Result<()> {
        match server.fences.get(&self.context.job) {
            Some(newer) if *newer > self.context.generation => {
                Err(Error::fenced("writing", *newer))
            }
            _ => Ok(()),
        }
    }
}

impl Writer for BrokenWriter {
    type Record = u64;

    async fn write(&mut self, _: Time, batch: &mut Vec<u64>) -> Result<()> {
        let mut server = self.target.lock();
        self.check_fence(&server)?;
        if self.target.flaw == Flaw::WritesThrough {
            server.visible.append(batch);
        } else {
            self.buffer.append(batch);
            let transaction = Transaction {
                job: self.context.job.clone(),
                generation: self.context.generation,
                subtask: self.context.subtask,
                rows: self.buffer.clone(),
            };
            server.open.insert(self.name(), transaction);
        }
        Ok(())
    }

    async fn prepare(
        &mut self,
        _: Time,
        checkpoint: CheckpointId,
        input: Input,
    ) -> Result<Flushed> {
        let flaw = self.target.flaw;
        let mut server = self.target.lock();
        self.check_fence(&server)?;
        if flaw == Flaw::CleansUpEarly {
            let job = &self.context.job;
            server.committed.retain(|_, one| one.job != *job);
        }
        if self.buffer.is_empty() && flaw != Flaw::PreparesEmpty {
            return Ok(Flushed::default());
        }
        let name = self.name();
        let empty = Transaction {
            job: self.context.job.clone(),
            generation: self.context.generation,
            subtask: self.context.subtask,
            rows: Vec::new(),
        };
        let mut transaction = server.open.remove(&name).unwrap_or(empty);
        let is_kept = flaw == Flaw::BuffersOverPrepare && input == Input::Continues;
        let kept = if is_kept {
            transaction.rows.len() / 2
        } else {
            0
        };
        let buffer = transaction.rows.split_off(transaction.rows.len() - kept);
        if flaw == Flaw::CommitsInPrepare {
            server.visible.extend(&transaction.rows);
            server.committed.insert(name.clone(), transaction);
        } else {
            server.prepared.insert(name.clone(), transaction);
        }
        drop(server);
        self.buffer = buffer;
        self.counter += 1;
        self.of_this_process.lock().unwrap().insert(name.clone());
        Ok(Flushed::new(vec![Prepared::new(checkpoint, name)]))
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(())
    }
}

pub(crate) struct BrokenCommitter {
    target: BrokenTarget,
    of_this_process: Arc<Mutex<BTreeSet<String>>>,
    context: CommitterContext,
}

impl BrokenCommitter {
    fn commit_one(&self, name: &str) -> Verdict {
        let flaw = self.target.flaw;
        let gone = || Verdict::Lost(Error::new("committing", "no such transaction"));
        let is_known = self.of_this_process.lock().unwrap().contains(name);
        if flaw == Flaw::ForgetsOverRestart && !is_known {
            return Verdict::AlreadyCommitted;
        }
        let mut server = self.target.lock();
        if let Some(transaction) = server.prepared.remove(name) {
            server.visible.extend(&transaction.rows);
            server.committed.insert(name.into(), transaction);
            return Verdict::Committed;
        }
        match server.committed.get(name).cloned() {
            Some(_) if flaw == Flaw::TakesDoneForLost => gone(),
            Some(_) if flaw == Flaw::ClaimsEveryCommit => Verdict::Committed,
            Some(again) => {
                if flaw == Flaw::CommitsTwice {
                    server.visible.extend(again.rows);
                }
                Verdict::AlreadyCommitted
            }
            None if flaw == Flaw::TakesAbortedForDone => Verdict::AlreadyCommitted,
            None => gone(),
        }
    }

    fn probe_one(&self, name: &str) -> Verdict {
        let server = self.target.lock();
        if self.target.flaw == Flaw::ProbesNo {
            Verdict::Lost(Error::new("probing", "no such open transaction"))
        } else if self.target.flaw == Flaw::ProbesYes || server.committed.contains_key(name) {
            Verdict::AlreadyCommitted
        } else if server.prepared.contains_key(name) {
            Verdict::NotCommitted(Error::new("probing", "it is prepared"))
        } else {
            Verdict::Lost(Error::new("probing", "no such transaction"))
        }
    }
}

fn name(prepared: &Prepared) -> &str {
    std::str::from_utf8(&prepared.token).unwrap()
}

impl Committer for BrokenCommitter {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let names = prepared.iter().map(name);
        names.map(|name| self.commit_one(name)).collect()
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let names = prepared.iter().map(name);
        names.map(|name| self.probe_one(name)).collect()
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        for one in prepared {
            self.target.lock().prepared.remove(name(one));
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        if self.target.flaw != Flaw::DoesNotFence {
            let job = self.context.job.clone();
            self.target.lock().fences.insert(job, generation);
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        let flaw = self.target.flaw;
        let context = &self.context;
        let is_kept = |one: &Transaction| {
            let is_ours = one.job == context.job || flaw == Flaw::SweepsNeighbours;
            let is_missed = flaw == Flaw::SweepsTwoSubtasks && one.subtask >= 2;
            let is_old = one.generation < context.generation || flaw == Flaw::SweepsNeighbours;
            !is_ours || !is_old || is_missed
        };
        let mut server = self.target.lock();
        server.open.retain(|_, one| is_kept(one));
        server.prepared.retain(|_, one| is_kept(one));
        Ok(())
    }
}
