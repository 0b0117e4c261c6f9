//! The sink that a job opens on the external system.

use std::time::Duration;

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};
use cutwater_storage::testkit::step;

use super::{External, Fate, Status, Token, Transaction};

/// Opens writers and committers.
#[derive(Clone, Debug)]
pub(crate) struct ExternalSink(pub(crate) External);

/// Writes rows into one transaction for each checkpoint.
#[derive(Debug)]
pub(crate) struct ExternalWriter {
    external: External,
    sink: String,
    generation: Generation,
    open: Option<Token>,
}

/// Ends transactions, one step before and one after each call.
#[derive(Debug)]
pub(crate) struct ExternalCommitter {
    external: External,
    sink: String,
    generation: Generation,
}

/// A sink of the system is known by job and operator.
fn name(job: &str, uid: &str) -> String {
    format!("{job}/{uid}")
}

impl Sink for ExternalSink {
    type Record = u64;
    type Writer = ExternalWriter;
    type Committer = ExternalCommitter;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, _: Vec<Vec<u8>>) -> Result<ExternalWriter> {
        Ok(ExternalWriter {
            external: self.0.clone(),
            sink: name(&context.job, &context.uid),
            generation: context.generation,
            open: None,
        })
    }

    async fn committer(&self, context: CommitterContext) -> Result<ExternalCommitter> {
        Ok(ExternalCommitter {
            external: self.0.clone(),
            sink: name(&context.job, &context.uid),
            generation: context.generation,
        })
    }
}

impl Writer for ExternalWriter {
    type Record = u64;

    async fn write(&mut self, _: Time, batch: &mut Vec<u64>) -> Result<()> {
        let mut server = self.external.lock();
        if let Some(newer) = server.newer(&self.sink, self.generation) {
            return Err(Error::fenced("writing rows", newer));
        }
        let next = server.transactions.len() as Token;
        let token = *self.open.get_or_insert(next);
        let transaction = server.transactions.entry(token);
        let transaction = transaction.or_insert_with(|| Transaction {
            sink: self.sink.clone(),
            generation: self.generation,
            status: Status::Open,
            rows: Vec::new(),
        });
        transaction.rows.append(batch);
        Ok(())
    }

    async fn prepare(&mut self, _: Time, checkpoint: CheckpointId, _: Input) -> Result<Flushed> {
        let Some(token) = self.open.take() else {
            return Ok(Flushed::default());
        };
        let mut server = self.external.lock();
        if let Some(newer) = server.newer(&self.sink, self.generation) {
            return Err(Error::fenced("preparing a transaction", newer));
        }
        let transaction = server.transactions.get_mut(&token);
        transaction.expect("opened by `write`").status = Status::Prepared;
        Ok(Flushed::new(vec![prepared(checkpoint, token)]))
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(()) // No number is used twice.
    }
}

impl Committer for ExternalCommitter {
    async fn commit(&mut self, asked: &[Prepared]) -> Vec<Verdict> {
        step().await;
        let verdicts = asked
            .iter()
            .map(|one| self.commit_one(token_of(one)))
            .collect();
        step().await;
        verdicts
    }

    async fn probe(&mut self, asked: &[Prepared]) -> Vec<Verdict> {
        step().await;
        asked
            .iter()
            .map(|one| self.probe_one(token_of(one)))
            .collect()
    }

    async fn abort(&mut self, asked: &[Prepared]) -> Result<()> {
        step().await;
        let mut server = self.external.lock();
        for one in asked {
            if let Some(one) = server.transactions.get_mut(&token_of(one))
                && one.status == Status::Prepared
            {
                one.status = Status::Aborted;
            }
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        step().await;
        let mut server = self.external.lock();
        let fate = server.fate();
        if matches!(fate, Fate::Refused | Fate::LostOnTheWay) {
            return Err(unanswered());
        }
        if let Some(newer) = server.newer(&self.sink, generation) {
            return Err(Error::fenced("locking out older writers", newer));
        }
        server.fences.insert(self.sink.clone(), generation);
        if fate == Fate::Fine {
            Ok(())
        } else {
            Err(unanswered())
        }
    }

    async fn sweep(&mut self) -> Result<()> {
        step().await;
        let mut server = self.external.lock();
        let fate = server.fate();
        if matches!(fate, Fate::Refused | Fate::LostOnTheWay) {
            return Err(unanswered());
        }
        for one in server.transactions.values_mut() {
            let is_unfinished = matches!(one.status, Status::Open | Status::Prepared);
            if one.sink == self.sink && one.generation < self.generation && is_unfinished {
                one.status = Status::Aborted;
            }
        }
        if fate == Fate::Fine {
            Ok(())
        } else {
            Err(unanswered())
        }
    }
}

impl ExternalCommitter {
    fn commit_one(&self, token: Token) -> Verdict {
        let mut server = self.external.lock();
        match server.fate() {
            Fate::Fine => {
                let before = server.transactions.get(&token).map(|one| one.status);
                match (before, server.commit(token)) {
                    (Some(Status::Committed), _) => Verdict::AlreadyCommitted,
                    (_, true) => Verdict::Committed,
                    (_, false) => {
                        Verdict::Lost(self.gone(server.newer(&self.sink, self.generation)))
                    }
                }
            }
            Fate::Refused => Verdict::NotCommitted(Error::new("committing", "it is busy")),
            Fate::LostOnTheWay => Verdict::Unknown(unanswered()),
            Fate::ReplyLost => {
                server.commit(token);
                Verdict::Unknown(unanswered())
            }
            Fate::Late => {
                server.late.push(token);
                Verdict::Unknown(unanswered())
            }
        }
    }

    fn probe_one(&self, token: Token) -> Verdict {
        let mut server = self.external.lock();
        if server.fate() != Fate::Fine {
            return Verdict::Unknown(unanswered());
        }
        match server.transactions.get(&token).map(|one| one.status) {
            Some(Status::Committed) => Verdict::AlreadyCommitted,
            Some(Status::Prepared) => {
                Verdict::NotCommitted(Error::new("probing", "it is prepared"))
            }
            Some(Status::Open | Status::Aborted) | None => {
                Verdict::Lost(self.gone(server.newer(&self.sink, self.generation)))
            }
        }
    }

    fn gone(&self, newer: Option<Generation>) -> Error {
        match newer {
            Some(newer) => Error::fenced("committing", newer),
            None => Error::new("committing", "it was aborted"),
        }
    }
}

fn unanswered() -> Error {
    Error::new("waiting for an answer", "the connection broke")
}

fn prepared(checkpoint: CheckpointId, token: Token) -> Prepared {
    Prepared::new(checkpoint, token.to_le_bytes())
}

/// The transaction that a prepared one names.
pub(crate) fn token_of(prepared: &Prepared) -> Token {
    token_from(&prepared.token)
}

pub(crate) fn token_from(bytes: &[u8]) -> Token {
    Token::from_le_bytes(bytes.try_into().expect("written by this sink"))
}
