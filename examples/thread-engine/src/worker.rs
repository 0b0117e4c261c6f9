//! A worker: counts the words of its key groups, and takes part in checkpoints.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::mpsc::{Receiver, Sender},
};

use cutwater_barrier::{
    Aligner, Barrier, CheckpointId, Then, Time,
    align::{Channel, Effect, Event},
    coordinate::{self, TaskId},
    stats::TaskStats,
};
use cutwater_keygroups::{KeyGroupRange, KeyHash};
use cutwater_sink_2pc::{Input, Prepared, Sink, Writer, WriterContext};
use cutwater_state::{Handle, Keyed, KeyedStates, OperatorStates, Restored, ValueState};
use cutwater_storage::{KeyedHandle, StateFiles, Subtask};
use futures::executor::block_on;

use crate::{COUNT, MAX_PARALLELISM, Result};

/// What a worker hears.
#[derive(Clone)]
pub(crate) enum Message {
    In(Channel, Item),
    Completed(CheckpointId),
    Released { before: CheckpointId },
}

/// What flows through a channel. The hash is computed once and travels with the key.
#[derive(Clone)]
pub(crate) enum Item {
    Word(String, KeyHash),
    Barrier(Barrier),
}

/// What a task reports to the coordinator: its place in the metadata, and what its writer prepared.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) subtask: Subtask,
    pub(crate) prepared: Vec<Prepared>,
}

/// One worker thread, and everything it is given.
pub(crate) struct Worker<'a> {
    pub(crate) context: WriterContext,
    pub(crate) groups: KeyGroupRange,
    /// The subtasks of the restored checkpoint, however many there were.
    pub(crate) old: &'a [Subtask],
    /// What old writers left for this one.
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) files: StateFiles,
    /// How many sources there are.
    pub(crate) channels: usize,
    pub(crate) reports: Reports,
}

/// A task's way to the coordinator. When the task ends, however it does, the coordinator hears that.
pub(crate) struct Reports {
    pub(crate) task: TaskId,
    pub(crate) coordinator: Sender<coordinate::Event<Part>>,
}

impl Reports {
    fn send(&self, event: coordinate::Event<Part>) {
        let _nobody_listens_after_a_crash = self.coordinator.send(event);
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.send(coordinate::Event::Lost { task: self.task });
    }
}

impl Worker<'_> {
    /// Works until nobody can send to `inbox` any more, and returns the counts.
    ///
    /// A failure of any kind ends the worker, which ends the attempt; nothing is declined.
    pub(crate) fn run(
        self,
        sink: &impl Sink<Record = String>,
        inbox: Receiver<Message>,
        clock: impl Fn() -> Time,
    ) -> Result<Vec<(String, u64)>> {
        // The state reads from all old subtasks what belongs to its key groups, and nothing else.
        let old = self.old.iter().flat_map(|subtask| &subtask.keyed);
        let old = old.map(|handle| restored(handle, self.files.clone()));
        let mut states = KeyedStates::<String>::restore(COUNT, self.groups, MAX_PARALLELISM, old)?;
        let count = states.value::<u64>("count")?;
        if let Some(name) = states.undeclared().first() {
            return Err(format!("state `{name}` was restored, and nobody declared it").into());
        }
        let writer = block_on(sink.writer(self.context.clone(), self.pieces.clone()))?;
        let mut task = Task {
            worker: self,
            states,
            count,
            writer,
        };
        let reports = &task.worker.reports;
        reports.send(coordinate::Event::Running { task: reports.task });

        let mut aligner = Aligner::new(task.worker.channels);
        let mut held_back = VecDeque::new();
        for message in inbox {
            match message {
                Message::In(channel, item) => held_back.push_back((channel, item)),
                Message::Completed(checkpoint) => task.states.confirmed(checkpoint),
                Message::Released { before } => block_on(task.writer.released(before))?,
            }
            // The oldest item of a channel that is not blocked: order is kept within each channel.
            while let Some(at) = held_back
                .iter()
                .position(|(channel, _)| !aligner.is_blocked(*channel))
            {
                let (channel, item) = held_back.remove(at).expect("found just now");
                match item {
                    Item::Word(word, hash) => task.count(&word, hash, clock())?,
                    Item::Barrier(barrier) => {
                        aligner.handle(clock(), Event::Barrier { channel, barrier })?;
                    }
                }
                while let Some(effect) = aligner.poll() {
                    match effect {
                        Effect::Snapshot { barrier, alignment } => {
                            task.snapshot(barrier, TaskStats::new(alignment), &clock)?;
                        }
                        Effect::Abort { .. } => return Err("a checkpoint was given up".into()),
                        // Nothing is downstream, and `is_blocked` is asked before each item anyway.
                        Effect::Forward(_) | Effect::ForwardCancel(_) | Effect::Resume => {}
                    }
                }
            }
        }
        let counts = task.states[task.count].iter();
        Ok(counts.map(|(word, count)| (word.clone(), *count)).collect())
    }
}

/// A worker that is set up.
struct Task<'a, W> {
    worker: Worker<'a>,
    states: KeyedStates<String>,
    count: Handle<ValueState<String, u64>>,
    writer: W,
}

impl<W: Writer<Record = String>> Task<'_, W> {
    fn count(&mut self, word: &String, hash: KeyHash, now: Time) -> Result<()> {
        let count = &mut self.states[self.count];
        let count = count.or_insert_with(Keyed::with_hash(word, hash), || 0)?;
        *count += 1;
        block_on(self.writer.write(now, &mut vec![format!("{word} {count}")]))?;
        Ok(())
    }

    /// Flushes the writer, fixes the state, stores it, and acknowledges.
    ///
    /// The task stands still for all of it. Only the first two have to be done here: what
    /// `KeyedStates::snapshot` returns could go to another thread.
    fn snapshot(
        &mut self,
        barrier: Barrier,
        stats: TaskStats,
        clock: impl Fn() -> Time,
    ) -> Result<()> {
        let checkpoint = barrier.checkpoint;
        let input = match barrier.then {
            Then::Drain => Input::Ended,
            Then::Continue | Then::Suspend => Input::Continues,
        };
        let flushed = block_on(self.writer.prepare(clock(), checkpoint, input))?;
        let mut pieces = OperatorStates::new(COUNT);
        let list = pieces.list::<Vec<u8>>("writer")?;
        pieces[list] = flushed.state;

        let mut files = Vec::new();
        let snapshot = self.states.snapshot(checkpoint).run(&mut |file| {
            let subtask = u32::try_from(self.worker.context.subtask)?;
            let mut writer = self
                .worker
                .files
                .writer(checkpoint, COUNT, subtask, &file.name);
            block_on(writer.write(file.bytes))?;
            files.push(block_on(writer.finish())?);
            Ok(())
        })?;

        let mut report = Part {
            prepared: flushed.prepared,
            ..Part::default()
        };
        let handle = KeyedHandle::new(vec![snapshot.groups], snapshot.manifest, files);
        report.subtask.keyed.push(handle);
        report.subtask.operator_state = pieces.snapshot()?.unwrap_or_default().into();
        self.worker.reports.send(coordinate::Event::Acked {
            generation: self.worker.context.generation,
            checkpoint,
            task: self.worker.reports.task,
            report,
            stats,
        });
        Ok(())
    }
}

/// A handle of the checkpoint, as the state reads it: what it needs, range by range.
fn restored(handle: &KeyedHandle, store: StateFiles) -> Restored {
    let files = handle.files.clone();
    Restored::new(
        handle.manifest.to_vec(),
        move |name: &str, range: Range<u64>| {
            let file = files
                .iter()
                .find(|file| file.name == name)
                .ok_or("no such file")?;
            Ok(block_on(store.read(file, range))?.to_vec())
        },
    )
}
