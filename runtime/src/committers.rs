//! The committers of a job's sinks, from recovery to the last commit.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cutwater_barrier::CheckpointId;
use cutwater_sink_2pc::{CommitterContext, Notice, Prepared};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    Error, ErrorKind, Result,
    attempt::{Attempt, panic_message},
    function::Subtask,
    graph::Make,
    sink::{self, CommitterMessage, SinkNode},
};

/// What a committer tells the coordinator, with the sink's number.
pub(crate) enum Told {
    Notice(usize, Notice),
    /// It could not be opened, or broke its contract.
    Ended(Result<()>),
}

/// One committer for each sink, each on a thread of its own.
pub(crate) struct Committers {
    sinks: Vec<OpenSink>,
    told: mpsc::UnboundedReceiver<Told>,
    /// The newest completed checkpoint.
    completed: Option<CheckpointId>,
    /// The newest one that all sinks have committed.
    committed: Option<CheckpointId>,
}

struct OpenSink {
    uid: String,
    mailbox: mpsc::UnboundedSender<CommitterMessage>,
    thread: JoinHandle<()>,
    /// The newest checkpoint that it has committed.
    committed: Option<CheckpointId>,
}

/// What the coordinator has to act on.
pub(crate) enum Progress {
    /// All sinks have committed everything up to this checkpoint.
    Committed(CheckpointId),
    /// Writers may use again what was prepared for checkpoints before this one.
    Released {
        uid: String,
        before: CheckpointId,
    },
    Nothing,
}

impl Committers {
    /// Opens the committers and has them recover: commit what the restored checkpoint holds, then
    /// fence older generations, then sweep what they left. Returns when writers may open.
    pub(crate) async fn recover(attempt: &Arc<Attempt>) -> Result<Self> {
        let (telling, told) = mpsc::unbounded_channel();
        let mut sinks = Vec::new();
        for node in &attempt.graph.nodes {
            if let Make::Sink(sink) = &node.make {
                sinks.push(open(
                    attempt,
                    sinks.len(),
                    Arc::clone(sink),
                    telling.clone(),
                )?);
            }
        }
        let mut committers = Self {
            sinks,
            told,
            completed: attempt.restored.checkpoint(),
            committed: None,
        };
        let mut ready = 0;
        while ready < committers.sinks.len() {
            match committers.told().await {
                Told::Notice(_, Notice::Ready) => ready += 1,
                told => {
                    committers.progress(told)?;
                }
            }
        }
        Ok(committers)
    }

    /// What a committer says next. Never ends.
    pub(crate) async fn told(&mut self) -> Told {
        match self.told.recv().await {
            Some(told) => told,
            None => std::future::pending().await, // There are no sinks.
        }
    }

    /// Takes note of what a committer said.
    pub(crate) fn progress(&mut self, told: Told) -> Result<Progress> {
        match told {
            Told::Ended(ended) => ended.map(|()| Progress::Nothing),
            Told::Notice(sink, Notice::Failed(failure)) => {
                Err(sink::failure(&self.sinks[sink].uid, failure))
            }
            Told::Notice(sink, Notice::AllCommitted(checkpoint)) => {
                self.sinks[sink].committed = Some(checkpoint);
                Ok(self.newly_committed())
            }
            Told::Notice(sink, Notice::Released { before }) => Ok(Progress::Released {
                uid: self.sinks[sink].uid.clone(),
                before,
            }),
            Told::Notice(_, Notice::Ready) => Ok(Progress::Nothing),
        }
    }

    /// Tells all sinks that the checkpoint is complete.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) -> Progress {
        self.completed = self.completed.max(Some(checkpoint));
        for sink in &self.sinks {
            sink.tell(CommitterMessage::Completed(checkpoint));
        }
        self.newly_committed() // A job without sinks has nothing to wait for.
    }

    /// Tells all sinks that it will not be, and that the job goes on.
    pub(crate) fn not_completed(&self, checkpoint: CheckpointId) {
        for sink in &self.sinks {
            sink.tell(CommitterMessage::NotCompleted(checkpoint));
        }
    }

    /// Tells the sink `uid` what its tasks have prepared.
    pub(crate) fn prepared(&self, uid: &str, prepared: Vec<Prepared>) {
        if let Some(sink) = self.sinks.iter().find(|sink| sink.uid == uid) {
            sink.tell(CommitterMessage::Prepared(prepared));
        }
    }

    /// Asks every sink which transactions the checkpoint's metadata must name. The answers come when
    /// the committers get to it.
    pub(crate) fn seal(
        &self,
        checkpoint: CheckpointId,
    ) -> BTreeMap<String, oneshot::Receiver<Vec<Prepared>>> {
        let ask = |sink: &OpenSink| {
            let (reply, answer) = oneshot::channel();
            sink.tell(CommitterMessage::Seal { checkpoint, reply });
            (sink.uid.clone(), answer)
        };
        self.sinks.iter().map(ask).collect()
    }

    /// Lets committers finish the call they are in.
    pub(crate) async fn close(self) {
        let Self { sinks, told, .. } = self;
        drop(told);
        for OpenSink {
            mailbox, thread, ..
        } in sinks
        {
            drop(mailbox);
            let _panicked = thread.await;
        }
    }

    fn newly_committed(&mut self) -> Progress {
        let all = self.sinks.iter().map(|sink| sink.committed).min();
        let all = all.unwrap_or(self.completed);
        match all {
            Some(checkpoint) if self.committed < all => {
                self.committed = all;
                Progress::Committed(checkpoint)
            }
            _ => Progress::Nothing,
        }
    }
}

impl OpenSink {
    /// A committer that has ended has said why.
    fn tell(&self, message: CommitterMessage) {
        let _ended = self.mailbox.send(message);
    }
}

fn open(
    attempt: &Arc<Attempt>,
    number: usize,
    sink: Arc<dyn SinkNode>,
    telling: mpsc::UnboundedSender<Told>,
) -> Result<OpenSink> {
    let uid = sink.uid().to_owned();
    let restored = attempt
        .restored
        .checkpoint()
        .map(|checkpoint| (checkpoint, attempt.restored.prepared(&uid)));
    let mut context = CommitterContext::new(&attempt.job, &uid, attempt.generation);
    context.restored = attempt.restored.writer_state(&uid, Subtask::new(0, 1))?;
    let (mailbox, messages) = mpsc::unbounded_channel();
    let (tokio, clock) = (attempt.tokio.clone(), attempt.clock);
    let thread = attempt.tokio.spawn_blocking(move || {
        let notices = |notice| {
            let _nobody_listens = telling.send(Told::Notice(number, notice));
        };
        let commit = || tokio.block_on(sink.commit(context, restored, clock, messages, &notices));
        let ended = catch_unwind(AssertUnwindSafe(commit)).unwrap_or_else(|panic| {
            let message = format!(
                "the committer of sink `{}` panicked: {}",
                sink.uid(),
                panic_message(&*panic)
            );
            Err(Error::new(ErrorKind::Failed, message))
        });
        let _nobody_listens = telling.send(Told::Ended(ended));
    });
    Ok(OpenSink {
        uid,
        mailbox,
        thread,
        committed: None,
    })
}
