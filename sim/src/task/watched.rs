//! The check for drivers that ships with the machines, beside this driver.

use cutwater_barrier::{
    Barrier, CheckpointId, Time,
    align::{Channel, Event, Input},
    testkit::{Did, Watch},
};

use super::machine::input_of;
use crate::{
    job::Job,
    lane::Lane,
    layout::{Layout, Seat},
};

/// A watch, in some of the runs: it costs time, and believes the driver nothing.
#[derive(Debug)]
pub(super) struct Watched {
    watch: Option<Watch>,
    /// The channels, by output.
    outputs: Vec<usize>,
}

impl Watched {
    pub(super) fn new(is_on: bool, job: &Job, layout: &Layout, seat: &Seat, aligns: bool) -> Self {
        let outputs = seat
            .outputs
            .iter()
            .flat_map(|(_, lanes)| lanes.iter().copied());
        let outputs: Vec<usize> = outputs.collect();
        let kind = |&channel: &usize| input_of(job, layout.channels[channel].edge);
        let watch = is_on.then(|| {
            let reached: Vec<Input> = outputs.iter().map(kind).collect();
            if aligns {
                Watch::aligner(seat.inputs.iter().map(kind), reached)
            } else {
                Watch::tracker(seat.inputs.len(), reached)
            }
        });
        Self { watch, outputs }
    }

    /// What others have put into the channels meanwhile.
    pub(super) fn fed(&mut self, inputs: &[usize], lanes: &mut [Lane]) {
        let Some(watch) = &mut self.watch else { return };
        for (index, &lane) in inputs.iter().enumerate() {
            for item in lanes[lane].take_fed() {
                watch
                    .fed(Channel(index), item)
                    .unwrap_or_else(|broken| panic!("{broken}"));
            }
        }
    }

    pub(super) fn told(&mut self, now: Time, event: Event) {
        if let Some(watch) = &mut self.watch {
            watch
                .told(now, event)
                .unwrap_or_else(|broken| panic!("{broken}"));
        }
    }

    pub(super) fn did(&mut self, did: Did) {
        if let Some(watch) = &mut self.watch {
            watch.did(did).unwrap_or_else(|broken| panic!("{broken}"));
        }
    }

    /// `count` records from number `first` on were saved.
    pub(super) fn saved(
        &mut self,
        checkpoint: CheckpointId,
        channel: Channel,
        first: u64,
        count: usize,
    ) {
        for record in (first..).take(count) {
            self.did(Did::Saved {
                checkpoint,
                channel,
                record,
            });
        }
    }

    /// A record went into a channel. What a lane calls its batch belongs to the channel here.
    pub(super) fn sent(&mut self, lane: usize) {
        if self.watch.is_some() {
            let output = self.output(lane);
            self.did(Did::Emitted { output });
            self.did(Did::Sent { output, records: 1 });
        }
    }

    pub(super) fn forwarded(&mut self, lane: usize, barrier: Barrier, announced: bool) {
        if self.watch.is_some() {
            let output = self.output(lane);
            self.did(Did::Forwarded {
                output,
                barrier,
                announced,
            });
        }
    }

    pub(super) fn cancelled(&mut self, lane: usize, checkpoint: CheckpointId) {
        if self.watch.is_some() {
            let output = self.output(lane);
            self.did(Did::ForwardedCancel { output, checkpoint });
        }
    }

    /// Nothing is left undone.
    pub(super) fn at_rest(&self) {
        if let Some(watch) = &self.watch {
            watch.at_rest().unwrap_or_else(|broken| panic!("{broken}"));
        }
    }

    fn output(&self, lane: usize) -> usize {
        let output = self.outputs.iter().position(|output| *output == lane);
        output.expect("one of the task's")
    }
}
