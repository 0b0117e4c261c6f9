//! What was decided and done, and what must be true of it.

use std::sync::{Arc, Mutex};

use cutwater_barrier::CheckpointId;
use cutwater_storage::{
    CheckpointStore, Term,
    testkit::{MemoryBlobs, Stepped},
};
use futures::executor::block_on;

use crate::{
    coordinator::{coordinate, options},
    process::Process,
};

/// What a coordinator notes, for the checks only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    TookOver {
        term: Term,
        restored: Option<CheckpointId>,
    },
    /// Its transactions became visible.
    Sunk {
        term: Term,
        id: CheckpointId,
    },
    /// Its transactions were aborted.
    Aborted(CheckpointId),
    SteppedDown,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) blobs: MemoryBlobs,
    events: Mutex<Vec<Event>>,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The same up to now, to go on with differently.
    pub(crate) fn copy_of(world: &Self) -> Arc<Self> {
        Arc::new(Self {
            blobs: world.blobs.copy(),
            events: Mutex::new(world.events()),
        })
    }

    /// A coordinator on a store without faults.
    pub(crate) fn coordinator(self: &Arc<Self>, seed: u64, checkpoints: u64) -> Process {
        let blobs = Stepped(self.blobs.clone());
        Process::new(coordinate(blobs, seed, checkpoints, self.clone()))
    }

    pub(crate) fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// How many checkpoints were carried out.
    pub(crate) fn sunk(&self) -> usize {
        let events = self.events();
        events
            .iter()
            .filter(|event| matches!(event, Event::Sunk { .. }))
            .count()
    }

    /// Checks everything, then that a successor can go on.
    #[track_caller]
    pub(crate) fn check(self: &Arc<Self>, schedule: &str) {
        // Whatever is not durable by now may be gone after a power cut, and nothing may need it.
        self.blobs.cut_power();
        self.check_log(schedule);
        let before = self.sunk();
        self.coordinator(u64::MAX, 1).finish();
        assert_eq!(
            self.sunk(),
            before + 1,
            "{schedule}: a successor completes a checkpoint"
        );
        self.check_log(schedule);
    }

    #[track_caller]
    fn check_log(&self, schedule: &str) {
        let events = self.events();
        let mut store =
            block_on(CheckpointStore::open(self.blobs.clone(), options(0))).expect(schedule);
        let verified = block_on(store.verify(|verified| {
            assert!(
                verified.result.is_ok(),
                "{schedule}: {verified:?}\n{events:?}"
            );
        }));
        verified.expect(schedule);
        let retained: Vec<_> = store.list().map(|completed| completed.checkpoint).collect();
        let mut terms = Vec::new();
        for event in &events {
            match event {
                Event::TookOver { term, restored } => {
                    assert!(
                        !terms.contains(&term.generation),
                        "{schedule}: two of one generation\n{events:?}"
                    );
                    assert!(
                        *restored < Some(term.first),
                        "{schedule}: an id is used twice\n{events:?}"
                    );
                    terms.push(term.generation);
                }
                Event::Sunk { term: by, id } => {
                    for later in &events {
                        if let Event::TookOver { term, restored } = later
                            && term.generation > by.generation
                        {
                            assert!(
                                *restored >= Some(*id),
                                "{schedule}: {id} is written again\n{events:?}"
                            );
                        }
                    }
                    assert!(
                        retained.last() >= Some(id),
                        "{schedule}: {id} is lost\n{events:?}"
                    );
                    let aborted =
                        |event: &Event| matches!(event, Event::Aborted(other) if other == id);
                    assert!(
                        !events.iter().any(aborted),
                        "{schedule}: {id} has two fates\n{events:?}"
                    );
                }
                Event::Aborted(id) => {
                    assert!(
                        !retained.contains(id),
                        "{schedule}: {id} was aborted\n{events:?}"
                    );
                }
                Event::SteppedDown => {}
            }
        }
    }
}
