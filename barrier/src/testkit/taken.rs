//! What a task has taken for one checkpoint since the cut.

use alloc::vec::Vec;

use super::{Broken, inputs::Lane};
use crate::{CheckpointId, align::Channel};

#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) checkpoint: CheckpointId,
    /// Whether it is complete, so that it may be acknowledged.
    pub(super) is_ready: bool,
    lanes: Vec<Saved>,
}

#[derive(Clone, Debug)]
struct Saved {
    /// Records of the channel that the snapshot has.
    processed: u64,
    /// The next one to be saved.
    next: u64,
}

impl Taken {
    /// At the moment of the snapshot.
    pub(super) fn new(checkpoint: CheckpointId, lanes: &[Lane]) -> Self {
        let saved = |lane: &Lane| Saved {
            processed: lane.read,
            next: lane.read,
        };
        Self {
            checkpoint,
            is_ready: false,
            lanes: lanes.iter().map(saved).collect(),
        }
    }

    pub(super) fn save(
        &mut self,
        channel: Channel,
        record: u64,
        lane: &Lane,
    ) -> Result<(), Broken> {
        let checkpoint = self.checkpoint;
        let saved = &mut self.lanes[channel.0];
        if record < saved.processed {
            return Err(Broken::SavedProcessed {
                channel,
                record,
                checkpoint,
            });
        }
        if lane
            .before_own(checkpoint)
            .is_some_and(|before| record >= before)
        {
            return Err(Broken::SavedBehindBarrier {
                channel,
                record,
                checkpoint,
            });
        }
        if record < saved.next {
            return Err(Broken::SavedAgain {
                channel,
                record,
                checkpoint,
            });
        }
        if record > saved.next {
            let record = saved.next;
            return Err(Broken::NotSaved {
                channel,
                record,
                checkpoint,
            });
        }
        saved.next += 1;
        Ok(())
    }

    /// Whether everything that was in flight is there, now that all barriers are in.
    pub(super) fn check(&self, lanes: &[Lane]) -> Result<(), Broken> {
        for (index, lane) in lanes.iter().enumerate() {
            self.check_channel(Channel(index), lane)?;
        }
        Ok(())
    }

    pub(super) fn check_channel(&self, channel: Channel, lane: &Lane) -> Result<(), Broken> {
        let record = self.lanes[channel.0].next;
        match lane.before(self.checkpoint) {
            Some(before) if record < before => Err(Broken::NotSaved {
                channel,
                record,
                checkpoint: self.checkpoint,
            }),
            Some(_) | None => Ok(()),
        }
    }
}
