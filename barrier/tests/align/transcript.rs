//! Transcripts: `time event => effects; blocked channels; recording channels; wake time`.

use std::{fmt, time::Duration};

use cutwater_barrier::align::{AbortReason, AlignError, Channel, Effect, Event, Input, Reading};
use cutwater_barrier::{Aligner, Barrier, CheckpointId, Kind, Mode, Time, Tracker};

/// Checks an aligner whose channels barriers may overtake.
#[track_caller]
pub(crate) fn check(channels: usize, transcript: &str) {
    check_inputs(&vec![Input::Overtakable; channels], transcript);
}

/// The only place that calls the aligner, so its API can change without touching a test.
#[track_caller]
pub(crate) fn check_inputs(inputs: &[Input], transcript: &str) {
    let mut aligner = Aligner::with_channels(inputs.iter().copied());
    let channels = inputs.len();
    play(transcript, |now, event| {
        let before = aligner.clone();
        if let Err(error) = aligner.handle(now, event) {
            assert_eq!(aligner, before, "an error changes nothing");
            return Err(error);
        }
        Ok(Answer {
            effects: std::iter::from_fn(|| aligner.poll()).collect(),
            readings: (0..channels)
                .map(|index| aligner.reading(Channel(index)))
                .collect(),
            deadline: aligner.deadline(),
        })
    });
}

/// The only place that calls the tracker.
#[track_caller]
pub(crate) fn check_tracker(channels: usize, transcript: &str) {
    let mut tracker = Tracker::new(channels);
    play(transcript, |now, event| {
        let before = tracker.clone();
        if let Err(error) = tracker.handle(now, event) {
            assert_eq!(tracker, before, "an error changes nothing");
            return Err(error);
        }
        Ok(Answer {
            effects: std::iter::from_fn(|| tracker.poll()).collect(),
            readings: (0..channels)
                .map(|index| tracker.reading(Channel(index)))
                .collect(),
            deadline: tracker.deadline(),
        })
    });
}

struct Answer {
    effects: Vec<Effect>,
    readings: Vec<Reading>,
    deadline: Option<Time>,
}

#[track_caller]
fn play(transcript: &str, mut machine: impl FnMut(Time, Event) -> Result<Answer, AlignError>) {
    let lines = transcript.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let (input, expected) = line.split_once("=>").expect("`event => effects`");
        let (now, event) = parse(input);
        let got = match machine(now, event) {
            Ok(answer) => answer.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got.trim(), expected.trim(), "after `{}`", input.trim());
    }
}

fn parse(input: &str) -> (Time, Event) {
    let words: Vec<&str> = input.split_whitespace().collect();
    let channel = |word: &str| {
        let number = word.strip_prefix("ch").expect("a channel");
        Channel(number.parse().expect("a channel's number"))
    };
    let checkpoint = |word: &str| barrier(word).checkpoint;
    let event = match words[1..] {
        ["trigger", c] => Event::Triggered {
            barrier: barrier(c),
        },
        ["overtook", ch, c] => Event::Overtook {
            channel: channel(ch),
            barrier: barrier(c),
        },
        ["barrier", ch, c] => Event::Barrier {
            channel: channel(ch),
            barrier: barrier(c),
        },
        ["cancel", ch, c] => Event::Cancelled {
            channel: channel(ch),
            checkpoint: checkpoint(c),
        },
        ["abort", c] => Event::Aborted {
            checkpoint: checkpoint(c),
        },
        ["finished", ch] => Event::Finished {
            channel: channel(ch),
        },
        ["woke"] => Event::Woke,
        _ => panic!("not an event: {input}"),
    };
    (Time::from_millis(words[0].parse().unwrap()), event)
}

/// `c1` is aligned, `t1` aligned for 10 ms, `u1` unaligned, `s1` a savepoint. All are triggered at 0.
fn barrier(word: &str) -> Barrier {
    let (mode, number) = word.split_at(1);
    let id = CheckpointId::new(number.parse().expect("a checkpoint's number"));
    let checkpoint = Barrier::checkpoint(id, Time::ZERO);
    match mode {
        "c" => checkpoint,
        "t" => checkpoint.with_mode(Mode::AlignedFor(Duration::from_millis(10))),
        "u" => checkpoint.with_mode(Mode::Unaligned),
        "s" => Barrier::savepoint(id, Time::ZERO),
        _ => panic!("not a barrier: {word}"),
    }
}

fn word(barrier: Barrier) -> String {
    let mode = match (barrier.kind, barrier.mode) {
        (Kind::Savepoint, _) => 's',
        (Kind::Checkpoint, Mode::Aligned) => 'c',
        (Kind::Checkpoint, Mode::AlignedFor(_)) => 't',
        (Kind::Checkpoint, Mode::Unaligned) => 'u',
    };
    format!("{mode}{}", barrier.checkpoint)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effects: Vec<String> = self.effects.iter().map(|&effect| show(effect)).collect();
        f.write_str(&effects.join(", "))?;
        for (title, reading) in [
            ("blocked", Reading::Blocked),
            ("recording", Reading::Recorded),
        ] {
            let channels = self.readings.iter().enumerate();
            let channels = channels.filter(|&(_, it)| *it == reading);
            let channels: String = channels.map(|(index, _)| format!(" ch{index}")).collect();
            if !channels.is_empty() {
                write!(f, "; {title}{channels}")?;
            }
        }
        match self.deadline {
            Some(at) => write!(f, "; wake {}", at.since_start().as_millis()),
            None => Ok(()),
        }
    }
}

fn show(effect: Effect) -> String {
    match effect {
        Effect::Forward(barrier) => format!("forward {}", word(barrier)),
        Effect::ForwardCancel(checkpoint) => format!("cancel c{checkpoint}"),
        Effect::Snapshot(barrier) => format!("snapshot {}", word(barrier)),
        Effect::Capture {
            checkpoint,
            channel,
        } => format!("capture c{checkpoint} ch{}", channel.0),
        Effect::Acknowledge {
            checkpoint,
            alignment,
        } => {
            // Triggered at 0: the start delay is the first time, the duration the difference.
            let first = alignment.start_delay().as_millis();
            let last = first + alignment.duration().as_millis();
            format!("ack c{checkpoint} {first}..{last}")
        }
        Effect::Resume => "resume".to_owned(),
        Effect::Abort { checkpoint, reason } => {
            let reason = match reason {
                AbortReason::Aborted => "aborted",
                AbortReason::Cancelled => "cancelled",
                AbortReason::Subsumed => "subsumed",
                AbortReason::Crowded => "crowded",
                _ => "other",
            };
            format!("abort c{checkpoint} {reason}")
        }
    }
}
