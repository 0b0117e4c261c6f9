//! What the job's handle asks of the coordinator, and who waits for the answer.

use std::{collections::BTreeMap, sync::mpsc};

use cutwater_barrier::{
    CheckpointId, Then,
    coordinate::{Refusal, Request, RequestId},
};

/// Requests under way.
#[derive(Default)]
pub(crate) struct Requests {
    replies: BTreeMap<RequestId, mpsc::Sender<Result<CheckpointId, Refusal>>>,
    made: u64,
}

impl Requests {
    /// A checkpoint for somebody who waits for it.
    pub(crate) fn checkpoint(
        &mut self,
        reply: mpsc::Sender<Result<CheckpointId, Refusal>>,
    ) -> Request {
        let id = self.next();
        self.replies.insert(id, reply);
        Request::checkpoint(id)
    }

    /// The job's last checkpoint.
    pub(crate) fn stop(&mut self) -> Request {
        Request::checkpoint(self.next()).then(Then::Suspend)
    }

    /// Tells whoever waits.
    pub(crate) fn answer(&mut self, request: RequestId, outcome: Result<CheckpointId, Refusal>) {
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

    fn next(&mut self) -> RequestId {
        self.made += 1;
        RequestId(self.made)
    }
}
