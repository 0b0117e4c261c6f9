//! The driver on a plain thread, against the reference sink.

use std::{
    cell::RefCell,
    future::{Future, pending},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Driver, Error, Event, Failure, Flushed, Guarantee, Input, Machine,
    MachineError, Notice, Prepared, Result, Retry, Settled, Sink, Verdict, Writer, WriterContext,
    testkit::{MemoryTarget, Target, block_on},
};

fn generation() -> Generation {
    Generation::new(1)
}

fn machine() -> Machine {
    Machine::new(
        generation(),
        Guarantee::AtomicPerTransaction,
        Retry::default(),
        None,
    )
}

/// Two rows, prepared for checkpoint 1.
fn prepare(target: &MemoryTarget) -> Flushed {
    let context = WriterContext::new("job", "sink", 0, 1, generation());
    block_on(async {
        let mut writer = target.sink().writer(context, Vec::new()).await.unwrap();
        writer.write(Time::ZERO, &mut vec![1, 2]).await.unwrap();
        let checkpoint = CheckpointId::new(1);
        let flushed = writer.prepare(Time::ZERO, checkpoint, Input::Ended).await;
        flushed.unwrap()
    })
}

fn committer(target: &MemoryTarget) -> impl Committer + use<> {
    let context = CommitterContext::new("job", "sink", generation());
    block_on(target.sink().committer(context)).unwrap()
}

fn restored(target: &MemoryTarget, flushed: Flushed) -> Driver<impl Committer + use<>> {
    let machine = Machine::new(
        Generation::new(2),
        Guarantee::AtomicPerTransaction,
        Retry::default(),
        Some((CheckpointId::new(1), flushed.prepared)),
    );
    Driver::new(machine, committer(target))
}

/// B52: the process died between the checkpoint and the commit.
#[test]
fn successor_commits_what_the_checkpoint_names() {
    let target = MemoryTarget::new();
    let mut driver = restored(&target, prepare(&target));
    let clock = || Time::ZERO;
    let first = block_on(driver.advance(&clock)).unwrap();
    assert!(matches!(first, Some(Notice::AllCommitted(_))), "{first:?}");
    let second = block_on(driver.advance(&clock)).unwrap();
    assert!(matches!(second, Some(Notice::Ready)), "{second:?}");
    assert_eq!(target.rows(), [1, 2]);
}

/// B54a: the server aborted it by its own timeout before the successor came.
#[test]
fn transaction_that_timed_out_in_the_target_ends_as_lost() {
    let target = MemoryTarget::new();
    let flushed = prepare(&target);
    let named = flushed.prepared.clone();
    target.time_out();
    let mut driver = restored(&target, flushed);
    match block_on(driver.advance(&|| Time::ZERO)).unwrap() {
        Some(Notice::Failed(failure @ Failure::Lost { .. })) => {
            assert!(failure.to_string().contains("checkpoint 1"), "{failure}");
        }
        other => panic!("{other:?}"),
    }
    let listed: Vec<Prepared> = driver.machine().pending().cloned().collect();
    assert_eq!(listed, named);
    assert!(!driver.machine().is_ready());
}

/// A committer whose first call takes effect and never answers.
struct Hanging<C> {
    inner: C,
    calls: Arc<AtomicU64>,
}

impl<C: Committer> Committer for Hanging<C> {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let verdicts = self.inner.commit(prepared).await;
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            pending::<()>().await;
        }
        verdicts
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.inner.probe(prepared).await
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        self.inner.abort(prepared).await
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        self.inner.fence(generation).await
    }

    async fn sweep(&mut self) -> Result<()> {
        self.inner.sweep().await
    }
}

#[test]
fn dropped_call_is_in_doubt_and_asked_about() {
    let target = MemoryTarget::new();
    let calls = Arc::new(AtomicU64::new(0));
    let hanging = Hanging {
        inner: committer(&target),
        calls: calls.clone(),
    };
    let mut driver = Driver::new(machine(), hanging);
    let now = AtomicU64::new(0);
    let clock = || Time::from_millis(now.load(Ordering::Relaxed));
    let ready = block_on(driver.advance(&clock)).unwrap();
    assert!(matches!(ready, Some(Notice::Ready)), "{ready:?}");

    let prepared = prepare(&target).prepared;
    driver.handle(clock(), Event::Prepared(prepared)).unwrap();
    let completed = Event::Completed(CheckpointId::new(1));
    driver.handle(clock(), completed).unwrap();
    {
        let mut advance = pin!(driver.advance(&clock));
        let mut context = Context::from_waker(Waker::noop());
        let polled = advance.as_mut().poll(&mut context);
        assert!(matches!(polled, Poll::Pending));
    } // An engine's timeout drops it here.
    assert_eq!(driver.deadline(), Some(Time::ZERO));
    let nothing = block_on(driver.advance(&clock)).unwrap();
    assert!(nothing.is_none(), "no success yet: {nothing:?}");
    assert_eq!(driver.machine().in_doubt().count(), 1);

    let at = driver.deadline().expect("a probe is planned");
    now.store(at.since_start().as_millis() as u64, Ordering::Relaxed);
    let told = block_on(driver.advance(&clock)).unwrap();
    assert!(matches!(told, Some(Notice::AllCommitted(_))), "{told:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 1, "probed, not committed");
    assert_eq!(target.rows(), [1, 2]);
}

/// A committer that forgets to answer for one of its transactions.
struct Careless;

impl Committer for Careless {
    async fn commit(&mut self, _: &[Prepared]) -> Vec<Verdict> {
        Vec::new()
    }

    async fn probe(&mut self, _: &[Prepared]) -> Vec<Verdict> {
        Vec::new()
    }

    async fn abort(&mut self, _: &[Prepared]) -> Result<()> {
        Ok(())
    }

    async fn fence(&mut self, _: Generation) -> Result<()> {
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn committer_without_a_verdict_for_each_is_an_error() {
    let mut driver = Driver::new(machine(), Careless);
    let clock = || Time::ZERO;
    block_on(driver.advance(&clock)).unwrap();
    let one = Prepared::new(CheckpointId::new(1), vec![1]);
    driver.handle(clock(), Event::Prepared(vec![one])).unwrap();
    let completed = Event::Completed(CheckpointId::new(1));
    driver.handle(clock(), completed).unwrap();
    let error = block_on(driver.advance(&clock)).unwrap_err();
    assert!(matches!(error, MachineError::WrongReply(_)), "{error}");
    assert_eq!(driver.machine().pending().count(), 1);
}

/// A committer that says no so many times before it commits.
struct Reluctant<C> {
    inner: C,
    refusals: u32,
}

impl<C: Committer> Committer for Reluctant<C> {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        match self.refusals.checked_sub(1) {
            None => self.inner.commit(prepared).await,
            Some(left) => {
                self.refusals = left;
                let error = Error::new("committing", "not now");
                vec![Verdict::NotCommitted(error); prepared.len()]
            }
        }
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.inner.probe(prepared).await
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        self.inner.abort(prepared).await
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        self.inner.fence(generation).await
    }

    async fn sweep(&mut self) -> Result<()> {
        self.inner.sweep().await
    }
}

#[test]
fn settling_commits_fences_and_sweeps_and_waits_out_a_target_that_says_no() {
    let target = MemoryTarget::new();
    let restored = Some((CheckpointId::new(1), prepare(&target).prepared));
    let reluctant = Reluctant {
        inner: committer(&target),
        refusals: 3,
    };
    let guarantee = Guarantee::AtomicPerTransaction;
    let machine = Machine::new(Generation::new(2), guarantee, Retry::default(), restored);
    let mut driver = Driver::new(machine, reluctant);
    let now = AtomicU64::new(5);
    let clock = || Time::from_millis(now.load(Ordering::Relaxed));
    let slept = RefCell::new(Vec::new());
    let sleep = async |wait: Duration| {
        let millis = wait.as_millis() as u64;
        now.fetch_add(millis, Ordering::Relaxed);
        slept.borrow_mut().push(millis);
    };
    let settled = block_on(driver.settle(&clock, sleep)).unwrap();
    assert_eq!(settled.committed, Some(CheckpointId::new(1)));
    assert_eq!(slept.take(), [100, 200, 400]);
    assert_eq!(target.rows(), [1, 2]);
    assert!(driver.machine().is_settled(), "writers may open");

    // With nothing to do it returns at once; ids are released when a checkpoint without them is complete.
    let settled = block_on(driver.settle(&clock, sleep)).unwrap();
    assert_eq!(settled, Settled::default());
    let next = CheckpointId::new(2);
    assert_eq!(driver.seal(next), []);
    driver.handle(clock(), Event::Completed(next)).unwrap();
    let settled = block_on(driver.settle(&clock, sleep)).unwrap();
    assert_eq!(
        (settled.committed, settled.released),
        (Some(next), Some(next))
    );
}

#[test]
fn settling_ends_with_the_reason_when_it_cannot_go_on() {
    let no_sleep = async |_| panic!("nothing is tried again");
    let target = MemoryTarget::new();
    let flushed = prepare(&target);
    target.time_out();
    let mut driver = restored(&target, flushed);
    let failure = block_on(driver.settle(&|| Time::ZERO, no_sleep)).unwrap_err();
    assert!(matches!(failure, Failure::Lost { .. }), "{failure}");

    let named = vec![Prepared::new(CheckpointId::new(1), vec![1])];
    let restored = Some((CheckpointId::new(1), named));
    let guarantee = Guarantee::AtomicPerTransaction;
    let machine = Machine::new(generation(), guarantee, Retry::default(), restored);
    let mut driver = Driver::new(machine, Careless);
    let failure = block_on(driver.settle(&|| Time::ZERO, no_sleep)).unwrap_err();
    assert!(
        matches!(failure, Failure::Broken(MachineError::WrongReply(_))),
        "{failure}"
    );
}

/// A transaction crosses to checkpoint storage and back as a pair.
#[test]
fn a_transaction_is_the_same_after_it_was_stored() {
    let prepared = Prepared::new(CheckpointId::new(7), vec![1, 2]);
    let stored: (CheckpointId, Vec<u8>) = prepared.clone().into();
    assert_eq!(Prepared::from(stored), prepared);
}

/// An engine spawns this on its runtime.
#[test]
fn advance_is_a_send_future() {
    fn is_send(_: impl Send) {}
    let clock = || Time::ZERO;
    is_send(Driver::new(machine(), Careless).advance(&clock));
    is_send(Driver::new(machine(), Careless).settle(&clock, async |_| {}));
}
