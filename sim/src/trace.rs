//! The last things that happened, for whoever replays a failing seed.
//!
//! ```text
//!      31 ms  t4  < barrier c7 on 1
//!      31 ms  t4  > forward c7 unaligned
//!      31 ms  t4  > snapshot c7, capture c7 from 0, acknowledge c7
//! ```

use std::{collections::VecDeque, fmt};

use cutwater_barrier::{
    Barrier, Mode, Time,
    align::{Effect, Event},
    coordinate,
};

use crate::stored::Part;

/// How many lines are kept.
const LINES_MAX: usize = 150;

/// A transcript. Switched off it costs a compare: nobody reads a million of them.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    is_on: bool,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            lines: VecDeque::new(),
        }
    }

    /// Adds a line, if anybody will read it.
    pub(crate) fn note(&mut self, now: Time, line: impl FnOnce() -> String) {
        if self.is_on {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            let millis = now.since_start().as_millis();
            self.lines.push_back(format!("{millis:>6} ms  {}", line()));
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

pub(crate) fn barrier(barrier: &Barrier) -> String {
    let mode = match barrier.mode {
        Mode::Aligned => "aligned".to_owned(),
        Mode::AlignedFor(timeout) => format!("aligned for {timeout:?}"),
        Mode::Unaligned => "unaligned".to_owned(),
    };
    let kind = format!("{:?}", barrier.kind).to_lowercase();
    let then = if barrier.then.is_stop() {
        format!(", then {:?}", barrier.then).to_lowercase()
    } else {
        String::new()
    };
    format!("c{} {kind} {mode}{then}", barrier.checkpoint)
}

/// What a task's machine hears.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Triggered { barrier: of } => format!("triggered {}", barrier(of)),
        Event::Overtook {
            channel,
            barrier: of,
        } => {
            format!("note of {} on {}", barrier(of), channel.0)
        }
        Event::Barrier {
            channel,
            barrier: of,
        } => {
            format!("barrier {} on {}", barrier(of), channel.0)
        }
        Event::Cancelled {
            channel,
            checkpoint,
        } => format!("cancel c{checkpoint} on {}", channel.0),
        Event::Aborted { checkpoint } => format!("aborted c{checkpoint}"),
        Event::Finished { channel } => format!("end on {}", channel.0),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// What a task's machine wants.
pub(crate) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Forward(of) => format!("forward {}", barrier(of)),
        Effect::ForwardCancel(checkpoint) => format!("forward cancel c{checkpoint}"),
        Effect::Snapshot(of) => format!("snapshot c{}", of.checkpoint),
        Effect::Capture {
            checkpoint,
            channel,
        } => format!("capture c{checkpoint} from {}", channel.0),
        Effect::Acknowledge { checkpoint, .. } => format!("acknowledge c{checkpoint}"),
        Effect::Abort { checkpoint, reason } => format!("abort c{checkpoint}: {reason:?}"),
        Effect::Resume => "resume".to_owned(),
    }
}

/// What the coordinator hears.
pub(crate) fn news(event: &coordinate::Event<Part>) -> String {
    use coordinate::Event as News;
    match event {
        News::Running { task } => format!("t{task} runs"),
        News::Drained { task } => format!("t{task} is drained"),
        News::Finished { task, .. } => format!("t{task} has finished"),
        News::Lost { task } => format!("t{task} is lost"),
        News::Acked {
            checkpoint, task, ..
        } => format!("t{task} acknowledges c{checkpoint}"),
        News::Declined {
            checkpoint,
            task,
            reason,
            ..
        } => format!("t{task} declines c{checkpoint}: {reason:?}"),
        News::Decided { checkpoint } => format!("c{checkpoint} is in the log"),
        News::NotDecided {
            checkpoint, reason, ..
        } => format!("c{checkpoint} is not in the log: {reason:?}"),
        other => format!("{other:?}").to_lowercase(),
    }
}
