//! Ids of checkpoints strictly increase, within and across attempts.

use cutwater_barrier::CheckpointId;

#[derive(Debug, Default)]
pub(crate) struct Ids {
    newest: Option<CheckpointId>,
    others: Vec<CheckpointId>,
}

impl Ids {
    /// A checkpoint's barrier was injected somewhere; it may be injected in several places, later
    /// ones also after a newer checkpoint has begun.
    pub(crate) fn triggered(&mut self, checkpoint: CheckpointId) {
        if !self.others.contains(&checkpoint) {
            assert!(
                self.newest < Some(checkpoint),
                "{checkpoint} after {:?}",
                self.newest
            );
            self.newest = Some(checkpoint);
            self.others.push(checkpoint);
        }
    }
}
