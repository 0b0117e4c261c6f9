//! The driver of an attempt: feeds the coordinator machine and carries out what it decides.
//!
//! ```text
//!   tasks ── reports ──▶ ┐                          ┌─▶ triggers, notices, splits to tasks
//!   committers ────────▶ ├─ Coordinator (barrier) ──┼─▶ seal, completed to committers
//!   keeper (the log) ──▶ ┘                          └─▶ decide, committed, discard to the keeper
//! ```
//!
//! Order at completion: all parts stored → transactions sealed → decision in the log → sinks commit →
//! the log says so. Each arrow is a [`Moment`] that an observer can stop at.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use cutwater_barrier::{
    CheckpointId, Coordinator, Then,
    coordinate::{Decision, Effect, Event, JobFailure, TaskId},
};
use cutwater_sink_2pc::Prepared;
use cutwater_storage::Leadership;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    Error, ErrorKind, Result,
    attempt::{Attempt, Tasks},
    checkpoint::{self, Beside},
    committers::{Committers, Progress},
    error::store_error,
    execution::{Ended, Parts, Setup},
    handle::Command,
    keeper::{Keep, Keeper, Kept},
    loops::Loops,
    metrics::Metrics,
    observe::{Moment, State},
    requests::Requests,
    sources::Sources,
    supervisor::{History, cancelled},
    task::{Control, Report},
    upload::TaskPart,
};

/// How often sources whose splits are not all known look for more.
const DISCOVERY: Duration = Duration::from_secs(1);

/// A decision, and the transactions that each sink must be able to commit after it.
pub(crate) type Sealed = (Decision<TaskPart>, BTreeMap<String, Vec<Prepared>>);

/// Drives the coordinator machine of one attempt.
pub(crate) struct Driver<'a> {
    setup: Setup<'a>,
    attempt: Arc<Attempt>,
    machine: Coordinator<TaskPart>,
    leadership: Leadership,
    committers: Committers,
    sources: Sources,
    loops: Loops,
    metrics: Metrics,
    tasks: Tasks,
    keeper: &'a Keeper,
    sealed: mpsc::UnboundedSender<Sealed>,
    history: &'a mut History,
    /// How many tasks have been opened.
    running: usize,
    /// How many have ended.
    ended_tasks: usize,
    /// The newest checkpoint of which the log says, or was asked to say, that it is committed.
    noted: Option<CheckpointId>,
    /// The last checkpoint, once it is complete.
    ending: Option<Ended>,
    /// Of each checkpoint under way, what is not in reports.
    beside: BTreeMap<CheckpointId, Beside>,
    requests: Requests,
    /// Why the newest checkpoint failed, if it did.
    last_failure: Option<Error>,
}

impl<'a> Driver<'a> {
    /// The driver, and the channel by which sealed decisions come back to it.
    pub(crate) fn new(
        setup: Setup<'a>,
        attempt: Arc<Attempt>,
        machine: Coordinator<TaskPart>,
        parts: Parts,
        leadership: Leadership,
        keeper: &'a Keeper,
        history: &'a mut History,
    ) -> (Self, mpsc::UnboundedReceiver<Sealed>) {
        let (sealing, sealed) = mpsc::unbounded_channel();
        let Parts {
            committers,
            sources,
            tasks,
        } = parts;
        let loops = Loops::new(&attempt, &tasks);
        let metrics = Metrics::of(setup.job);
        let driver = Self {
            setup,
            attempt,
            machine,
            leadership,
            committers,
            sources,
            loops,
            metrics,
            tasks,
            keeper,
            sealed: sealing,
            history,
            running: 0,
            ended_tasks: 0,
            noted: None,
            ending: None,
            beside: BTreeMap::new(),
            requests: Requests::default(),
            last_failure: None,
        };
        (driver, sealed)
    }

    pub(crate) async fn drive(
        &mut self,
        mut reports: mpsc::UnboundedReceiver<(TaskId, Report)>,
        mut kept: mpsc::UnboundedReceiver<Kept>,
        mut sealed: mpsc::UnboundedReceiver<Sealed>,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Result<Ended> {
        let mut discover_at = Instant::now() + DISCOVERY;
        self.tell_sources();
        loop {
            self.carry_out().await?;
            if let Some(ended) = self.is_over() {
                return Ok(ended);
            }
            let deadline = self.machine.deadline();
            let wake_at = deadline.and_then(|at| self.setup.clock.instant_of(at));
            let wake_at = wake_at.map(Instant::from_std);
            tokio::select! {
                Some((task, report)) = reports.recv() => self.reported(task, report)?,
                Some(kept) = kept.recv() => self.kept(kept)?,
                Some(sealed) = sealed.recv() => self.decide(sealed),
                told = self.committers.told() => {
                    let progress = self.committers.progress(told)?;
                    self.progress(progress);
                }
                command = commands.recv() => self.command(command)?,
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    self.handle(Event::Woke)?;
                }
                () = sleep_until(discover_at), if !self.sources.are_complete() => {
                    self.sources.discover()?;
                    self.tell_sources();
                    discover_at = Instant::now() + DISCOVERY;
                }
            }
        }
    }

    pub(crate) async fn close(mut self) {
        // What was acknowledged for checkpoints under way is deleted; errors are already on the way.
        if self.handle(Event::Stop).is_ok() {
            while let Some(effect) = self.machine.poll() {
                if let Effect::Discard { checkpoint, .. } = effect {
                    self.keeper.ask(Keep::Discard(checkpoint));
                }
            }
        }
        self.tasks.close();
        self.committers.close().await;
    }

    fn is_over(&mut self) -> Option<Ended> {
        let ending = self.ending.as_ref()?;
        let is_over =
            self.ended_tasks == self.tasks.gates.len() && self.noted >= Some(ending.checkpoint);
        if is_over { self.ending.take() } else { None }
    }

    fn handle(&mut self, event: Event<TaskPart>) -> Result<()> {
        let now = self.setup.clock.now();
        self.machine.handle(now, event).map_err(|error| {
            let message = "the coordinator was driven wrongly; this is a bug";
            Error::new(ErrorKind::Failed, message).with_source(error)
        })
    }

    fn reported(&mut self, task: TaskId, report: Report) -> Result<()> {
        let generation = self.attempt.generation;
        match report {
            Report::Running => {
                self.handle(Event::Running { task })?;
                self.running += 1;
                if self.running == self.tasks.gates.len() {
                    self.setup
                        .shared
                        .update(|status| status.state = State::Running);
                    if self.setup.shared.is_stopping() {
                        self.stop()?;
                    }
                }
                Ok(())
            }
            Report::SplitsRequested => {
                self.sources.requested(task, &self.tasks);
                self.tell_sources();
                Ok(())
            }
            Report::Drained => self.handle(Event::Drained { task }),
            Report::LoopInputEnded => {
                self.loops.ended(task, &self.tasks);
                Ok(())
            }
            Report::Probed { round, is_quiet } => {
                self.loops.probed(task, round, is_quiet, &self.tasks);
                Ok(())
            }
            Report::Acked {
                checkpoint,
                mut part,
                stats,
            } => {
                // Also of a report that comes late: whatever was prepared has to be ended.
                for (uid, prepared) in mem::take(&mut part.prepared) {
                    self.committers.prepared(&uid, prepared);
                }
                self.handle(Event::Acked {
                    generation,
                    checkpoint,
                    task,
                    part: *part,
                    stats,
                })
            }
            Report::Declined {
                checkpoint,
                reason,
                error,
            } => {
                tracing::warn!(
                    checkpoint = checkpoint.get(),
                    task = self.tasks.names[task.0],
                    error = error.chain(),
                    "a task declined the checkpoint"
                );
                self.last_failure = Some(error);
                self.handle(Event::Declined {
                    generation,
                    checkpoint,
                    task,
                    reason,
                })
            }
            Report::Ended { last } => {
                self.ended_tasks += 1;
                let last = Some(last);
                self.handle(Event::Finished { task, last })
            }
            Report::Failed(error) => Err(error),
        }
    }

    fn kept(&mut self, kept: Kept) -> Result<()> {
        match kept {
            Kept::Completed(checkpoint) => self.handle(Event::Decided { checkpoint }),
            Kept::NotCompleted {
                checkpoint,
                reason,
                reports,
                error,
            } => {
                if error.is_fenced() {
                    return Err(store_error("has a new owner")(error));
                }
                let error = store_error("could not take the checkpoint")(error);
                tracing::warn!(
                    checkpoint = checkpoint.get(),
                    error = error.chain(),
                    "the checkpoint could not be made durable"
                );
                self.last_failure = Some(error);
                self.handle(Event::NotDecided {
                    checkpoint,
                    reason,
                    reports,
                })
            }
            Kept::Committed(checkpoint, noted) => {
                self.tidied(noted)?;
                self.noted = self.noted.max(Some(checkpoint));
                Ok(())
            }
            Kept::Tidied(tidied) => self.tidied(tidied),
        }
    }

    /// A failed note or deletion is repeated by the next checkpoint, or after a restart; but whoever
    /// was replaced stops.
    fn tidied(&self, tidied: Result<(), cutwater_storage::Error>) -> Result<()> {
        match tidied {
            Ok(()) => Ok(()),
            Err(error) if error.is_fenced() => Err(store_error("has a new owner")(error)),
            Err(error) => {
                let error = store_error("could not be tidied")(error).chain();
                tracing::warn!(error, "notes or deletions are put off");
                Ok(())
            }
        }
    }

    fn progress(&mut self, progress: Progress) {
        match progress {
            Progress::Nothing => {}
            Progress::Committed(checkpoint) => {
                if self.attempt.restored.checkpoint() < Some(checkpoint) {
                    self.setup
                        .settings
                        .observer
                        .reached(&Moment::Committed(checkpoint));
                }
                self.keeper.ask(Keep::Committed(checkpoint));
            }
            Progress::Released { uid, before } => {
                tracing::trace!(
                    sink = uid,
                    before = before.get(),
                    "transactions are released"
                );
                self.tasks.tell_all(|| Control::Released { before });
            }
        }
    }

    fn command(&mut self, command: Option<Command>) -> Result<()> {
        match command {
            None | Some(Command::Cancel) => Err(cancelled()),
            Some(Command::Stop) if self.running < self.tasks.gates.len() => Ok(()), // once all run
            Some(Command::Stop) => self.stop(),
            Some(Command::Checkpoint(reply)) => {
                let request = self.requests.checkpoint(reply);
                self.handle(Event::Requested(request))
            }
        }
    }

    /// Asks for the job's last checkpoint.
    fn stop(&mut self) -> Result<()> {
        let request = self.requests.stop();
        self.handle(Event::Requested(request))
    }

    fn tell_sources(&mut self) {
        self.sources.deliver(&self.tasks);
    }

    /// Does all that the machine wants done.
    async fn carry_out(&mut self) -> Result<()> {
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Trigger { task, barrier } => {
                    let checkpoint = barrier.checkpoint;
                    if !self.beside.contains_key(&checkpoint) {
                        // In one step with the triggers: an assignment is on one side of the cut.
                        self.tell_sources();
                        let beside = Beside {
                            splits: self.sources.snapshot(checkpoint),
                            ..Beside::default()
                        };
                        self.beside.insert(checkpoint, beside);
                        self.loops.due(checkpoint, &self.tasks);
                    }
                    self.tasks.tell(task, Control::Trigger(barrier));
                    if barrier.then.is_stop() {
                        self.setup
                            .shared
                            .update(|status| status.state = State::Stopping);
                    }
                }
                Effect::Decide(decision) => self.seal(decision),
                Effect::NotifyComplete {
                    checkpoint, then, ..
                } => self.completed(checkpoint, then).await?,
                Effect::NotifyAborted {
                    checkpoint, reason, ..
                } => self.aborted(checkpoint, &reason.to_string()),
                Effect::NotifySubsumed { checkpoint, by } => {
                    self.aborted(checkpoint, &format!("checkpoint {by} completed first"));
                }
                Effect::Discard { checkpoint, .. } => self.keeper.ask(Keep::Discard(checkpoint)),
                // Whatever it refers to is needed, or found as an orphan.
                Effect::Leave { .. } => {}
                Effect::Answer { request, outcome } => self.requests.answer(request, outcome),
                Effect::End { .. } => {} // `ending` was set on completion.
                Effect::FailJob(failure) => return Err(self.job_failure(failure)),
            }
        }
        Ok(())
    }

    /// All parts are stored: ask the sinks what the metadata must name. A committer answers between
    /// two calls to its target, and nobody waits for it here.
    fn seal(&mut self, decision: Decision<TaskPart>) {
        let answers = self.committers.seal(decision.barrier.checkpoint);
        let sealed = self.sealed.clone();
        self.attempt.tokio.spawn(async move {
            let mut transactions = BTreeMap::new();
            for (uid, answer) in answers {
                // Without the answer nothing may be decided. A committer that went away says why, and
                // the attempt ends.
                let Ok(named) = answer.await else { return };
                transactions.insert(uid, named);
            }
            let _attempt_is_over = sealed.send((decision, transactions));
        });
    }

    /// Has the decision made durable.
    fn decide(&mut self, (decision, transactions): Sealed) {
        let checkpoint = decision.barrier.checkpoint;
        let mut beside = self.beside.remove(&checkpoint).unwrap_or_default();
        beside.sealed = transactions;
        beside.cost = Some((checkpoint::summary(&decision), decision.stats.clone()));
        let names = &self.tasks.names;
        let metadata = checkpoint::metadata(&self.attempt, names, &decision, &beside);
        self.beside.insert(checkpoint, beside);
        self.setup
            .settings
            .observer
            .reached(&Moment::Prepared(checkpoint));
        self.keeper.ask(Keep::Complete {
            metadata: Box::new(metadata),
            reports: decision.reports,
        });
    }

    async fn completed(&mut self, checkpoint: CheckpointId, then: Then) -> Result<()> {
        self.last_failure = None;
        self.history.failures = 0;
        self.setup.shared.update(|status| {
            status.latest = Some(checkpoint);
            status.completed += 1;
        });
        let beside = self.beside.remove(&checkpoint);
        if let Some((summary, stats)) = beside.and_then(|beside| beside.cost) {
            checkpoint::log(&summary);
            self.metrics.completed(&stats, &self.tasks.names);
            self.setup
                .settings
                .observer
                .reached(&Moment::Completed(summary));
        }
        // Between the decision and now anything may have happened: ask before anything is released.
        self.leadership
            .check()
            .await
            .map_err(store_error("has a new owner"))?;
        if then.is_stop() {
            self.ending = Some(Ended {
                checkpoint,
                is_finished: then == Then::Drain,
            });
        }
        self.sources.completed(checkpoint);
        self.attempt.completed.set(checkpoint);
        self.tasks.tell_all(|| Control::Completed(checkpoint));
        let progress = self.committers.completed(checkpoint);
        self.progress(progress);
        Ok(())
    }

    fn aborted(&mut self, checkpoint: CheckpointId, reason: &str) {
        tracing::warn!(checkpoint = checkpoint.get(), reason, "checkpoint aborted");
        self.beside.remove(&checkpoint);
        self.setup.shared.update(|status| status.aborted += 1);
        self.metrics.aborted();
        self.committers.not_completed(checkpoint);
        self.tasks.tell_all(|| Control::Aborted(checkpoint));
        self.setup.settings.observer.reached(&Moment::Aborted {
            checkpoint,
            reason: reason.to_owned(),
        });
    }

    fn job_failure(&mut self, failure: JobFailure) -> Error {
        let kind = match failure {
            JobFailure::Fenced => ErrorKind::Fenced,
            _ => ErrorKind::Failed,
        };
        let error = Error::new(kind, format!("the attempt cannot go on: {failure}"));
        match self.last_failure.take() {
            Some(reason) => error.with_source(reason),
            None => error,
        }
    }
}
