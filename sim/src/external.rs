//! The external system that sinks write to: transactions, fences, and replies that go missing.
//!
//! It outlives every process of the job. A call may be refused, may get lost on its way, may take
//! effect and lose its reply, or may arrive long after its caller was told that nobody knows.
//! It takes the exam of `cutwater_sink_2pc::testkit` itself, without its faults.

mod sink;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use cutwater_barrier::Generation;

pub(crate) use self::sink::{ExternalCommitter, ExternalSink, ExternalWriter, token_of};
use crate::random::Random;

/// A handle on the system. Clones are the same system.
#[derive(Clone, Debug)]
pub(crate) struct External(Arc<Mutex<Server>>);

#[derive(Debug)]
struct Server {
    transactions: BTreeMap<Token, Transaction>,
    /// The newest generation of each sink.
    fences: BTreeMap<String, Generation>,
    /// Transactions whose commit was sent, and has not arrived yet.
    late: Vec<Token>,
    random: Random,
    /// How many calls of a hundred go wrong.
    faults: u64,
}

/// The system's own number for a transaction. No two ever have the same.
pub(crate) type Token = u64;

#[derive(Debug)]
struct Transaction {
    sink: String,
    generation: Generation,
    status: Status,
    rows: Vec<u64>,
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    Open,
    Prepared,
    Committed,
    Aborted,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Fine,
    /// It does nothing and says so.
    Refused,
    /// It does nothing, and nobody says so.
    LostOnTheWay,
    /// It does what was asked, and nobody says so.
    ReplyLost,
    /// Nobody says anything, and it does what was asked at some later time.
    Late,
}

impl External {
    /// Without transactions. `faults` of a hundred calls go wrong.
    pub(crate) fn new(random: Random, faults: u64) -> Self {
        Self(Arc::new(Mutex::new(Server {
            transactions: BTreeMap::new(),
            fences: BTreeMap::new(),
            late: Vec::new(),
            random,
            faults,
        })))
    }

    /// From now on nothing goes wrong. What is late still comes.
    pub(crate) fn heal(&self) {
        self.lock().faults = 0;
    }

    /// What is late arrives.
    pub(crate) fn deliver_late(&self) {
        let mut server = self.lock();
        for token in std::mem::take(&mut server.late) {
            server.commit(token);
        }
    }

    /// What a reader of one sink's target sees, each row as often as it is there.
    pub(crate) fn visible(&self, sink: &str) -> Vec<u64> {
        let server = self.lock();
        let transactions = server.transactions.values();
        transactions
            .filter(|one| one.sink == sink && one.status == Status::Committed)
            .flat_map(|one| one.rows.iter().copied())
            .collect()
    }

    /// What a transaction holds, and where it stands.
    pub(crate) fn look(&self, token: Token) -> Option<(Status, Vec<u64>)> {
        let server = self.lock();
        let one = server.transactions.get(&token)?;
        Some((one.status, one.rows.clone()))
    }

    /// The committed transactions.
    pub(crate) fn committed(&self) -> Vec<Token> {
        let server = self.lock();
        let transactions = server.transactions.iter();
        transactions
            .filter(|(_, one)| one.status == Status::Committed)
            .map(|(&token, _)| token)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.0.lock().expect("no holder panics")
    }
}

impl Server {
    /// The generation that has locked `generation` out of `sink`, if one has.
    fn newer(&self, sink: &str, generation: Generation) -> Option<Generation> {
        let fence = self.fences.get(sink).copied();
        fence.filter(|fence| *fence > generation)
    }

    /// Whether it is visible now.
    fn commit(&mut self, token: Token) -> bool {
        let Some(one) = self.transactions.get_mut(&token) else {
            return false;
        };
        if one.status == Status::Prepared {
            one.status = Status::Committed;
        }
        one.status == Status::Committed
    }

    fn fate(&mut self) -> Fate {
        if self.random.percent(self.faults) {
            self.random.pick(&[
                Fate::Refused,
                Fate::LostOnTheWay,
                Fate::ReplyLost,
                Fate::Late,
            ])
        } else {
            Fate::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use cutwater_sink_2pc::testkit::{self, Target};

    use super::*;

    impl Target for External {
        type Sink = ExternalSink;

        fn sink(&self) -> ExternalSink {
            ExternalSink(self.clone())
        }

        fn record(&self, id: u64) -> u64 {
            id
        }

        async fn visible(&self) -> Vec<u64> {
            let sinks: Vec<String> = self.lock().fences.keys().cloned().collect();
            sinks
                .iter()
                .flat_map(|sink| Self::visible(self, sink))
                .collect()
        }

        async fn unfinished(&self) -> Vec<String> {
            let server = self.lock();
            let transactions = server.transactions.iter();
            transactions
                .filter(|(_, one)| matches!(one.status, Status::Open | Status::Prepared))
                .map(|(token, one)| format!("{token} of {} {}", one.sink, one.generation))
                .collect()
        }
    }

    #[test]
    fn the_external_system_passes_the_exam_of_sinks() {
        testkit::conforms(|| External::new(Random::new(1), 0));
    }
}
