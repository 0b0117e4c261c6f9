//! Every interleaving of small cases, over the shipped structs: what the simulation only samples.
//!
//! A case is a set of scripts (channels, or senders of messages); in each state every script that may
//! go on is tried next, with a clone of the machine.

use std::collections::{BTreeMap, BTreeSet};

use cutwater_barrier::align::{Channel, Effect, Event, Input, Reading};
use cutwater_barrier::coordinate::{
    self, Attempt, Config, Decline, NotDurable, Plan, Request, RequestId, TaskId,
};
use cutwater_barrier::stats::TaskStats;
use cutwater_barrier::testkit::{Did, Fed, Watch};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Coordinator, Generation, Time};

#[derive(Clone, Copy, Debug)]
enum Item {
    Record,
    Barrier(u64),
    Cancel(u64),
    End,
}

use Item::{Cancel, End, Record};

/// Cases B01, F037, F038, F042, F043: two checkpoints over channels of unequal length.
#[test]
fn two_checkpoints_cut_right_in_every_order() {
    let b = Item::Barrier;
    let channels: [&[Item]; 2] = [
        &[Record, b(1), Record, b(2), Record, End],
        &[b(1), Record, Record, b(2), End],
    ];
    let runs = explore(&channels, &[]);
    assert!(
        runs.iter().all(|run| run.snapshots == [1, 2]),
        "nothing is given up"
    );

    let with_a_short_one: [&[Item]; 3] = [
        &[Record, b(1), Record, End],
        &[b(1), Record, b(2), End],
        &[Record, End],
    ];
    let runs = explore(&with_a_short_one, &[]);
    assert!(
        runs.iter().all(|run| run.snapshots == [1, 2]),
        "ends count as barriers"
    );
}

/// Cases B08, F039, F041, F044, F060, SPEC 2.5: an abort at every moment, and its double.
#[test]
fn an_abort_at_any_moment_hangs_and_leaks_nothing() {
    let b = Item::Barrier;
    let channels: [&[Item]; 2] = [
        &[Record, b(1), Record, b(2), End],
        &[b(1), Record, b(2), Record, End],
    ];
    let runs = explore(&channels, &[1, 1]);
    let outcomes: BTreeSet<_> = runs.into_iter().map(|run| run.snapshots).collect();
    assert_eq!(outcomes, BTreeSet::from([vec![1, 2], vec![2]]));
}

/// Cases F038, F040, F058: barriers that went missing upstream, with and without cancel markers.
#[test]
fn missing_barriers_and_cancel_markers_in_any_order_hang_nothing() {
    let b = Item::Barrier;
    let channels: [&[Item]; 3] = [
        &[b(1), Record, b(2), End],
        &[Cancel(1), Record, b(2), End],
        &[Record, b(2), End],
    ];
    let runs = explore(&channels, &[2]);
    assert!(
        runs.iter().all(|run| !run.snapshots.contains(&1)),
        "one channel never has it"
    );

    let channels: [&[Item]; 3] = [
        &[b(1), b(3), End],
        &[b(2), Cancel(3), End],
        &[b(1), b(2), b(3), End],
    ];
    let runs = explore(&channels, &[]);
    assert!(
        runs.iter().all(|run| !run.snapshots.contains(&3)),
        "it was cancelled"
    );
}

#[derive(Clone)]
struct Run {
    aligner: Aligner,
    /// The driver below is one like any other.
    watch: Watch,
    /// Items read of each channel.
    read: Vec<usize>,
    noticed: usize,
    records: Vec<u64>,
    snapshots: Vec<u64>,
    cancelled: Vec<u64>,
}

/// Runs every interleaving of `channels` and of the coordinator's `notices` of aborts, checks each, and
/// returns the runs.
fn explore(channels: &[&[Item]], notices: &[u64]) -> Vec<Run> {
    let run = Run {
        aligner: Aligner::new(channels.len()),
        watch: watch(channels),
        read: vec![0; channels.len()],
        noticed: 0,
        records: vec![0; channels.len()],
        snapshots: Vec::new(),
        cancelled: Vec::new(),
    };
    let mut ends = Vec::new();
    let mut open = vec![run];
    while let Some(run) = open.pop() {
        let mut is_end = true;
        for index in 0..channels.len() {
            let item = channels[index].get(run.read[index]);
            if let Some(&item) = item
                && run.aligner.reading(Channel(index)) != Reading::Blocked
            {
                is_end = false;
                let mut next = run.clone();
                next.read(channels, index, item);
                open.push(next);
            }
        }
        if let Some(&raw) = notices.get(run.noticed) {
            is_end = false;
            let mut next = run.clone();
            next.noticed += 1;
            let checkpoint = CheckpointId::new(raw);
            next.tell(channels, Event::Aborted { checkpoint });
            open.push(next);
        }
        if is_end {
            let lengths = channels.iter().map(|items| items.len());
            assert!(run.read.iter().copied().eq(lengths), "stuck: {run:?}");
            ends.push(run);
        }
    }
    ends
}

impl Run {
    fn read(&mut self, channels: &[&[Item]], index: usize, item: Item) {
        self.read[index] += 1;
        let channel = Channel(index);
        let event = match item {
            Record => {
                let record = self.records[index];
                self.did(Did::Read { channel, record });
                self.records[index] += 1;
                return;
            }
            Item::Barrier(raw) => Event::Barrier {
                channel,
                barrier: Barrier::checkpoint(CheckpointId::new(raw), Time::ZERO),
            },
            Cancel(raw) => Event::Cancelled {
                channel,
                checkpoint: CheckpointId::new(raw),
            },
            End => Event::Finished { channel },
        };
        self.tell(channels, event);
    }

    fn tell(&mut self, channels: &[&[Item]], event: Event) {
        self.watch.told(Time::ZERO, event).expect("it may");
        self.aligner
            .handle(Time::ZERO, event)
            .expect("the scripts are possible");
        while let Some(effect) = self.aligner.poll() {
            match effect {
                Effect::Snapshot(barrier) => {
                    let raw = barrier.checkpoint.get();
                    assert!(self.snapshots.last() < Some(&raw), "in order, once");
                    assert!(!self.cancelled.contains(&raw), "given up before");
                    for (items, &records) in channels.iter().zip(&self.records) {
                        assert_eq!(records, before(items, raw), "in the cut of {raw}: {self:?}");
                    }
                    self.snapshots.push(raw);
                    let checkpoint = barrier.checkpoint;
                    self.did(Did::Snapshotted { checkpoint });
                }
                Effect::ForwardCancel(id) => {
                    assert!(!self.cancelled.contains(&id.get()), "cancelled once");
                    self.cancelled.push(id.get());
                }
                Effect::Acknowledge { checkpoint, .. } => {
                    self.did(Did::Acknowledged { checkpoint });
                }
                Effect::Abort { checkpoint, .. } => self.did(Did::Aborted { checkpoint }),
                Effect::Forward(_) | Effect::Resume => {}
                Effect::Capture { .. } => panic!("nothing overtakes here"),
            }
        }
        self.watch.at_rest().expect("it has done all");
    }

    fn did(&mut self, did: Did) {
        self.watch.did(did).expect("it may");
    }
}

/// A watch that knows what the scripts put into the channels.
fn watch(channels: &[&[Item]]) -> Watch {
    let mut watch = Watch::aligner(vec![Input::Overtakable; channels.len()], []);
    for (index, items) in channels.iter().enumerate() {
        for item in *items {
            let item = match item {
                Record => Fed::Record,
                Item::Barrier(raw) => {
                    Fed::Barrier(Barrier::checkpoint(CheckpointId::new(*raw), Time::ZERO))
                }
                Cancel(raw) => Fed::Cancel(CheckpointId::new(*raw)),
                End => Fed::End,
            };
            watch.fed(Channel(index), item).expect("such a channel");
        }
    }
    watch
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "read {:?}, snapshots {:?}", self.read, self.snapshots)
    }
}

/// The records that come before the barrier on a channel, or before its end.
fn before(script: &[Item], checkpoint: u64) -> u64 {
    let until = script.iter().position(|item| match item {
        Item::Barrier(raw) => *raw >= checkpoint,
        _ => false,
    });
    let items = &script[..until.unwrap_or(script.len())];
    items.iter().filter(|item| matches!(item, Record)).count() as u64
}

type Message = coordinate::Event<u32>;

/// Cases F003 to F011, B18: acknowledgements, doubles, a decline, a stop and the decisions' outcomes in
/// every order. Each checkpoint has one outcome, each report comes out as often as it went in, what is
/// complete is not deleted.
#[test]
fn the_coordinator_accounts_for_everything_in_every_order() {
    let messages = [
        ack(1, 0),
        ack(1, 1),
        ack(2, 0),
        ack(2, 1),
        ack(1, 0), // a double
        coordinate::Event::Declined {
            generation: Generation::new(1),
            checkpoint: CheckpointId::new(2),
            task: TaskId(1),
            reason: Decline::Failed,
        },
        coordinate::Event::Stop,
    ];
    let mut open = vec![Job::new()];
    let mut ends = 0_u32;
    while let Some(job) = open.pop() {
        for (index, message) in messages.iter().enumerate() {
            if !job.told.contains(&index) {
                let mut next = job.clone();
                next.told.insert(index);
                next.tell(message.clone());
                open.push(next);
            }
        }
        for durable in [true, false] {
            if let Some((checkpoint, reports)) = job.deciding.clone() {
                let mut next = job.clone();
                next.deciding = None;
                let event = if durable {
                    next.durable.insert(checkpoint);
                    coordinate::Event::Decided { checkpoint }
                } else {
                    for report in &reports {
                        *next.inside.entry(report.part).or_default() += 1;
                    }
                    coordinate::Event::NotDecided {
                        checkpoint,
                        reason: NotDurable::Failed,
                        reports,
                    }
                };
                next.tell(event);
                open.push(next);
            }
        }
        if job.told.len() == messages.len() && job.deciding.is_none() {
            ends += 1;
            assert_eq!(
                job.outcomes.len(),
                2,
                "both have an outcome: {:?}",
                job.outcomes
            );
            assert!(
                job.inside.values().all(|&inside| inside == 0),
                "{:?}",
                job.inside
            );
            assert_eq!(job.coordinator.pending().count(), 0);
        }
    }
    assert!(ends > 5_000, "{ends} runs");
}

fn ack(checkpoint: u64, task: usize) -> Message {
    coordinate::Event::Acked {
        generation: Generation::new(1),
        checkpoint: CheckpointId::new(checkpoint),
        task: TaskId(task),
        part: u32::try_from(checkpoint).unwrap() * 10 + u32::try_from(task).unwrap(),
        stats: TaskStats::default(),
    }
}

#[derive(Clone)]
struct Job {
    coordinator: Coordinator<u32>,
    told: BTreeSet<usize>,
    deciding: Option<(CheckpointId, Vec<coordinate::Report<u32>>)>,
    durable: BTreeSet<CheckpointId>,
    outcomes: BTreeMap<CheckpointId, &'static str>,
    inside: BTreeMap<u32, u32>,
}

impl Job {
    /// A source and a sink, two checkpoints in progress.
    fn new() -> Self {
        let mut plan = Plan::new();
        let source = plan.task([]);
        plan.task([source]);
        let mut config = Config::on_request();
        config.concurrent_max = 2;
        config.tolerable_failures = 9;
        let attempt = Attempt::new(Generation::new(1), CheckpointId::new(1));
        let mut job = Self {
            coordinator: Coordinator::new(config, plan, attempt),
            told: BTreeSet::new(),
            deciding: None,
            durable: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            inside: BTreeMap::new(),
        };
        for task in [0, 1].map(TaskId) {
            job.tell(coordinate::Event::Running { task });
        }
        for id in [1, 2].map(RequestId) {
            job.tell(coordinate::Event::Requested(Request::checkpoint(id)));
        }
        assert_eq!(job.coordinator.pending().count(), 2);
        job
    }

    fn tell(&mut self, event: Message) {
        if let coordinate::Event::Acked { part, .. } = event {
            *self.inside.entry(part).or_default() += 1;
        }
        self.coordinator
            .handle(Time::ZERO, event)
            .expect("the messages are possible");
        while let Some(effect) = self.coordinator.poll() {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: coordinate::Effect<u32>) {
        use coordinate::Effect as E;
        match effect {
            E::Decide(decision) => {
                for report in &decision.reports {
                    self.out(report.part);
                }
                let decision = (decision.barrier.checkpoint, decision.reports);
                assert_eq!(self.deciding.replace(decision), None, "one at a time");
            }
            E::NotifyComplete { checkpoint, .. } => {
                assert!(
                    self.durable.contains(&checkpoint),
                    "complete before it is durable"
                );
                self.outcome(checkpoint, "complete");
            }
            E::NotifyAborted { checkpoint, .. } => self.outcome(checkpoint, "aborted"),
            E::NotifySubsumed { checkpoint, .. } => self.outcome(checkpoint, "subsumed"),
            E::Discard { checkpoint, report } => {
                assert!(
                    !self.durable.contains(&checkpoint),
                    "deleted what is complete"
                );
                self.out(report.part);
            }
            E::Leave { report, .. } => self.out(report.part),
            E::Trigger { .. } | E::Answer { .. } => {}
            E::End { .. } | E::FailJob(_) => panic!("neither is due here"),
        }
    }

    fn outcome(&mut self, checkpoint: CheckpointId, outcome: &'static str) {
        let before = self.outcomes.insert(checkpoint, outcome);
        assert_eq!(
            before, None,
            "checkpoint {checkpoint} has one outcome, not {outcome} as well"
        );
    }

    fn out(&mut self, report: u32) {
        let inside = self.inside.get_mut(&report).filter(|inside| **inside > 0);
        *inside.expect("a report comes out as often as it went in") -= 1;
    }
}
