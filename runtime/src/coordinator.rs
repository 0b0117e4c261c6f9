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
    coordinate::{self, Config, Decision, Effect, Event, JobFailure, Request, RequestId, TaskId},
};
use cutwater_sink_2pc::Prepared;
use cutwater_storage::{CheckpointStore, Leadership, Metadata, StateFiles, Term};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    Error, ErrorKind, Observer, Restore, Result, Settings,
    attempt::{Attempt, Tasks},
    checkpoint::{self, Beside},
    clock::Clock,
    committers::{Committers, Progress},
    graph::Graph,
    handle::{Command, Shared},
    keeper::{Keep, Keeper, Kept, is_fenced},
    observe::{Moment, State},
    restore::RestorePoint,
    sources::Sources,
    supervisor::{History, cancelled},
    task::{Control, Report},
    upload::TaskPart,
};

/// How often sources whose splits are not all known look for more.
const DISCOVERY: Duration = Duration::from_secs(1);

/// What an attempt is made of.
pub(crate) struct Setup<'a> {
    pub(crate) job: &'a str,
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) settings: &'a Settings,
    pub(crate) observer: &'a Observer,
    pub(crate) shared: &'a Shared,
    pub(crate) clock: Clock,
    pub(crate) restore: Restore,
}

/// How an attempt ended well.
pub(crate) struct Ended {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) is_finished: bool,
}

/// Runs one attempt to its end.
pub(crate) async fn run(
    setup: Setup<'_>,
    mut store: CheckpointStore,
    history: &mut History,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Result<Ended> {
    let term = store
        .take_over()
        .await
        .map_err(store_error("could not be taken over"))?;
    let metadata = restored(&store, setup.restore, setup.graph).await?;
    let is_committed = metadata
        .as_ref()
        .is_some_and(|metadata| store.last_committed() >= Some(metadata.checkpoint));
    let files = store.files().map_err(store_error("refused its files"))?;
    let leadership = store
        .leadership()
        .map_err(store_error("refused its leadership"))?;
    let (reporting, reports) = mpsc::unbounded_channel();
    let point = RestorePoint::new(
        metadata,
        is_committed,
        files.clone(),
        Handle::current(),
        setup.settings,
    );
    let attempt = attempt(&setup, term, point, files, reporting)?;
    let restored = attempt.restored.checkpoint();
    setup.shared.update(|status| {
        status.state = State::Starting;
        status.generation = Some(term.generation);
        status.latest = restored;
    });
    tracing::info!(
        job = setup.job,
        generation = term.generation.get(),
        restored = restored.map(CheckpointId::get),
        parallelism = setup.settings.parallelism,
        "starting an attempt"
    );
    setup.observer.reached(&Moment::Started {
        generation: term.generation,
        restored,
        parallelism: setup.settings.parallelism,
    });

    let (kept, keeping) = mpsc::unbounded_channel();
    let keeper = Keeper::start(&attempt.tokio, store, kept);
    let ended = match start(&attempt).await {
        Ok((committers, sources, tasks)) => {
            let (sealing, sealed) = mpsc::unbounded_channel();
            let mut driver = Driver {
                machine: machine(&attempt, &tasks, term, setup.clock),
                setup,
                attempt: Arc::clone(&attempt),
                leadership,
                committers,
                sources,
                tasks,
                keeper: &keeper,
                sealed: sealing,
                history,
                running: 0,
                ended_tasks: 0,
                noted: None,
                ending: None,
                beside: BTreeMap::new(),
                replies: BTreeMap::new(),
                requests: 0,
            };
            let ended = driver.drive(reports, keeping, sealed, commands).await;
            driver.close().await;
            ended
        }
        Err(error) => Err(error),
    };
    keeper.close().await;
    ended
}

/// The metadata to restore from, if any.
async fn restored(
    store: &CheckpointStore,
    restore: Restore,
    graph: &Graph,
) -> Result<Option<Metadata>> {
    let checkpoint = match restore {
        Restore::Fresh => None,
        Restore::Latest => store.latest().map(|latest| latest.checkpoint),
        Restore::Checkpoint(checkpoint) => {
            let newest = store
                .latest()
                .and_then(|latest| latest.last_with_transactions);
            if let Some(newest) = newest.filter(|newest| *newest > checkpoint && graph.has_sinks())
            {
                let message = format!(
                    "checkpoint {checkpoint} cannot be restored: sinks have committed, or will \
                     commit, transactions of checkpoint {newest}, whose records would be written \
                     again; restore {newest} or a newer one, or use another output and directory"
                );
                return Err(Error::new(ErrorKind::Restore, message));
            }
            Some(checkpoint)
        }
    };
    let Some(checkpoint) = checkpoint else {
        return Ok(None);
    };
    let metadata = store.load(checkpoint).await.map_err(|error| {
        let kind = match error.kind() {
            cutwater_storage::ErrorKind::Io => ErrorKind::Failed,
            _ => ErrorKind::Restore,
        };
        let message = format!("checkpoint {checkpoint} cannot be restored");
        Error::new(kind, message).with_source(error)
    })?;
    Ok(Some(metadata))
}

fn attempt(
    setup: &Setup<'_>,
    term: Term,
    restored: RestorePoint,
    files: StateFiles,
    reports: mpsc::UnboundedSender<(TaskId, Report)>,
) -> Result<Arc<Attempt>> {
    restored.check_uids(setup.graph)?;
    let max_parallelism = restored.max_parallelism(setup.graph, setup.settings)?;
    Ok(Arc::new(Attempt {
        job: setup.job.to_owned(),
        graph: Arc::clone(setup.graph),
        settings: setup.settings.clone(),
        generation: term.generation,
        max_parallelism,
        restored,
        files,
        clock: setup.clock,
        tokio: Handle::current(),
        reports,
    }))
}

/// Recovers the sinks, then the sources, then starts the tasks: what older generations decided is
/// carried out and their writers are locked out before anything new is written.
async fn start(attempt: &Arc<Attempt>) -> Result<(Committers, Sources, Tasks)> {
    let committers = Committers::recover(attempt).await?;
    let opened = Sources::open(attempt)
        .and_then(|sources| Tasks::start(attempt).map(|tasks| (sources, tasks)));
    match opened {
        Ok((sources, tasks)) => Ok((committers, sources, tasks)),
        Err(error) => {
            committers.close().await;
            Err(error)
        }
    }
}

fn machine(attempt: &Attempt, tasks: &Tasks, term: Term, clock: Clock) -> Coordinator<TaskPart> {
    let settings = &attempt.settings;
    let mut config = match settings.checkpoint_interval {
        Some(interval) => Config::every(interval),
        None => Config::on_request(),
    };
    // Jobs started together do not checkpoint together (F017).
    config.initial_delay = settings
        .checkpoint_interval
        .map_or(Duration::ZERO, |interval| {
            interval.mul_f64(clock.fraction())
        });
    config.min_pause = settings.checkpoint_pause;
    config.concurrent_max = settings.concurrent_checkpoints;
    config.timeout = settings.checkpoint_timeout;
    config.tolerable_failures = settings.tolerable_failures;
    let this = coordinate::Attempt::new(term.generation, term.first)
        .restored(attempt.restored.checkpoint());
    Coordinator::new(config, tasks.plan.clone(), this)
}

/// A decision, and the transactions that each sink must be able to commit after it.
type Sealed = (Decision<TaskPart>, BTreeMap<String, Vec<Prepared>>);

struct Driver<'a> {
    setup: Setup<'a>,
    attempt: Arc<Attempt>,
    machine: Coordinator<TaskPart>,
    leadership: Leadership,
    committers: Committers,
    sources: Sources,
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
    replies:
        BTreeMap<RequestId, std::sync::mpsc::Sender<Result<CheckpointId, coordinate::Refusal>>>,
    requests: u64,
}

impl Driver<'_> {
    async fn drive(
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
            let wake_at = deadline.map(|at| self.setup.clock.instant_of(at).into());
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

    async fn close(mut self) {
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
                    part,
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
                if is_fenced(&error) {
                    return Err(store_error("has a new owner")(error));
                }
                tracing::warn!(
                    checkpoint = checkpoint.get(),
                    error = chain(&error),
                    "the checkpoint could not be made durable"
                );
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
            Err(error) if is_fenced(&error) => Err(store_error("has a new owner")(error)),
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "the checkpoint store could not be tidied"
                );
                Ok(())
            }
        }
    }

    fn progress(&mut self, progress: Progress) {
        match progress {
            Progress::Nothing => {}
            Progress::Committed(checkpoint) => {
                if self.attempt.restored.checkpoint() < Some(checkpoint) {
                    self.setup.observer.reached(&Moment::Committed(checkpoint));
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
                let id = self.next_request();
                self.replies.insert(id, reply);
                self.handle(Event::Requested(Request::checkpoint(id)))
            }
        }
    }

    /// Asks for the job's last checkpoint.
    fn stop(&mut self) -> Result<()> {
        let request = Request::checkpoint(self.next_request()).then(Then::Suspend);
        self.handle(Event::Requested(request))
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
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
                Effect::Answer { request, outcome } => self.answer(request, outcome),
                Effect::End { .. } => {} // `ending` was set on completion.
                Effect::FailJob(failure) => return Err(job_failure(failure)),
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
        beside.summary = Some(checkpoint::summary(&decision.stats));
        let metadata = Box::new(checkpoint::metadata(&self.attempt, &decision, &beside));
        self.beside.insert(checkpoint, beside);
        self.setup.observer.reached(&Moment::Prepared(checkpoint));
        self.keeper.ask(Keep::Complete {
            metadata,
            reports: decision.reports,
        });
    }

    async fn completed(&mut self, checkpoint: CheckpointId, then: Then) -> Result<()> {
        self.history.has_completed = true;
        self.history.failures = 0;
        self.setup.shared.update(|status| {
            status.latest = Some(checkpoint);
            status.completed += 1;
        });
        let summary = self
            .beside
            .remove(&checkpoint)
            .and_then(|beside| beside.summary);
        if let Some(summary) = summary {
            tracing::info!(
                checkpoint = checkpoint.get(),
                duration_us = micros(summary.duration),
                start_delay_us = micros(summary.start_delay),
                alignment_us = micros(summary.alignment),
                sync_us = micros(summary.sync),
                async_us = micros(summary.r#async),
                bytes = summary.bytes,
                "checkpoint completed"
            );
            self.setup.observer.reached(&Moment::Completed(summary));
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
        self.tasks.tell_all(|| Control::Completed(checkpoint));
        let progress = self.committers.completed(checkpoint);
        self.progress(progress);
        Ok(())
    }

    fn aborted(&mut self, checkpoint: CheckpointId, reason: &str) {
        tracing::warn!(checkpoint = checkpoint.get(), reason, "checkpoint aborted");
        self.beside.remove(&checkpoint);
        self.setup.shared.update(|status| status.aborted += 1);
        self.committers.not_completed(checkpoint);
        self.tasks.tell_all(|| Control::Aborted(checkpoint));
        self.setup.observer.reached(&Moment::Aborted {
            checkpoint,
            reason: reason.to_owned(),
        });
    }

    fn answer(&mut self, request: RequestId, outcome: Result<CheckpointId, coordinate::Refusal>) {
        match (self.replies.remove(&request), outcome) {
            // Whoever asked may have gone.
            (Some(reply), outcome) => drop(reply.send(outcome)),
            (None, Ok(checkpoint)) => {
                tracing::info!(checkpoint = checkpoint.get(), "the job stops as asked");
            }
            (None, Err(refusal)) => {
                tracing::warn!(reason = refusal.to_string(), "the stop came to nothing");
            }
        }
    }
}

fn job_failure(failure: JobFailure) -> Error {
    let kind = match failure {
        JobFailure::Fenced => ErrorKind::Fenced,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, "the attempt cannot go on").with_source(failure)
}

/// A failure of the checkpoint store in the runtime's words.
pub(crate) fn store_error(what: &'static str) -> impl Fn(cutwater_storage::Error) -> Error {
    move |error| {
        let kind = match error.kind() {
            cutwater_storage::ErrorKind::Fenced { .. } => ErrorKind::Fenced,
            cutwater_storage::ErrorKind::Io => ErrorKind::Failed,
            _ => ErrorKind::Restore,
        };
        let message = match error.kind() {
            cutwater_storage::ErrorKind::Fenced { newer } => format!(
                "generation {newer} has taken over this checkpoint directory; this process stops \
                 and leaves it the field"
            ),
            _ => format!("the checkpoint store {what}"),
        };
        Error::new(kind, message).with_source(error)
    }
}

fn chain(error: &cutwater_storage::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
