//! One execution attempt from taking over the checkpoint directory to its end.
//!
//! ```text
//!   take over ─▶ load the checkpoint ─▶ check it against the job ─▶ recover sinks ─▶ open sources
//!            ─▶ start tasks ─▶ drive (coordinator.rs) ─▶ close everything
//! ```

use std::{sync::Arc, time::Duration};

use cutwater_barrier::{
    CheckpointId, Coordinator,
    coordinate::{self, Config, TaskId},
};
use cutwater_storage::{self as storage, CheckpointStore, Completed, StateFiles, Term};
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    Error, ErrorKind, Restore, Result, Settings,
    attempt::{Attempt, NewestCompleted, Tasks},
    clock::Clock,
    committers::Committers,
    coordinator::Driver,
    error::store_error,
    graph::Graph,
    handle::{Command, Shared},
    keeper::Keeper,
    observe::{Moment, State},
    restore::RestorePoint,
    sources::Sources,
    supervisor::{History, cancelled},
    task::Report,
    topology::Topology,
    upload::TaskPart,
};

/// What an attempt is made of.
pub(crate) struct Setup<'a> {
    pub(crate) job: &'a str,
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) settings: &'a Settings,
    pub(crate) shared: &'a Shared,
    pub(crate) clock: Clock,
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
    // The log knows, also of a decision whose reply was lost.
    let first = *history.first.get_or_insert(term.generation);
    let latest = store.latest().map(Completed::generation);
    let restore = match latest {
        Some(latest) if latest >= first => Restore::Latest,
        _ => setup.settings.restore,
    };
    let old = restored(&store, restore, setup.graph).await?;
    let files = store.files().map_err(store_error("refused its files"))?;
    let leadership = store
        .leadership()
        .map_err(store_error("refused its leadership"))?;
    let (reporting, reports) = mpsc::unbounded_channel();
    let mut point = RestorePoint::new(old, Handle::current(), setup.settings);
    point.read_in_flight(setup.graph, setup.settings).await?;
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
    setup.settings.observer.reached(&Moment::Started {
        generation: term.generation,
        restored,
        records_in_flight: attempt.restored.records_in_flight(),
        parallelism: setup.settings.parallelism,
    });

    let (kept, keeping) = mpsc::unbounded_channel();
    let keeper = Keeper::start(&attempt.tokio, store, kept);
    let started = tokio::select! {
        started = start(&attempt) => started,
        () = cancel(commands) => Err(cancelled()),
    };
    let ended = match started {
        Ok(parts) => {
            let machine = machine(&attempt, &parts.tasks, term, setup.clock);
            let (mut driver, sealed) =
                Driver::new(setup, attempt, machine, parts, leadership, &keeper, history);
            let ended = driver.drive(reports, keeping, sealed, commands).await;
            driver.close().await;
            ended
        }
        Err(error) => Err(error),
    };
    keeper.close().await;
    ended
}

/// Waits until the job is to end without a checkpoint. A stop is remembered elsewhere; a checkpoint
/// cannot be taken yet.
async fn cancel(commands: &mut mpsc::UnboundedReceiver<Command>) {
    while let Some(Command::Stop | Command::Checkpoint(_)) = commands.recv().await {}
}

/// What to restore from, if anything.
async fn restored(
    store: &CheckpointStore,
    restore: Restore,
    graph: &Graph,
) -> Result<storage::RestorePoint> {
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
        let nothing = store.restore_nothing();
        return nothing.map_err(store_error("refused its files"));
    };
    store.restore(checkpoint).await.map_err(|error| {
        let kind = match error.kind() {
            storage::ErrorKind::Io => ErrorKind::Failed,
            _ => ErrorKind::Restore,
        };
        let message = format!("checkpoint {checkpoint} cannot be restored");
        Error::new(kind, message).with_source(error)
    })
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
    let graph = Arc::clone(setup.graph);
    let unchained = restored.edges_in_flight();
    let topology = Topology::new(graph, setup.settings.parallelism, unchained);
    Ok(Arc::new(Attempt {
        job: setup.job.to_owned(),
        graph: Arc::clone(setup.graph),
        topology,
        settings: setup.settings.clone(),
        generation: term.generation,
        max_parallelism,
        restored,
        files,
        clock: setup.clock,
        tokio: Handle::current(),
        reports,
        completed: NewestCompleted::default(),
    }))
}

/// What runs in an attempt.
pub(crate) struct Parts {
    pub(crate) committers: Committers,
    pub(crate) sources: Sources,
    pub(crate) tasks: Tasks,
}

/// Recovers the sinks, then the sources, then starts the tasks: what older generations decided is
/// carried out and their writers are locked out before anything new is written.
async fn start(attempt: &Arc<Attempt>) -> Result<Parts> {
    let committers = Committers::recover(attempt).await?;
    let opened = Sources::open(attempt)
        .and_then(|sources| Tasks::start(attempt).map(|tasks| (sources, tasks)));
    match opened {
        Ok((sources, tasks)) => Ok(Parts {
            committers,
            sources,
            tasks,
        }),
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
    config.mode = settings.barriers;
    config.align_after_expiry = attempt.topology.has_strict_channels();
    let this = coordinate::Attempt::new(term.generation, term.first)
        .restored(attempt.restored.checkpoint());
    Coordinator::new(config, tasks.plan.clone(), this)
}
