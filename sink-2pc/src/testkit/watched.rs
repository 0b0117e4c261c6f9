//! A committer between the kit and the sink's: it counts, and it can lose a message.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use cutwater_barrier::Generation;

use crate::{Committer, Error, Prepared, Result, Verdict};

/// What was asked and answered for each transaction, over all generations of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    counts: Arc<Mutex<BTreeMap<Prepared, Counts>>>,
    tokens: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// How often the sink was asked to commit it.
    pub(super) attempts: u32,
    /// How often the sink said that this call made it visible.
    pub(super) commits: u32,
}

impl Ledger {
    pub(super) fn counts(&self) -> BTreeMap<Prepared, Counts> {
        self.counts.lock().expect("no holder panics").clone()
    }

    /// Whether no transaction had this token before.
    pub(super) fn is_new(&self, token: &[u8]) -> bool {
        let mut tokens = self.tokens.lock().expect("no holder panics");
        tokens.insert(token.to_vec())
    }

    fn add(&self, prepared: &[Prepared], verdicts: &[Verdict]) {
        let mut counts = self.counts.lock().expect("no holder panics");
        for (one, verdict) in prepared.iter().zip(verdicts) {
            let counts = counts.entry(one.clone()).or_default();
            counts.attempts += 1;
            counts.commits += u32::from(matches!(verdict, Verdict::Committed));
        }
    }
}

/// Which message of the next commit is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lose {
    Nothing,
    Request,
    Reply,
}

#[derive(Debug)]
pub(super) struct Watched<C> {
    inner: C,
    ledger: Ledger,
    lose: Arc<Mutex<Lose>>,
}

impl<C> Watched<C> {
    pub(super) fn new(inner: C, ledger: Ledger, lose: Arc<Mutex<Lose>>) -> Self {
        Self {
            inner,
            ledger,
            lose,
        }
    }

    fn take_loss(&self) -> Lose {
        let mut lose = self.lose.lock().expect("no holder panics");
        std::mem::replace(&mut *lose, Lose::Nothing)
    }
}

fn silence(prepared: &[Prepared]) -> Vec<Verdict> {
    let error = Error::new("waiting for a reply", "the kit lost it");
    vec![Verdict::Unknown(error); prepared.len()]
}

impl<C: Committer> Committer for Watched<C> {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let lose = self.take_loss();
        if lose == Lose::Request {
            return silence(prepared);
        }
        let verdicts = self.inner.commit(prepared).await;
        self.ledger.add(prepared, &verdicts);
        match lose {
            Lose::Nothing | Lose::Request => verdicts,
            Lose::Reply => silence(prepared),
        }
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.inner.probe(prepared).await
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        self.inner.abort(prepared).await
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        self.inner.fence(generation).await
    }

    async fn sweep(&mut self) -> Result<()> {
        self.inner.sweep().await
    }
}
