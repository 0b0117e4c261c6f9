//! A sink in a job: its writers at the end of tasks, its committer beside the coordinator.
//!
//! The types of a sink end here. The committer runs as a task of its own ([`run_committer`]) and
//! exchanges messages with the coordinator, so a slow target never keeps a checkpoint from being
//! triggered.

use std::{future::Future, pin::Pin, time::Duration};

use cutwater_barrier::CheckpointId;
use cutwater_sink_2pc::{
    CommitterContext, Driver, Event, Failure, Guarantee, MachineError, Notice, Prepared, Retry,
    Sink, Unsettled, Writer, WriterContext,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout_at,
};

use crate::{
    Error, ErrorKind, Result,
    clock::Clock,
    function::Subtask,
    stage::{AnyStage, OperatorSnapshot, Stage, TaskError, TaskResult, Visit},
    task::TaskContext,
};

/// A sink of any type.
pub(crate) trait SinkNode: Send + Sync {
    fn uid(&self) -> &str;
    fn guarantee(&self) -> Guarantee;
    fn transaction_timeout(&self) -> Option<Duration>;

    /// The stage of one subtask.
    fn make(&self, context: &mut TaskContext) -> Result<AnyStage>;

    /// Opens the committer, for an attempt that continues from `restored`, and serves `mailbox` until
    /// it closes.
    fn commit<'a>(
        &'a self,
        context: CommitterContext,
        restored: Option<(CheckpointId, Vec<Prepared>)>,
        clock: Clock,
        mailbox: mpsc::UnboundedReceiver<CommitterMessage>,
        notices: &'a (dyn Fn(Notice) + Sync),
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
}

/// What the coordinator tells a committer.
pub(crate) enum CommitterMessage {
    /// Tasks have prepared these.
    Prepared(Vec<Prepared>),
    /// All reports of the checkpoint are in: which transactions must its metadata name?
    Seal {
        checkpoint: CheckpointId,
        reply: oneshot::Sender<Vec<Prepared>>,
    },
    /// The checkpoint is complete, durably.
    Completed(CheckpointId),
    /// The checkpoint will not be complete, and the job goes on.
    NotCompleted(CheckpointId),
}

/// A sink of a known type.
pub(crate) struct TypedSink<S> {
    pub(crate) uid: String,
    pub(crate) sink: S,
}

impl<S: Sink> TypedSink<S> {
    fn error(&self, doing: &str, source: cutwater_sink_2pc::Error) -> Error {
        let message = format!("sink `{}` failed {doing}", self.uid);
        Error::new(kind_of(&source), message).with_source(source)
    }
}

impl<S: Sink + 'static> SinkNode for TypedSink<S>
where
    S::Record: 'static,
{
    fn uid(&self) -> &str {
        &self.uid
    }

    fn guarantee(&self) -> Guarantee {
        self.sink.guarantee()
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        self.sink.transaction_timeout()
    }

    fn make(&self, context: &mut TaskContext) -> Result<AnyStage> {
        let attempt = &context.attempt;
        let subtask = Subtask::new(context.subtask, context.parallelism);
        let restored = attempt.restored.writer_state(&self.uid, subtask)?;
        let who = WriterContext::new(
            &attempt.job,
            &self.uid,
            context.subtask,
            context.parallelism,
            attempt.generation,
        );
        let writer = attempt
            .tokio
            .block_on(self.sink.writer(who, restored))
            .map_err(|error| self.error("to open a writer", error))?;
        Ok(AnyStage::new::<S::Record>(SinkStage {
            uid: self.uid.clone(),
            subtask,
            tokio: attempt.tokio.clone(),
            clock: attempt.clock,
            writer,
            unsettled: Unsettled::new(),
        }))
    }

    fn commit<'a>(
        &'a self,
        context: CommitterContext,
        restored: Option<(CheckpointId, Vec<Prepared>)>,
        clock: Clock,
        mailbox: mpsc::UnboundedReceiver<CommitterMessage>,
        notices: &'a (dyn Fn(Notice) + Sync),
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let mut driver = Driver::open(&self.sink, context, Retry::default(), restored)
                .await
                .map_err(|error| self.error("to open its committer", error))?;
            run_committer(&mut driver, clock, mailbox, notices)
                .await
                .map_err(|error| {
                    let message =
                        format!("the committer of sink `{}` broke its contract", self.uid);
                    Error::new(ErrorKind::Failed, message).with_source(error)
                })
        })
    }
}

/// Lets the machine work, and between its calls listens to the coordinator.
async fn run_committer<C: cutwater_sink_2pc::Committer>(
    driver: &mut Driver<C>,
    clock: Clock,
    mut mailbox: mpsc::UnboundedReceiver<CommitterMessage>,
    notices: &(dyn Fn(Notice) + Sync),
) -> Result<(), MachineError> {
    let now = move || clock.now();
    loop {
        while let Some(notice) = driver.advance(&now).await? {
            notices(notice);
        }
        let message = match driver.deadline().and_then(|at| clock.instant_of(at)) {
            None => mailbox.recv().await,
            Some(at) => match timeout_at(at.into(), mailbox.recv()).await {
                Ok(message) => message,
                Err(_elapsed) => continue,
            },
        };
        match message {
            None => return Ok(()),
            Some(CommitterMessage::Prepared(prepared)) => {
                driver.handle(now(), Event::Prepared(prepared))?;
            }
            Some(CommitterMessage::Seal { checkpoint, reply }) => {
                // Nobody waits for the answer when the attempt has just ended.
                let _unheard = reply.send(driver.seal(checkpoint));
            }
            Some(CommitterMessage::Completed(checkpoint)) => {
                driver.handle(now(), Event::Completed(checkpoint))?;
            }
            Some(CommitterMessage::NotCompleted(checkpoint)) => {
                driver.handle(now(), Event::NotCompleted(checkpoint))?;
            }
        }
    }
}

/// Whether another attempt may succeed, or another generation has taken the sink over.
fn kind_of(error: &cutwater_sink_2pc::Error) -> ErrorKind {
    match error.newer_generation() {
        Some(_) => ErrorKind::Fenced,
        None => ErrorKind::Failed,
    }
}

/// Why the job stops, in the runtime's words.
pub(crate) fn failure(uid: &str, failure: Failure) -> Error {
    let kind = match &failure {
        Failure::Lost { .. } => ErrorKind::Lost,
        Failure::Fenced { .. } => ErrorKind::Fenced,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, format!("sink `{uid}` stopped the job")).with_source(failure)
}

/// The end of a chain: a writer, driven from its task's thread.
struct SinkStage<W> {
    uid: String,
    subtask: Subtask,
    tokio: tokio::runtime::Handle,
    clock: Clock,
    writer: W,
    unsettled: Unsettled,
}

impl<W: Writer> SinkStage<W> {
    fn failed(&self, doing: &str, error: cutwater_sink_2pc::Error) -> TaskError {
        let message = format!(
            "sink `{}` failed {doing} in subtask {}",
            self.uid, self.subtask.index
        );
        Error::new(kind_of(&error), message)
            .with_source(error)
            .into()
    }
}

impl<W: Writer> Stage<W::Record> for SinkStage<W> {
    fn process(&mut self, batch: &mut Vec<W::Record>) -> TaskResult {
        if batch.is_empty() {
            return Ok(());
        }
        let written = self
            .tokio
            .block_on(self.writer.write(self.clock.now(), batch));
        written.map_err(|error| self.failed("to write", error))
    }

    fn visit(&mut self, visit: &mut Visit<'_>) -> TaskResult {
        match visit {
            Visit::Snapshot(snapshots) => {
                let checkpoint = snapshots.checkpoint;
                let prepare = self
                    .writer
                    .prepare(self.clock.now(), checkpoint, snapshots.input);
                let flushed = self.tokio.block_on(prepare);
                let flushed = flushed.map_err(|error| self.failed("to prepare", error))?;
                snapshots.operators.push(OperatorSnapshot {
                    uid: self.uid.clone(),
                    prepared: self.unsettled.report(flushed.prepared).to_vec(),
                    pieces: flushed.state,
                    ..OperatorSnapshot::default()
                });
            }
            Visit::Completed(checkpoint) => self.unsettled.completed(*checkpoint),
            Visit::Released(before) => {
                let released = self.tokio.block_on(self.writer.released(*before));
                released.map_err(|error| self.failed("to release transaction ids", error))?;
            }
            Visit::Flush
            | Visit::Barrier(_)
            | Visit::Cancel(_)
            | Visit::EndOfData
            | Visit::Probe(_)
            | Visit::Timers(_)
            | Visit::Aborted(_) => {}
        }
        Ok(())
    }
}
