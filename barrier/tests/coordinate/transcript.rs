//! How a transcript's words stand for events and effects.

use cutwater_barrier::coordinate::{
    Abort, Decline, Effect, Event, JobFailure, NotDurable, Refusal, Report, Request, RequestId,
    TaskId,
};
use cutwater_barrier::stats::TaskStats;
use cutwater_barrier::{CheckpointId, Generation, Kind, Mode, Then, Time};

/// A line's left side. `handed_out` are the reports of the decision under way.
pub(crate) fn parse(input: &str, handed_out: &mut Vec<Report<()>>) -> (Time, Event<()>) {
    let words: Vec<&str> = input.split_whitespace().collect();
    let number =
        |word: &str, prefix: &str| -> u64 { word.strip_prefix(prefix).unwrap().parse().unwrap() };
    let task = |word: &str| TaskId(usize::try_from(number(word, "t")).unwrap());
    let checkpoint = |word: &str| CheckpointId::new(number(word, "c"));
    let request = |word: &str| RequestId(number(word, "r"));
    let generation =
        |words: &[&str]| Generation::new(words.first().map_or(7, |word| number(word, "g")));
    let event = match &words[1..] {
        ["running", t] => Event::Running { task: task(t) },
        ["drained", t] => Event::Drained { task: task(t) },
        ["finished", t] => Event::Finished {
            task: task(t),
            last: None,
        },
        ["finished", t, "last", last] => Event::Finished {
            task: task(t),
            last: Some(CheckpointId::new(last.parse().unwrap())),
        },
        ["lost", t] => Event::Lost { task: task(t) },
        ["checkpoint", r] => Event::Requested(Request::checkpoint(request(r))),
        ["savepoint", r] => Event::Requested(Request::savepoint(request(r))),
        ["stop-with", r] => Event::Requested(Request::savepoint(request(r)).then(Then::Suspend)),
        ["ack", c, t, rest @ ..] => Event::Acked {
            generation: generation(rest),
            checkpoint: checkpoint(c),
            task: task(t),
            part: (),
            stats: TaskStats::default(),
        },
        [word @ ("decline" | "pass"), c, t, rest @ ..] => Event::Declined {
            generation: generation(rest),
            checkpoint: checkpoint(c),
            task: task(t),
            reason: if *word == "pass" {
                Decline::Passed
            } else {
                Decline::Failed
            },
        },
        ["decided", c] => Event::Decided {
            checkpoint: checkpoint(c),
        },
        [word @ ("not-decided" | "unknown" | "fenced"), c] => Event::NotDecided {
            checkpoint: checkpoint(c),
            reason: match *word {
                "unknown" => NotDurable::Unknown,
                "fenced" => NotDurable::Fenced,
                _ => NotDurable::Failed,
            },
            reports: std::mem::take(handed_out),
        },
        ["cleaning", n] => Event::Cleaning {
            checkpoints: n.parse().unwrap(),
        },
        ["stop"] => Event::Stop,
        ["woke"] => Event::Woke,
        _ => panic!("not an event: {input}"),
    };
    (Time::from_millis(words[0].parse().unwrap()), event)
}

/// A line's right side.
pub(crate) fn show(effect: &Effect<()>) -> String {
    let then = |then: &Then| match then {
        Then::Continue => "",
        Then::Suspend => " suspend",
        Then::Drain => " drain",
    };
    let id = |kind: &Kind, checkpoint: &CheckpointId| match kind {
        Kind::Checkpoint => format!("c{checkpoint}"),
        Kind::Savepoint => format!("s{checkpoint}"),
    };
    let tasks =
        |tasks: Vec<TaskId>| -> String { tasks.iter().map(|task| format!(" t{task}")).collect() };
    match effect {
        Effect::Trigger { task, barrier } => {
            let mode = match barrier.mode {
                Mode::Aligned => "",
                Mode::AlignedFor(_) => " timed",
                Mode::Unaligned => " unaligned",
            };
            let id = id(&barrier.kind, &barrier.checkpoint);
            format!("trigger t{task} {id}{mode}{}", then(&barrier.then))
        }
        Effect::Decide(decision) => {
            let acked = tasks(decision.reports.iter().map(|report| report.task).collect());
            let finished = tasks(decision.finished.clone());
            let finished = if finished.is_empty() {
                finished
            } else {
                format!(" finished{finished}")
            };
            format!(
                "decide {}{acked}{finished}",
                id(&decision.barrier.kind, &decision.barrier.checkpoint)
            )
        }
        Effect::NotifyComplete {
            checkpoint,
            kind,
            then: next,
        } => {
            format!("complete {}{}", id(kind, checkpoint), then(next))
        }
        Effect::NotifyAborted {
            checkpoint,
            reason,
            latest,
        } => {
            let latest = latest.map_or(String::new(), |latest| format!(" latest {latest}"));
            format!("aborted c{checkpoint} {}{latest}", show_abort(reason))
        }
        Effect::NotifySubsumed { checkpoint, by } => format!("subsumed c{checkpoint} by c{by}"),
        Effect::Discard { checkpoint, report } => format!("discard c{checkpoint} t{}", report.task),
        Effect::Leave { checkpoint, report } => format!("leave c{checkpoint} t{}", report.task),
        Effect::Answer {
            request,
            outcome: Ok(checkpoint),
        } => format!("answer r{} c{checkpoint}", request.0),
        Effect::Answer {
            request,
            outcome: Err(refusal),
        } => {
            let reason = match refusal {
                Refusal::Aborted(abort) => show_abort(abort),
                Refusal::Subsumed => "subsumed".to_owned(),
                Refusal::Ending => "ending".to_owned(),
                Refusal::Halted => "halted".to_owned(),
                Refusal::NotRunning { task } => format!("not running t{task}"),
                Refusal::PartlyFinished { task } => format!("partly finished t{task}"),
                Refusal::TooManyRequests => "too many".to_owned(),
                _ => "other".to_owned(),
            };
            format!("refuse r{} {reason}", request.0)
        }
        Effect::End { checkpoint } => format!("end c{checkpoint}"),
        Effect::FailJob(failure) => match failure {
            JobFailure::Fenced => "fail fenced".to_owned(),
            JobFailure::StopFailed { checkpoint } => format!("fail stop c{checkpoint}"),
            JobFailure::TaskLost { task } => format!("fail lost t{task}"),
            JobFailure::TooManyFailures { checkpoint } => format!("fail failures c{checkpoint}"),
            JobFailure::Undecided { checkpoint } => format!("fail undecided c{checkpoint}"),
            _ => "fail other".to_owned(),
        },
    }
}

fn show_abort(reason: &Abort) -> String {
    match reason {
        Abort::Declined {
            task,
            reason: Decline::Failed,
        } => format!("declined t{task}"),
        Abort::Declined { task, .. } => format!("passed t{task}"),
        Abort::Expired => "expired".to_owned(),
        Abort::Halted => "halted".to_owned(),
        Abort::NotDurable(NotDurable::Failed) => "not durable".to_owned(),
        Abort::NotDurable(NotDurable::Unknown) => "undecided".to_owned(),
        Abort::NotDurable(NotDurable::Fenced) => "fenced".to_owned(),
        Abort::PartlyFinished { task } => format!("partly finished t{task}"),
        _ => "other".to_owned(),
    }
}
