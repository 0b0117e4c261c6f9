//! The last things that happened, for whoever replays a failing seed.

use std::{collections::VecDeque, fmt};

use cutwater_barrier::Time;

/// How many lines are kept.
const LINES_MAX: usize = 120;

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
