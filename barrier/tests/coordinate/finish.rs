//! Jobs that end: finished tasks, the final checkpoint, stopping with one.

use std::time::Duration;

use cutwater_barrier::coordinate::{Attempt, Effect, Event, Request, RequestId, TaskId};
use cutwater_barrier::stats::TaskStats;
use cutwater_barrier::{CheckpointId, Coordinator, Generation, Then, Time};

use super::{
    LADDER, LINE, SQUARE, check, check_plan, check_running, config, on_request, plan, with,
};

/// Case F010.
#[test]
fn a_stop_that_fails_in_flight_fails_the_job() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 9),
        "
        10  stop-with r1  => trigger t0 s1 suspend
        20  savepoint r2  => refuse r2 ending
        30  ack c1 t0     =>
        510 woke          => aborted c1 expired, discard c1 t0, refuse r1 expired, fail stop c1
        511 checkpoint r3 => refuse r3 halted
        999 woke          => ; wake none
    ",
    );
}

#[test]
fn a_stop_with_a_checkpoint_ends_the_job_when_it_is_complete() {
    check_running(
        LINE,
        config(),
        "
        10  stop-with r1 => trigger t0 s1 suspend; wake 510
        20  ack c1 t0    =>
        21  ack c1 t1    => decide s1 t0 t1
        25  decided c1   => complete s1 suspend, answer r1 c1, end c1; wake none
        26  savepoint r2 => refuse r2 ending
        27  finished t0 last 1 =>
        28  finished t1 last 1 => ; wake none
    ",
    );
}

/// Cases F029, F031.
#[test]
fn a_checkpoint_goes_on_below_finished_sources_and_names_them() {
    check_running(
        LADDER,
        config(),
        "
        50  finished t0 => ; wake 100
        100 woke        => trigger t1 c1, trigger t2 c1
        101 ack c1 t1   =>
        102 ack c1 t2   =>
        103 ack c1 t3   => decide c1 t1 t2 t3 finished t0
    ",
    );
}

/// Case F033: t0 finishes without having seen the barrier, so t2 has to inject it.
#[test]
fn a_task_that_finishes_during_the_trigger_does_not_stop_the_checkpoint() {
    check_running(
        LADDER,
        config(),
        "
        100 woke        => trigger t0 c1, trigger t1 c1
        101 finished t0 => trigger t2 c1
        102 finished t2 =>
        103 ack c1 t1   =>
        104 ack c1 t3   => decide c1 t1 t3 finished t0 t2
    ",
    );
}

/// The news of the end overtakes the acknowledgement: the task did take part.
#[test]
fn a_task_that_finishes_after_its_part_is_waited_for() {
    check_running(
        LINE,
        config(),
        "
        100 woke               => trigger t0 c1
        101 finished t0 last 1 =>
        102 ack c1 t1          =>
        103 ack c1 t0          => decide c1 t0 t1
        104 decided c1         => complete c1
        200 woke               => trigger t1 c2
    ",
    );
}

/// Case F032.
#[test]
fn companions_finish_together_or_there_is_no_checkpoint() {
    let mut plan = plan(SQUARE);
    plan.finish_together([TaskId(0), TaskId(1)]);
    check_plan(
        plan,
        config(),
        "
        0   running t0    =>
        0   running t1    =>
        0   running t2    =>
        0   running t3    =>
        100 woke          => trigger t0 c1, trigger t1 c1
        101 ack c1 t1     =>
        110 finished t0   => aborted c1 partly finished t0, discard c1 t1
        120 savepoint r1  => refuse r1 partly finished t0
        200 woke          => ; wake 300
        210 finished t1   =>
        300 woke          => trigger t2 c2, trigger t3 c2
    ",
    );
}

/// Case F034.
#[test]
fn a_final_checkpoint_follows_the_end_of_all_input_at_once() {
    check_running(
        LINE,
        on_request(),
        "
        10 drained t0         =>
        11 checkpoint r1      => trigger t0 c1
        20 drained t1         => trigger t0 c2 drain
        21 checkpoint r2      => refuse r2 ending
        22 ack c2 t0          =>
        23 ack c2 t1          => decide c2 t0 t1
        24 decided c2         => complete c2 drain, subsumed c1 by c2, refuse r1 subsumed, end c2
        25 finished t0 last 2 =>
        26 finished t1 last 2 => ; wake none
    ",
    );
}

/// Case F034: a failure before the final checkpoint restarts from the previous one; a failure *of* it
/// is a failed checkpoint like any other.
#[test]
fn a_final_checkpoint_that_fails_is_tried_again() {
    check_running(
        LINE,
        with(|config| config.tolerable_failures = 1),
        "
        10  drained t0    =>
        20  drained t1    => trigger t0 c1 drain
        30  decline c1 t1 => aborted c1 declined t1; wake 130
        130 woke          => trigger t0 c2 drain
        140 ack c2 t0     =>
        141 ack c2 t1     => decide c2 t0 t1
        142 decided c2    => complete c2 drain, end c2
    ",
    );
}

#[test]
fn a_job_whose_tasks_have_all_finished_still_ends_with_a_checkpoint() {
    check_running(
        LINE,
        config(),
        "
        10 finished t0 =>
        11 finished t1 => decide c1 finished t0 t1
        12 decided c1  => complete c1 drain, end c1
        13 running t1  => error: task 1 had already finished
    ",
    );
}

/// Case B10: a stop is requested at every step around the natural end of the input. The job ends once,
/// with one terminal checkpoint, and the request has one answer.
#[test]
fn a_stop_that_races_the_end_of_input_ends_the_job_once() {
    let steps = [
        "drained t0",
        "drained t1",
        "ack",
        "ack",
        "decided",
        "finished t0",
        "finished t1",
    ];
    for moment in 0..=steps.len() {
        let mut coordinator = Coordinator::new(
            config(),
            plan(LINE),
            Attempt::new(Generation::new(7), CheckpointId::new(1)),
        );
        let (mut ends, mut answers) = (0, 0);
        let mut deciding = None;
        let mut now = Time::ZERO;
        let mut tell = |event: Event<()>| {
            now = now + Duration::from_millis(1);
            coordinator.handle(now, event).unwrap();
            let mut triggered = None;
            while let Some(effect) = coordinator.poll() {
                match effect {
                    Effect::Trigger { barrier, .. } => triggered = Some(barrier.checkpoint),
                    Effect::Decide(decision) => deciding = Some(decision.barrier.checkpoint),
                    Effect::End { .. } => ends += 1,
                    Effect::Answer { .. } => answers += 1,
                    Effect::FailJob(failure) => panic!("failed: {failure}, request at {moment}"),
                    _ => {}
                }
            }
            (triggered, deciding.take_if(|_| triggered.is_none()))
        };
        for task in [0, 1].map(TaskId) {
            tell(Event::Running { task });
        }
        let mut current = None;
        let mut acks = [0, 1].map(TaskId).into_iter();
        let mut decided = None;
        for step in 0..=steps.len() {
            if step == moment {
                let request = Request::savepoint(RequestId(1)).then(Then::Drain);
                current = tell(Event::Requested(request)).0.or(current);
            }
            let event = match steps.get(step).copied() {
                Some("drained t0") => Event::Drained { task: TaskId(0) },
                Some("drained t1") => Event::Drained { task: TaskId(1) },
                Some("ack") => Event::Acked {
                    generation: Generation::new(7),
                    checkpoint: current.expect("a checkpoint is in progress"),
                    task: acks.next().unwrap(),
                    part: (),
                    stats: TaskStats::default(),
                },
                Some("decided") => Event::Decided {
                    checkpoint: decided.expect("all have acked"),
                },
                Some("finished t0") => Event::Finished {
                    task: TaskId(0),
                    last: current,
                },
                Some("finished t1") => Event::Finished {
                    task: TaskId(1),
                    last: current,
                },
                Some(step) => panic!("no step {step}"),
                None => break,
            };
            let (triggered, decision) = tell(event);
            current = triggered.or(current);
            decided = decision.or(decided);
        }
        assert_eq!(
            (ends, answers),
            (1, 1),
            "stop requested before step {moment}"
        );
    }
}

/// Case B09: what a task has become is the furthest it told, in whatever order that arrives.
#[test]
fn a_late_message_does_not_lead_a_task_back() {
    check(
        LINE,
        config(),
        "
        0 drained t0 =>
        1 running t0 =>
        2 running t1 =>
        3 drained t1 => trigger t0 c1 drain
    ",
    );
}
