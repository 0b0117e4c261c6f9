//! A sink whose writers panic, some way into the run.

use std::time::Duration;

use cutwater_barrier::{CheckpointId, Time};
use cutwater_sink_2pc::{
    CommitterContext, Flushed, Guarantee, Input, Result, Sink, Writer, WriterContext,
    testkit::{MemoryCommitter, MemorySink, MemoryWriter},
};

/// Writes as the sink inside does, until a number has come 50 times.
pub(crate) struct Bomb(pub(crate) MemorySink);

impl Sink for Bomb {
    type Record = u64;
    type Writer = BombWriter;
    type Committer = MemoryCommitter;

    fn guarantee(&self) -> Guarantee {
        self.0.guarantee()
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        self.0.transaction_timeout()
    }

    async fn writer(&self, context: WriterContext, restored: Vec<Vec<u8>>) -> Result<BombWriter> {
        self.0.writer(context, restored).await.map(BombWriter)
    }

    async fn committer(&self, context: CommitterContext) -> Result<MemoryCommitter> {
        self.0.committer(context).await
    }
}

pub(crate) struct BombWriter(MemoryWriter);

impl Writer for BombWriter {
    type Record = u64;

    async fn write(&mut self, now: Time, batch: &mut Vec<u64>) -> Result<()> {
        assert!(batch[0] % 1_000_000 < 50, "as this test wants it");
        self.0.write(now, batch).await
    }

    async fn prepare(
        &mut self,
        now: Time,
        checkpoint: CheckpointId,
        input: Input,
    ) -> Result<Flushed> {
        self.0.prepare(now, checkpoint, input).await
    }

    async fn released(&mut self, before: CheckpointId) -> Result<()> {
        self.0.released(before).await
    }
}
