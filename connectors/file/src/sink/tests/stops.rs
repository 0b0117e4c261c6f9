//! A stop before every single step on disk.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer as _, CommitterContext, Input, Prepared, Sink as _, Writer as _, WriterContext,
    testkit::block_on,
};
use tempfile::TempDir;

use super::{
    super::{FileSink, JsonLines, Rolling, disk::Disk},
    Told, committed, told, visible,
};

/// Refuses every step after the first so many.
#[derive(Clone, Debug)]
pub(in crate::sink) struct Faults(Arc<AtomicUsize>);

impl Default for Faults {
    fn default() -> Self {
        Self::after(usize::MAX)
    }
}

impl Faults {
    fn after(steps: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(steps)))
    }

    pub(in crate::sink) fn step(&self) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.store(left - 1, Ordering::Relaxed);
        Ok(())
    }

    fn has_struck(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// What survives a crash.
#[derive(Clone, Default)]
struct Durable {
    generation: u64,
    checkpoint: u64,
    tokens: Vec<Prepared>,
    state: Vec<Vec<u8>>,
    position: u64,
    is_ended: bool,
}

const RECORDS: u64 = 12;

/// One attempt, from restore to the end or to its crash.
fn attempt(directory: &Path, durable: &mut Durable, faults: Faults, parallelism: u16) -> Told {
    durable.generation += 1;
    let generation = Generation::new(durable.generation);
    let mut sink =
        FileSink::new(directory, JsonLines::new()).rolling(Rolling::new(12, Duration::MAX));
    sink.disk = Disk { faults };
    block_on(async {
        let mut context = CommitterContext::new("job", "uid", generation);
        context.restored = durable.state.clone();
        let mut committer = sink.committer(context).await.map_err(told)?;
        committed(committer.commit(&durable.tokens).await)?;
        committer.fence(generation).await.map_err(told)?;
        committer.sweep().await.map_err(told)?;
        let mut writers = Vec::new();
        for subtask in 0..parallelism {
            let context = WriterContext::new("job", "uid", subtask, parallelism, generation);
            let share = durable.state.iter().skip(subtask.into());
            let share = share.step_by(parallelism.into());
            let writer = sink.writer(context, share.cloned().collect()).await;
            writers.push(writer.map_err(told)?);
        }
        let mut position = durable.position;
        while !durable.is_ended {
            for _ in 0..4 {
                let subtask = usize::try_from(position).unwrap() % usize::from(parallelism);
                let mut batch = vec![position];
                let write = writers[subtask].write(Time::ZERO, &mut batch);
                write.await.map_err(told)?;
                position += 1;
            }
            let is_ended = position == RECORDS;
            let input = if is_ended {
                Input::Ended
            } else {
                Input::Continues
            };
            durable.checkpoint += 1; // An id is not used again, also after a failed attempt.
            let checkpoint = CheckpointId::new(durable.checkpoint);
            let (mut tokens, mut state) = (Vec::new(), Vec::new());
            for writer in &mut writers {
                let flushed = writer.prepare(Time::ZERO, checkpoint, input).await;
                let flushed = flushed.map_err(told)?;
                tokens.extend(flushed.prepared);
                state.extend(flushed.state);
            }
            *durable = Durable {
                generation: durable.generation,
                checkpoint: durable.checkpoint,
                tokens,
                state,
                position,
                is_ended,
            };
            committed(committer.commit(&durable.tokens).await)?;
        }
        Ok(())
    })
}

fn at_most(directory: &Path, durable: &Durable, when: &str) {
    let mut seen = visible(directory);
    seen.sort_unstable();
    assert!(
        seen.windows(2).all(|pair| pair[0] < pair[1]),
        "{when}: doubled: {seen:?}"
    );
    assert!(
        seen.iter().all(|id| *id < durable.position),
        "{when}: too early: {seen:?}"
    );
}

fn exactly_all(directory: &Path, when: &str) {
    let mut seen = visible(directory);
    seen.sort_unstable();
    assert_eq!(seen, (0..RECORDS).collect::<Vec<_>>(), "{when}");
}

/// Every step of the first attempt is its last, be it a kill or a full disk; and of some of these
/// every step of the second is too. The third finishes.
#[test]
fn a_stop_before_any_step_on_disk_loses_nothing_and_doubles_nothing() {
    let mut is_finished = false;
    for first in 0.. {
        let run = |second: usize| {
            let directory = TempDir::new().unwrap();
            let path = directory.path();
            let mut durable = Durable::default();
            let when = format!("stopped before step {first}, then {second}");
            let faults = Faults::after(first);
            let outcome = attempt(path, &mut durable, faults.clone(), 2);
            assert!(
                outcome.is_ok() || faults.has_struck(),
                "{when}: {outcome:?}"
            );
            at_most(path, &durable, &when);
            let faults = Faults::after(second);
            let again = attempt(path, &mut durable, faults.clone(), 1);
            assert!(again.is_ok() || faults.has_struck(), "{when}: {again:?}");
            at_most(path, &durable, &when);
            attempt(path, &mut durable, Faults::default(), 3).expect(&when);
            exactly_all(path, &when);
            (outcome.is_ok(), again.is_ok())
        };
        is_finished = run(usize::MAX).0;
        if first % 5 == 0 {
            (0..).find(|second| run(*second).1);
        }
        if is_finished {
            break;
        }
    }
    assert!(is_finished);
}
