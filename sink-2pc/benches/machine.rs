//! What the committer's machine costs a transaction, from the report to the confirmed commit, against
//! a queue that takes the same transactions in and gives them out.
//!
//! One iteration is one checkpoint: reported, sealed, completed, committed by one call, confirmed. The
//! target answers at once, so all of it is the machine's own time. Both sides make the tokens.

use std::{collections::VecDeque, hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput};
use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{Call, Effect, Event, Guarantee, Machine, Prepared, Reply, Retry, Verdict};

/// About as long as that of a file.
const TOKEN_BYTES: usize = 64;

/// The transactions of one checkpoint, in the order of their subtasks.
fn prepared(checkpoint: CheckpointId, count: usize) -> Vec<Prepared> {
    let token = |index: usize| {
        let mut token = vec![0; TOKEN_BYTES];
        token[..8].copy_from_slice(&checkpoint.get().to_le_bytes());
        token[8..16].copy_from_slice(&index.to_le_bytes());
        token
    };
    (0..count)
        .map(|index| Prepared::new(checkpoint, token(index)))
        .collect()
}

/// Carries out what is asked for, as a target that is never in doubt.
fn answer(machine: &mut Machine) {
    while let Some(effect) = machine.poll() {
        let Effect::Call(id, call) = black_box(effect) else {
            continue;
        };
        let reply = match call {
            Call::Commit(asked) => Reply::Verdicts(vec![Verdict::Committed; asked.len()]),
            Call::Fence(_) | Call::Sweep => Reply::Done(Ok(())),
            Call::Probe(_) | Call::Abort(_) => unreachable!("nothing is in doubt or undone"),
        };
        let replied = Event::Replied(id, reply);
        machine.handle(Time::ZERO, replied).expect("it was asked");
    }
}

fn transactions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transaction");
    for count in [1, 16, 256] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("bare queue", count), |bencher| {
            let mut queue = VecDeque::new();
            let mut checkpoint = CheckpointId::new(0);
            bencher.iter(|| {
                checkpoint = checkpoint.next();
                for one in prepared(checkpoint, count) {
                    queue.push_back(one);
                }
                while let Some(one) = queue.pop_front() {
                    black_box(one);
                }
            });
        });
        for guarantee in [
            Guarantee::AtomicPerTransaction,
            Guarantee::AtomicPerCheckpoint,
        ] {
            let id = BenchmarkId::new(format!("machine, {guarantee:?}"), count);
            group.bench_function(id, |bencher| {
                let mut machine =
                    Machine::new(Generation::new(1), guarantee, Retry::default(), None);
                answer(&mut machine);
                assert!(machine.is_ready());
                let mut checkpoint = CheckpointId::new(0);
                bencher.iter(|| {
                    checkpoint = checkpoint.next();
                    let reported = Event::Prepared(prepared(checkpoint, count));
                    machine.handle(Time::ZERO, reported).expect("in order");
                    black_box(machine.seal(checkpoint));
                    let completed = Event::Completed(checkpoint);
                    machine.handle(Time::ZERO, completed).expect("in order");
                    answer(&mut machine);
                });
                assert!(machine.is_settled());
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(900))
        .configure_from_args();
    transactions(&mut criterion);
    criterion.final_summary();
}
