//! A running job, in the hands of whoever started it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc as std_mpsc,
    },
    thread::{self, JoinHandle},
};

use cutwater_barrier::{CheckpointId, Generation, coordinate::Refusal};
use cutwater_storage::{Blobs, SharedBlobs};
use tokio::{runtime, sync::mpsc};

use crate::{
    Error, ErrorKind, Job, Outcome, Result, Settings, Status,
    observe::State,
    supervisor::{Supervisor, guarantees},
};

/// What the job is asked to do.
pub(crate) enum Command {
    /// Take a checkpoint and end.
    Stop,
    /// Take a checkpoint and go on.
    Checkpoint(std_mpsc::Sender<Result<CheckpointId, Refusal>>),
    /// End now.
    Cancel,
}

/// Where a job and its handle meet.
#[derive(Clone)]
pub(crate) struct Shared {
    status: Arc<Mutex<Status>>,
    /// A stop outlives the attempt it was meant for.
    is_stopping: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn generation(&self) -> Option<Generation> {
        let status = self.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).generation
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

impl Job {
    /// Starts the job on threads of its own, with its checkpoints in `store`.
    ///
    /// # Errors
    ///
    /// [`Build`](ErrorKind::Build) if the job or the settings could not give what they promise.
    /// Whatever concerns a checkpoint or the store comes out of [`JobHandle::wait`].
    pub fn start(self, store: impl Blobs, settings: Settings) -> Result<JobHandle> {
        let graph = Arc::new(self.graph.take());
        graph.check()?;
        settings.check(&graph)?;
        let shared = Shared {
            status: Arc::new(Mutex::new(Status::new(guarantees(&graph, &settings)))),
            is_stopping: Arc::default(),
        };
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2) // I/O and protocol only: tasks have threads of their own
            .thread_name("cutwater")
            .enable_all()
            .build()
            .map_err(|error| {
                let message = "the job's I/O threads could not be started";
                Error::new(ErrorKind::Failed, message).with_source(error)
            })?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let supervisor = Supervisor::new(
            self.name.clone(),
            graph,
            settings,
            SharedBlobs::new(store),
            shared.clone(),
        );
        let tokio = runtime.handle().clone();
        let thread = thread::Builder::new()
            .name(format!("cutwater-{}", self.name))
            .spawn(move || runtime.block_on(supervisor.run(receiver)))
            .map_err(|error| {
                let message = format!("no thread could be started for job `{}`", self.name);
                Error::new(ErrorKind::Failed, message).with_source(error)
            })?;
        Ok(JobHandle {
            commands,
            shared,
            tokio,
            thread: Some(thread),
        })
    }
}

/// A running job. Dropping the handle cancels the job and waits for its threads.
pub struct JobHandle {
    commands: mpsc::UnboundedSender<Command>,
    shared: Shared,
    tokio: runtime::Handle,
    /// Taken by `wait`.
    thread: Option<JoinHandle<Result<Outcome>>>,
}

impl JobHandle {
    /// Waits until the job ends: with the end of its input, after a stop, or in failure.
    ///
    /// # Errors
    ///
    /// Why it did not end well. See [`ErrorKind`].
    pub fn wait(mut self) -> Result<Outcome> {
        let thread = self.thread.take().expect("only `wait` takes the thread");
        thread.join().unwrap_or_else(|_| {
            let message = "the job's supervisor panicked; this is a bug";
            Err(Error::new(ErrorKind::Failed, message))
        })
    }

    /// What the job is doing.
    pub fn status(&self) -> Status {
        let status = self.shared.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_over(&self) -> bool {
        matches!(self.status().state, State::Finished | State::Failed)
    }

    /// Has the job take a last checkpoint and end. A job restored from it continues where this one
    /// stopped. Returns at once: [`wait`](Self::wait) for the end.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.send(Command::Stop);
    }

    /// Takes a checkpoint now and waits until it is complete.
    ///
    /// # Errors
    ///
    /// If it was refused or came to nothing, with the reason.
    pub fn checkpoint(&self) -> Result<CheckpointId> {
        let (reply, answer) = std_mpsc::channel();
        self.send(Command::Checkpoint(reply));
        let refused = |reason: String| {
            let message = format!("the job took no checkpoint: {reason}");
            Error::new(ErrorKind::Failed, message)
        };
        match answer.recv() {
            Ok(Ok(checkpoint)) => Ok(checkpoint),
            Ok(Err(refusal)) => Err(refused(refusal.to_string())),
            Err(_) => Err(refused("its attempt has ended".to_owned())),
        }
    }

    /// Ends the job now, without a checkpoint. What was committed stays committed.
    pub fn cancel(&self) {
        self.send(Command::Cancel);
    }

    /// From now on SIGTERM and Ctrl-C (SIGINT) of this process [`stop`](Self::stop) the job.
    ///
    /// # Errors
    ///
    /// If the handlers cannot be installed.
    pub fn stop_on_signals(&self) -> Result<()> {
        let _inside = self.tokio.enter();
        let failed = |error: std::io::Error| {
            let message = "signal handlers could not be installed";
            Error::new(ErrorKind::Failed, message).with_source(error)
        };
        #[cfg(unix)]
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .map_err(failed)?;
        #[cfg(unix)]
        let mut interrupt =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
                .map_err(failed)?;
        let (commands, shared) = (self.commands.clone(), self.shared.clone());
        self.tokio.spawn(async move {
            #[cfg(unix)]
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            #[cfg(not(unix))]
            if tokio::signal::ctrl_c().await.map_err(failed).is_err() {
                return;
            }
            tracing::info!("a signal asks the job to stop: taking the last checkpoint");
            shared.is_stopping.store(true, Ordering::Release);
            // The job may have ended meanwhile.
            let _unheard = commands.send(Command::Stop);
        });
        Ok(())
    }

    /// A job that has ended hears nothing, and need not.
    fn send(&self, command: Command) {
        let _unheard = self.commands.send(command);
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.cancel();
            let _outcome = thread.join();
        }
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
