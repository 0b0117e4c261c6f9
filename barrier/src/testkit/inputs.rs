//! What is in an input channel, as far as the watch was told.

use alloc::collections::VecDeque;

use super::{Broken, Fed};
use crate::{Barrier, CheckpointId, align::Channel};

/// Barriers that a channel remembers. A task is never so many behind.
const PLACES_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Lane {
    channel: Channel,
    /// Records put in.
    fed: u64,
    /// Records taken out.
    pub(super) read: u64,
    /// What is in there besides records, each with the number of records before it.
    markers: VecDeque<(u64, Fed)>,
    /// How many records are before the newest barriers, taken out or not.
    places: VecDeque<(CheckpointId, u64)>,
    has_ended: bool,
}

impl Lane {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            fed: 0,
            read: 0,
            markers: VecDeque::new(),
            places: VecDeque::new(),
            has_ended: false,
        }
    }

    pub(super) fn feed(&mut self, item: Fed) {
        match item {
            Fed::Record => self.fed += 1,
            Fed::Barrier(Barrier { checkpoint, .. }) => {
                self.places.push_back((checkpoint, self.fed));
                if self.places.len() > PLACES_MAX {
                    self.places.pop_front();
                }
            }
            Fed::End => self.has_ended = true,
            Fed::Cancel(_) => {}
        }
        if item != Fed::Record {
            self.markers.push_back((self.fed, item));
        }
    }

    pub(super) fn read(&mut self, record: u64) -> Result<(), Broken> {
        let channel = self.channel;
        if let Some(&(at, marker)) = self.markers.front()
            && self.read == at
            && record >= at
        {
            return Err(Broken::ReadPastMarker {
                channel,
                record,
                checkpoint: checkpoint_of(marker),
            });
        }
        if record != self.read || self.read == self.fed {
            let due = self.read;
            return Err(Broken::ReadOutOfOrder {
                channel,
                record,
                due,
            });
        }
        self.read += 1;
        Ok(())
    }

    /// A marker was read in order.
    pub(super) fn take(&mut self, marker: Fed) -> Result<(), Broken> {
        let misreported = |unread| Broken::MisreportedMarker {
            channel: self.channel,
            checkpoint: checkpoint_of(marker),
            unread,
        };
        match self.markers.front() {
            Some(&(at, next)) if checkpoint_of(next) == checkpoint_of(marker) => {
                if at > self.read {
                    return Err(misreported(Some(self.read)));
                }
            }
            Some(_) | None => return Err(misreported(None)),
        }
        self.markers.pop_front();
        Ok(())
    }

    /// A barrier was taken out from between the records.
    pub(super) fn take_out(&mut self, checkpoint: CheckpointId) {
        self.markers.retain(
            |(_, marker)| !matches!(marker, Fed::Barrier(it) if it.checkpoint == checkpoint),
        );
    }

    pub(super) fn check_fed(&self, barrier: Barrier) -> Result<(), Broken> {
        let checkpoint = barrier.checkpoint;
        // Anywhere: the barrier of an older checkpoint, triggered late, may have come behind it.
        if self.places.iter().any(|&(marker, _)| checkpoint <= marker) {
            return Ok(());
        }
        Err(Broken::MisreportedMarker {
            channel: self.channel,
            checkpoint: Some(checkpoint),
            unread: None,
        })
    }

    /// The number of records before a checkpoint's own barrier or cancel marker, if that was fed. A newer
    /// barrier may be before it: a source sends them in the order in which it hears of them.
    pub(super) fn before_own(&self, checkpoint: CheckpointId) -> Option<u64> {
        let mut places = self.places.iter();
        let place = places.find(|(marker, _)| *marker == checkpoint);
        place.map(|&(_, before)| before)
    }

    /// The number of records that belong to a checkpoint, if that is certain by now.
    pub(super) fn before(&self, checkpoint: CheckpointId) -> Option<u64> {
        let mut places = self.places.iter();
        let place = places.find(|(barrier, _)| *barrier >= checkpoint);
        let end = self.has_ended.then_some(self.fed);
        place.map(|&(_, before)| before).or(end)
    }
}

fn checkpoint_of(marker: Fed) -> Option<CheckpointId> {
    match marker {
        Fed::Barrier(barrier) => Some(barrier.checkpoint),
        Fed::Cancel(checkpoint) => Some(checkpoint),
        Fed::Record | Fed::End => None,
    }
}
