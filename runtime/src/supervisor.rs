//! Attempt after attempt until the job ends: restart with a delay, or give up.

use std::{sync::Arc, time::Duration};

use cutwater_barrier::Generation;
use cutwater_storage::{CheckpointStore, Options, SharedBlobs};
use tokio::sync::mpsc;

use crate::{
    Error, ErrorKind, Guarantee, Outcome, Result, Settings,
    clock::Clock,
    error::store_error,
    execution::{self, Ended},
    graph::{Graph, Make},
    handle::{Command, Shared},
    metrics::Metrics,
    observe::{Moment, State},
};

/// One job in one process.
pub(crate) struct Supervisor {
    job: String,
    graph: Arc<Graph>,
    settings: Settings,
    blobs: SharedBlobs,
    shared: Shared,
    clock: Clock,
}

/// What the attempts of a job tell the next one.
pub(crate) struct History {
    /// The first attempt of this process. What it or a later one completed is what to go on from,
    /// whatever the job was started from.
    pub(crate) first: Option<Generation>,
    /// Failed attempts since the last completed checkpoint.
    pub(crate) failures: u32,
    pub(crate) restarts: u32,
}

impl Supervisor {
    pub(crate) fn new(
        job: String,
        graph: Arc<Graph>,
        settings: Settings,
        blobs: SharedBlobs,
        shared: Shared,
    ) -> Self {
        Self {
            job,
            graph,
            settings,
            blobs,
            shared,
            clock: Clock::start(),
        }
    }

    pub(crate) async fn run(
        self,
        mut commands: mpsc::UnboundedReceiver<Command>,
    ) -> Result<Outcome> {
        let ended = self.attempts(&mut commands).await;
        self.shared.update(|status| match &ended {
            Ok(_) => status.state = State::Finished,
            Err(error) => {
                status.state = State::Failed;
                status.failed(error);
            }
        });
        ended
    }

    async fn attempts(&self, commands: &mut mpsc::UnboundedReceiver<Command>) -> Result<Outcome> {
        let mut history = History {
            first: None,
            failures: 0,
            restarts: 0,
        };
        loop {
            let error = match self.attempt(&mut history, commands).await {
                Ok(Ended {
                    checkpoint,
                    is_finished,
                }) => {
                    return Ok(Outcome {
                        checkpoint,
                        is_finished,
                        restarts: history.restarts,
                    });
                }
                Err(error) => error,
            };
            if !error.is_worth_a_restart() {
                return Err(error);
            }
            history.failures += 1;
            let Some(delay) = self.settings.restart.delay(history.failures) else {
                if history.failures == 1 {
                    return Err(error);
                }
                let attempts = history.failures;
                let message = format!(
                    "job `{}` gave up after {attempts} failed attempts without a checkpoint in between",
                    self.job
                );
                return Err(Error::new(ErrorKind::Failed, message).with_source(error));
            };
            tracing::warn!(
                job = self.job,
                error = error.chain(),
                delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                "the attempt failed; restarting from the latest completed checkpoint"
            );
            history.restarts += 1;
            Metrics::of(&self.job).restarted();
            self.shared.update(|status| {
                status.state = State::Restarting;
                status.restarts = history.restarts;
                status.failed(&error);
            });
            pause(delay, commands).await?;
        }
    }

    async fn attempt(
        &self,
        history: &mut History,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Result<Ended> {
        let mut options = Options::default();
        options.keep = self.settings.retained_checkpoints;
        options.local_copies.clone_from(&self.settings.local_copies);
        let store = CheckpointStore::open(self.blobs.clone(), options)
            .await
            .map_err(store_error("could not be opened"))?;
        let setup = execution::Setup {
            job: &self.job,
            graph: &self.graph,
            settings: &self.settings,
            shared: &self.shared,
            clock: self.clock,
        };
        let ended = execution::run(setup, store, history, commands).await;
        if let Err(error) = &ended {
            self.settings.observer.reached(&Moment::Failed {
                generation: self.shared.generation(),
                error: error.chain(),
            });
        }
        ended
    }
}

/// Waits for `delay`, or for somebody who cannot wait.
async fn pause(delay: Duration, commands: &mut mpsc::UnboundedReceiver<Command>) -> Result<()> {
    let until = tokio::time::Instant::now() + delay;
    loop {
        match tokio::time::timeout_at(until, commands.recv()).await {
            Err(_elapsed) => return Ok(()),
            Ok(None | Some(Command::Cancel)) => return Err(cancelled()),
            // The next attempt sees that it is to stop; a checkpoint cannot be taken now.
            Ok(Some(Command::Stop | Command::Checkpoint(_))) => {}
        }
    }
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the job was cancelled")
}

/// What a job promises, in words: its state, then each sink.
pub(crate) fn guarantees(graph: &Graph, settings: &Settings) -> Vec<String> {
    let state = match settings.guarantee {
        Guarantee::ExactlyOnce => "state: exactly-once",
        Guarantee::AtLeastOnce => {
            "state: at-least-once, as a record may count twice after a restart"
        }
    };
    let sinks = graph.nodes.iter().filter_map(|node| match &node.make {
        Make::Sink(sink) => Some(format!("sink `{}`: {}", sink.uid(), sink.guarantee())),
        Make::Source(_) | Make::Operator(_) => None,
    });
    std::iter::once(state.to_owned()).chain(sinks).collect()
}
