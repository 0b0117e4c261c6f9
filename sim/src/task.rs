//! A task: the driver of an aligner or a tracker that an engine would write.
//!
//! ```text
//!   lanes ─ note ───▶ machine ─ Forward ──────▶ lanes, behind or ahead of what was sent
//!         ─ item ───▶ machine ─ Snapshot … ───▶ what the task has to store: News::Taken
//!                └──▶ records: counted, written, handed on
//! ```
//!
//! It does one thing at a time, and nothing that needs more room than there is. What the machine
//! wants is in [`align`].

mod align;
mod machine;
mod watched;

use std::collections::{BTreeMap, VecDeque};

use cutwater_barrier::{
    CheckpointId,
    align::{Channel, Reading},
    stats::TaskStats,
};
use cutwater_sink_2pc::{Unsettled, Writer};
use cutwater_state::SharedFiles;

use self::align::Capture;
pub(crate) use self::align::Notice;
use self::{machine::Machine, watched::Watched};
use crate::{
    env::Env,
    external::ExternalWriter,
    job::{Exchange, Job, Role},
    lane::Lane,
    layout::{Layout, Seat},
    record::{Id, Item, Record},
    restore::Beginning,
    stepped::at_once,
    stored::{ChannelName, Counts, Files, Frozen, Part},
};

/// A source without end takes a rest here, so that a run stays small.
pub(crate) const POSITION_MAX: u16 = 150;

/// With so many records on their way round, the head of a loop takes no new ones.
const LOOP_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) number: usize,
    operator: usize,
    machine: Machine,
    watched: Watched,
    inputs: Vec<Input>,
    counts: Counts,
    /// Of each key group that has not changed since, the file that holds its counts.
    files: Files,
    /// Which of them a checkpoint may name again.
    shared: SharedFiles,
    /// The last record seen of each split and key, where order is kept.
    latest: BTreeMap<(u8, u64), u16>,
    positions: BTreeMap<u8, u16>,
    /// Records that were on their way at the restored checkpoint. They come before all others.
    restored: VecDeque<(ChannelName, Record)>,
    writer: Option<ExternalWriter>,
    unsettled: Unsettled,
    capture: Option<Capture>,
    /// Whose turn it is to get a record that anybody may have.
    turn: usize,
    is_slow: bool,
    drained: bool,
    /// It has sent the barrier of a stop.
    stopped: bool,
    finished: bool,
}

/// A channel, as its reader sees it.
#[derive(Debug)]
struct Input {
    lane: usize,
    edge: usize,
    feedback: bool,
    drained: bool,
    ended: bool,
}

/// What a task tells the coordinator.
#[derive(Debug)]
pub(crate) enum News {
    /// Everything of a checkpoint is in hand, and is to be stored.
    Taken {
        checkpoint: CheckpointId,
        frozen: Box<Frozen>,
        stats: TaskStats,
    },
    GaveUp(CheckpointId),
    Drained,
    Finished(Option<CheckpointId>),
    /// It cannot go on. Perhaps a newer generation has locked it out.
    Failed {
        is_fenced: bool,
    },
}

/// What a task reaches when it works.
pub(crate) struct Surroundings<'a> {
    pub(crate) env: &'a mut Env,
    pub(crate) layout: &'a Layout,
    pub(crate) lanes: &'a mut [Lane],
    pub(crate) news: &'a mut Vec<News>,
    /// Whether no record will come to the loop from outside, and none is in it.
    pub(crate) loop_is_over: bool,
}

impl Task {
    pub(crate) fn new(
        env: &mut Env,
        layout: &Layout,
        number: usize,
        beginning: Beginning,
        writer: Option<ExternalWriter>,
    ) -> Self {
        let seat = &layout.tasks[number];
        let input = |&lane: &usize| {
            let edge = layout.channels[lane].edge;
            Input {
                lane,
                edge,
                feedback: env.job.edges[edge].feedback,
                drained: false,
                ended: false,
            }
        };
        let inputs: Vec<Input> = seat.inputs.iter().map(input).collect();
        let mut latest = BTreeMap::new();
        if env.job.is_ordered[seat.operator] {
            for id in beginning.counts.values().flat_map(BTreeMap::keys) {
                latest.insert((id.split, id.key()), id.position); // In the order of positions.
            }
        }
        let machine = Machine::new(&env.job, inputs.iter().map(|input| input.edge));
        let files = beginning.files.values();
        let files = files.map(|(name, bytes)| (name, bytes.len() as u64));
        Self {
            number,
            operator: seat.operator,
            watched: Watched::new(env.is_watched, &env.job, layout, seat, machine.aligns()),
            machine,
            inputs,
            counts: beginning.counts,
            shared: SharedFiles::restored(files),
            files: beginning.files,
            latest,
            positions: beginning.positions,
            restored: beginning.in_flight,
            writer,
            unsettled: Unsettled::new(),
            capture: None,
            turn: number,
            is_slow: env.random.percent(env.faults.slow),
            drained: false,
            stopped: false,
            finished: beginning.finished,
        }
    }

    /// Its part of a checkpoint is stored.
    pub(crate) fn written(&mut self, checkpoint: CheckpointId, part: &Part) {
        let files = part.subtask.keyed.iter().flat_map(|handle| &handle.files);
        let files = files.map(|file| (file.name.clone(), file.length));
        self.shared.written(checkpoint, files);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether every channel from outside a loop has delivered its last record.
    pub(crate) fn has_no_more_input(&self) -> bool {
        let outside = self.inputs.iter().filter(|input| !input.feedback);
        self.restored.is_empty() && outside.clone().all(|input| input.drained || input.ended)
    }

    pub(crate) fn operator(&self) -> usize {
        self.operator
    }

    /// Checks that the machine remembers no more than a few checkpoints, however many there were.
    pub(crate) fn check_bookkeeping(&self) {
        let length = format!("{:?}", self.machine).len();
        let bound = 4_000 + 200 * self.inputs.len();
        assert!(
            length < bound,
            "what task {} remembers has {length} characters",
            self.number
        );
    }

    /// The job's last checkpoint is complete: the task ends, and tells the newest checkpoint it knew.
    pub(crate) fn stop(&mut self) -> Option<Option<CheckpointId>> {
        self.watched.at_rest();
        let was_finished = std::mem::replace(&mut self.finished, true);
        (!was_finished).then(|| self.machine.last())
    }

    /// The end of its channels, which a task that begins as finished has to tell.
    pub(crate) fn send_end(&self, at: &mut Surroundings<'_>) {
        for lane in self.all_outputs(at.layout) {
            at.lanes[lane].send(Item::End);
            at.lanes[lane].flush(usize::MAX);
        }
    }

    /// Does one thing, if there is one to do. Whether there was.
    pub(crate) fn work(&mut self, at: &mut Surroundings<'_>) -> bool {
        if self.finished || (self.is_slow && at.env.is_faulty() && at.env.random.percent(85)) {
            return false;
        }
        let moved = self.flush(at);
        self.wake(at);
        if at.env.random.percent(70) && self.read_note(at) {
            return true;
        }
        if self.is_held_up(at) {
            return moved;
        }
        let did = if let Some(((edge, _), record)) = self.restored.pop_front() {
            self.process(edge, record, at);
            true
        } else if at.env.job.operators[self.operator].role == Role::Source {
            self.emit(at)
        } else {
            self.read(at)
        };
        self.end_input(at) || did || moved
    }

    fn flush(&self, at: &mut Surroundings<'_>) -> bool {
        let mut moved = false;
        let (capacity, batch) = (at.env.job.capacity, at.env.job.batch);
        for lane in self.all_outputs(at.layout) {
            let batched = at.lanes[lane].batched();
            if batched >= batch || (batched > 0 && at.env.random.percent(60)) {
                let is_bounded = !is_feedback(at, lane);
                moved |= at.lanes[lane].flush(if is_bounded { capacity } else { usize::MAX });
                if is_bounded {
                    at.lanes[lane].check_bound(capacity, batch);
                }
            }
        }
        moved
    }

    /// Whether some channel takes no more records for now.
    fn is_held_up(&self, at: &Surroundings<'_>) -> bool {
        self.all_outputs(at.layout)
            .any(|lane| at.lanes[lane].batched() >= at.env.job.batch && !is_feedback(at, lane))
    }

    fn all_outputs<'a>(&self, layout: &'a Layout) -> impl Iterator<Item = usize> + use<'a> {
        let outputs = layout.tasks[self.number].outputs.iter();
        outputs.flat_map(|(_, lanes)| lanes.iter().copied())
    }

    /// A source's turn: the next record of any split.
    fn emit(&mut self, at: &mut Surroundings<'_>) -> bool {
        if self.stopped {
            return false;
        }
        let end = |split: u8| at.env.job.splits[usize::from(split)].records;
        let more =
            |(split, position): &(&u8, &mut u16)| **position < end(**split).unwrap_or(POSITION_MAX);
        let mut ready: Vec<_> = self.positions.iter_mut().filter(more).collect();
        if ready.is_empty() {
            return false;
        }
        let (&split, position) = ready.swap_remove(at.env.random.index(ready.len()));
        let id = Id {
            split,
            position: *position,
        };
        *position += 1;
        let laps = id.laps();
        self.hand_on(Record { id, laps }, at);
        true
    }

    /// Reads one item of any channel that may be read.
    fn read(&mut self, at: &mut Surroundings<'_>) -> bool {
        // What is held back for the cut does not count: the cut may wait for what is outside.
        let is_blocked = |index| self.machine.reading(Channel(index)) == Reading::Blocked;
        let inside = self.inputs.iter().enumerate();
        let inside = inside.filter(|(index, input)| input.feedback && !is_blocked(*index));
        let inside: usize = inside.map(|(_, input)| at.lanes[input.lane].len()).sum();
        let count = self.inputs.len();
        let first = at.env.random.index(count);
        let readable = (first..first + count)
            .map(|index| index % count)
            .find(|&index| {
                let input = &self.inputs[index];
                at.lanes[input.lane].front().is_some()
                    && !is_blocked(index)
                    && (input.feedback || inside < LOOP_MAX)
            });
        let Some(index) = readable else { return false };
        let lane = self.inputs[index].lane;
        let item = at.lanes[lane].read().expect("there is a front");
        self.take(index, item, at);
        true
    }

    fn process(&mut self, edge: usize, record: Record, at: &mut Surroundings<'_>) {
        let seat = &at.layout.tasks[self.number];
        let is_owner = at.layout.owner(self.operator, record) == seat.subtask;
        if at.env.job.edges[edge].exchange == Exchange::Broadcast && !is_owner {
            return;
        }
        match at.env.job.operators[self.operator].role {
            Role::Source | Role::Pass => {}
            Role::Count => {
                assert!(
                    is_owner,
                    "{record:?} came to a subtask that does not own its key"
                );
                self.files.remove(&record.group());
                let counts = self.counts.entry(record.group()).or_default();
                *counts.entry(record.id).or_default() += 1;
                if at.env.job.is_ordered[self.operator] {
                    let Id { split, position } = record.id;
                    let before = self.latest.insert((split, record.id.key()), position);
                    assert!(
                        before < Some(position),
                        "record {split}/{position} comes after {before:?} of the same key"
                    );
                }
            }
            Role::Sink => {
                let writer = self.writer.as_mut().expect("a sink has a writer");
                let row = record.id.to_row();
                if let Err(error) = at_once(writer.write(at.env.now, &mut vec![row])) {
                    let is_fenced = error.newer_generation().is_some();
                    at.news.push(News::Failed { is_fenced });
                }
            }
        }
        self.hand_on(record, at);
    }

    fn hand_on(&mut self, record: Record, at: &mut Surroundings<'_>) {
        let seat = &at.layout.tasks[self.number];
        for (edge, laps) in at.env.job.outgoing(self.operator, record.laps) {
            let record = Record { laps, ..record };
            let lanes = outputs_of(seat, edge);
            match at.env.job.edges[edge].exchange {
                Exchange::Broadcast => {
                    for &lane in lanes {
                        self.send(lane, record, at.lanes);
                    }
                }
                Exchange::Forward => self.send(lanes[0], record, at.lanes),
                Exchange::Keyed => {
                    let owner = at.layout.owner(at.env.job.edges[edge].to, record);
                    self.send(lanes[usize::from(owner)], record, at.lanes);
                }
                Exchange::Rebalance => {
                    self.turn += 1;
                    self.send(lanes[self.turn % lanes.len()], record, at.lanes);
                }
            }
        }
    }

    fn send(&mut self, lane: usize, record: Record, lanes: &mut [Lane]) {
        lanes[lane].send(Item::Record(record));
        self.watched.sent(lane);
    }

    /// Tells everybody once there is nothing more to process; ends, if nothing will be asked of it.
    fn end_input(&mut self, at: &mut Surroundings<'_>) -> bool {
        if self.stopped || !self.is_input_over(at) {
            return false;
        }
        let has_ended = self.inputs.iter().all(|input| input.ended);
        let is_empty = self
            .all_outputs(at.layout)
            .all(|lane| at.lanes[lane].batched() == 0);
        if has_ended && at.env.job.operators[self.operator].finishes_early {
            // All that was sent has left, and what was cut is stored or on its way there.
            if is_empty && self.capture.is_none() {
                self.finished = true;
                self.send_end(at);
                at.news.push(News::Finished(self.machine.last()));
                return true;
            }
        } else if !self.drained {
            self.drained = true;
            let inside = |lane: &usize| is_feedback(at, *lane);
            let outside: Vec<usize> = self
                .all_outputs(at.layout)
                .filter(|lane| !inside(lane))
                .collect();
            for lane in outside {
                at.lanes[lane].send(Item::Drained);
            }
            at.news.push(News::Drained);
            return true;
        }
        false
    }

    fn is_input_over(&self, at: &Surroundings<'_>) -> bool {
        let job = &at.env.job;
        let is_head = self.inputs.iter().any(|input| input.feedback);
        match job.operators[self.operator].role {
            Role::Source => {
                let end = |split: u8| job.splits[usize::from(split)].records;
                let mut positions = self.positions.iter();
                positions.all(|(&split, &position)| end(split) == Some(position))
                    && job.is_bounded()
            }
            _ => self.has_no_more_input() && (!is_head || at.loop_is_over),
        }
    }
}

fn is_feedback(at: &Surroundings<'_>, lane: usize) -> bool {
    at.env.job.edges[at.layout.channels[lane].edge].feedback
}

fn outputs_of(seat: &Seat, edge: usize) -> &[usize] {
    let of = seat.outputs.iter().find(|(output, _)| *output == edge);
    &of.expect("an output of its operator").1
}

/// Whether nothing is in the loop of `job`, nor will be.
pub(crate) fn loop_is_over(job: &Job, layout: &Layout, tasks: &[Task], lanes: &[Lane]) -> bool {
    let Some(feedback) = job.feedback() else {
        return true;
    };
    let is_inside = |operator: usize| operator == feedback.from || operator == feedback.to;
    let mut lanes = layout.channels.iter().zip(lanes);
    let heads_are_over = tasks
        .iter()
        .filter(|task| task.operator() == feedback.to)
        .all(Task::has_no_more_input);
    let restored = tasks
        .iter()
        .any(|task| is_inside(task.operator()) && !task.restored.is_empty());
    heads_are_over
        && !restored
        && lanes.all(|(channel, lane)| {
            let edge = &job.edges[channel.edge];
            !(is_inside(edge.from) && is_inside(edge.to)) || lane.records().next().is_none()
        })
}
