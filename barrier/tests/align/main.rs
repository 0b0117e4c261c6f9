//! What aligner and tracker do, told as transcripts: each line is an event and everything it causes.

mod aligned;
mod loops;
mod timeout;
mod tracker;
mod transcript;
mod unaligned;

use cutwater_barrier::align::{Channel, Event};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Time};

#[test]
fn a_finished_task_knows_the_last_checkpoint_it_saw() {
    let mut aligner = Aligner::new(1);
    assert_eq!(aligner.last(), None);
    let barrier = Barrier::checkpoint(CheckpointId::new(3), Time::ZERO);
    let channel = Channel(0);
    aligner
        .handle(Time::ZERO, Event::Barrier { channel, barrier })
        .unwrap();
    assert_eq!(aligner.last(), Some(CheckpointId::new(3)));
}
