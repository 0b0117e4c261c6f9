//! A sink whose target cannot be reached: the job waits for it, and can be cancelled meanwhile.

use std::time::Duration;

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_runtime::{ErrorKind, Job};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};

use crate::common::{Barrage, numbers, settings, start};

/// Reports every attempt to fence, and fails it.
struct Unreachable(Barrage);

struct Unused;

impl Sink for Unreachable {
    type Record = u64;
    type Writer = Unused;
    type Committer = Fencing;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, _: WriterContext, _: Vec<Vec<u8>>) -> Result<Unused> {
        panic!("writers open only when older ones are locked out")
    }

    async fn committer(&self, _: CommitterContext) -> Result<Fencing> {
        Ok(Fencing(self.0.clone()))
    }
}

struct Fencing(Barrage);

impl Committer for Fencing {
    async fn commit(&mut self, _: &[Prepared]) -> Vec<Verdict> {
        panic!("nothing is prepared")
    }

    async fn probe(&mut self, _: &[Prepared]) -> Vec<Verdict> {
        panic!("nothing is prepared")
    }

    async fn abort(&mut self, _: &[Prepared]) -> Result<()> {
        panic!("nothing is prepared")
    }

    async fn fence(&mut self, _: Generation) -> Result<()> {
        self.0.pass();
        Err(Error::new("fencing older writers", "nobody answers"))
    }

    async fn sweep(&mut self) -> Result<()> {
        panic!("the fence comes first")
    }
}

impl Writer for Unused {
    type Record = u64;

    async fn write(&mut self, _: Time, _: &mut Vec<u64>) -> Result<()> {
        panic!("never opened")
    }

    async fn prepare(&mut self, _: Time, _: CheckpointId, _: Input) -> Result<Flushed> {
        panic!("never opened")
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        panic!("never opened")
    }
}

#[test]
fn a_job_that_waits_for_its_sink_can_be_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let asked = Barrage::default();
    let job = Job::new("stuck");
    job.source("numbers", numbers(10))
        .sink("out", Unreachable(asked.clone()));
    let handle = start(job, directory.path(), settings(1));
    asked.await_waiting();
    asked.open();
    // From here on the committer asks again and again, later each time, for a minute.
    handle.cancel();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{}", error.chain());
}
