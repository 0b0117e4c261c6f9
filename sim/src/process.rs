//! One process that tries to run the job: it takes over, recovers, runs an attempt, and is over.
//!
//! ```text
//!   Starting ─ open, take over, load ─▶ Running ─▶ Over: ended, failed, fenced, crashed
//! ```
//!
//! A process that was replaced and does not know it goes on like any other.

use cutwater_barrier::Then;
use cutwater_storage::{CheckpointStore, Options, Result, Term};

use crate::{
    attempt::Attempt,
    env::{Env, Store},
    stepped::Doing,
    stored::{self, Stored},
};

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Starting(Doing<Result<Recovered>>),
    Running(Box<Attempt>),
    Over(Over),
}

/// Why a process is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    /// The job has: drained, or suspended to be resumed.
    Ended(Then),
    /// The attempt has failed; another may do better.
    Failed,
    /// A newer one has taken over.
    Fenced,
}

/// What a process has when it leads.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) store: CheckpointStore,
    pub(crate) term: Term,
    pub(crate) stored: Option<Stored>,
}

async fn recover(blobs: Store, options: Options) -> Result<Recovered> {
    let mut store = CheckpointStore::open(blobs, options).await?;
    let term = store.take_over().await?;
    let stored = match store.load_latest().await? {
        Some(metadata) => Some(stored::read(&store, &metadata).await?),
        None => None,
    };
    Ok(Recovered {
        store,
        term,
        stored,
    })
}

impl Process {
    pub(crate) fn start(env: &mut Env, number: u64) -> Self {
        let mut options = Options::default();
        options.keep = 1 + env.random.index(3);
        options.inline_max_bytes = env.random.pick(&[0, 16 << 10]);
        options.log_entries = env.random.pick(&[4, 256]);
        options.seed = Some(env.random.draw());
        env.note(|| format!("process {number} starts"));
        Self {
            number,
            stage: Stage::Starting(Doing::new(recover(env.blobs.clone(), options))),
        }
    }

    /// Goes one step on.
    pub(crate) fn step(&mut self, env: &mut Env) {
        let over = match &mut self.stage {
            Stage::Starting(doing) => match doing.step() {
                None => None,
                Some(Ok(recovered)) => {
                    env.audit();
                    let generation = recovered.term.generation;
                    env.note(|| {
                        format!("process {} leads as generation {generation}", self.number)
                    });
                    self.stage = Stage::Running(Box::new(Attempt::new(env, recovered)));
                    return;
                }
                Some(Err(error)) if error.is_fenced() => Some(Over::Fenced),
                Some(Err(error)) => {
                    env.note(|| format!("process {} cannot recover: {error}", self.number));
                    Some(Over::Failed)
                }
            },
            Stage::Running(attempt) => attempt.step(env),
            Stage::Over(_) => None,
        };
        if let Some(over) = over {
            env.note(|| format!("process {} is over: {over:?}", self.number));
            let was_deciding = self.is_deciding();
            if let (Stage::Running(attempt), Over::Fenced) = (&self.stage, over) {
                env.ledger.check_replaced(attempt.generation());
            }
            self.stage = Stage::Over(over);
            if was_deciding {
                env.audit();
            }
        }
    }

    /// Whether a decision is under way, which may have taken effect.
    pub(crate) fn is_deciding(&self) -> bool {
        match &self.stage {
            Stage::Running(attempt) => attempt.is_deciding(),
            Stage::Starting(_) | Stage::Over(_) => false,
        }
    }

    pub(crate) fn over(&self) -> Option<Over> {
        match self.stage {
            Stage::Over(over) => Some(over),
            Stage::Starting(_) | Stage::Running(_) => None,
        }
    }

    /// The attempt under way.
    pub(crate) fn attempt(&mut self) -> Option<&mut Attempt> {
        match &mut self.stage {
            Stage::Running(attempt) => Some(attempt),
            Stage::Starting(_) | Stage::Over(_) => None,
        }
    }
}
