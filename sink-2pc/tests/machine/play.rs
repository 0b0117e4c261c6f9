//! How a transcript is read, played and compared.

use std::fmt::Write as _;

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Call, CallId, Effect, Error, Event, Failure, Machine, Prepared, Reply, Verdict,
};

/// Plays `transcript` and compares every line as a whole.
pub(crate) fn check(mut machine: Machine, transcript: &str) {
    let mut call = None;
    for line in transcript.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (input, expected) = line.split_once("=>").expect("event => effects");
        let mut words = input.split_whitespace();
        let now = words.next().unwrap().parse().expect("a time in ms");
        let words: Vec<&str> = words.collect();
        let mut seen = play(&mut machine, Time::from_millis(now), &words, &mut call);
        if let Some(at) = machine.deadline() {
            write!(seen, "; wake {}", at.since_start().as_millis()).unwrap();
        }
        assert_eq!(seen.trim(), expected.trim(), "in line `{line}`");
    }
}

/// `c1:a`
pub(crate) fn prepared(text: &str) -> Prepared {
    let (id, token) = text.split_once(':').expect("c1:a");
    Prepared::new(checkpoint(id), token)
}

fn checkpoint(text: &str) -> CheckpointId {
    CheckpointId::new(text[1..].parse().expect("c1"))
}

fn generation(text: &str) -> Generation {
    Generation::new(text[1..].parse().expect("g1"))
}

fn play(
    machine: &mut Machine,
    now: Time,
    words: &[&str],
    call: &mut Option<(CallId, Call)>,
) -> String {
    let error = || Error::new("asking", "the target said so");
    let event = match words[0] {
        "begin" => None,
        "pending" => return names(machine.pending()),
        "seal" => return names(machine.seal(checkpoint(words[1])).iter()),
        "prepared" => Some(Event::Prepared(
            words[1..].iter().map(|one| prepared(one)).collect(),
        )),
        "completed" => Some(Event::Completed(checkpoint(words[1]))),
        "not-completed" => Some(Event::NotCompleted(checkpoint(words[1]))),
        "rolled-back" => Some(Event::RolledBack(checkpoint(words[1]))),
        "woke" => Some(Event::Woke),
        _ => {
            let (id, _) = call.take().expect("a call is out");
            let reply = match words {
                ["done"] => Reply::Done(Ok(())),
                ["error"] => Reply::Done(Err(error())),
                ["fenced", newer] => Reply::Done(Err(Error::fenced("asking", generation(newer)))),
                ["fenced-no", newer] => {
                    let error = Error::fenced("asking", generation(newer));
                    Reply::Verdicts(vec![Verdict::NotCommitted(error)])
                }
                verdicts => Reply::Verdicts(verdicts.iter().map(|one| verdict(one)).collect()),
            };
            Some(Event::Replied(id, reply))
        }
    };
    if let Some(event) = event {
        machine.handle(now, event).expect("a possible event");
    }
    let mut seen = Vec::new();
    while let Some(effect) = machine.poll() {
        if let Effect::Call(id, out) = &effect {
            *call = Some((*id, out.clone()));
        }
        seen.push(told(&effect));
    }
    seen.join(", ")
}

fn verdict(word: &str) -> Verdict {
    let error = Error::new("asking", "the target said so");
    match word {
        "committed" => Verdict::Committed,
        "already" => Verdict::AlreadyCommitted,
        "no" => Verdict::NotCommitted(error),
        "lost" => Verdict::Lost(error),
        "unknown" => Verdict::Unknown(error),
        _ => panic!("no verdict is called {word}"),
    }
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Call(_, Call::Commit(asked)) => list("commit", asked),
        Effect::Call(_, Call::Probe(asked)) => list("probe", asked),
        Effect::Call(_, Call::Abort(asked)) => list("abort", asked),
        Effect::Call(_, Call::Fence(generation)) => format!("fence g{generation}"),
        Effect::Call(_, Call::Sweep) => "sweep".into(),
        Effect::Ready => "ready".into(),
        Effect::AllCommitted(checkpoint) => format!("all c{checkpoint}"),
        Effect::Released { before } => format!("released <c{before}"),
        Effect::Failed(Failure::Lost { prepared, .. }) => {
            list("failed lost", std::slice::from_ref(prepared))
        }
        Effect::Failed(Failure::Refused { prepared, .. }) => {
            list("failed refused", std::slice::from_ref(prepared))
        }
        Effect::Failed(Failure::Fenced { newer, .. }) => format!("failed fenced g{newer}"),
        Effect::Failed(failure) => format!("failed {failure}"),
    }
}

fn names<'a>(named: impl Iterator<Item = &'a Prepared>) -> String {
    let named: Vec<Prepared> = named.cloned().collect();
    list("names", &named)
}

fn list(what: &str, listed: &[Prepared]) -> String {
    let mut line = what.to_owned();
    for one in listed {
        let token = String::from_utf8_lossy(&one.token);
        write!(line, " c{}:{token}", one.checkpoint).unwrap();
    }
    line
}
