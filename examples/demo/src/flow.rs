//! What is in the way of barriers, and what they do about it.
//!
//! Paced at its source, a job has empty channels and any barrier passes at once. So whoever wants to
//! see barriers overtake gets a slow stage and short channels, full of records all the time.

use std::{
    cell::Cell,
    ffi::OsString,
    thread,
    time::{Duration, Instant},
};

use cutwater_barrier::Mode;
use cutwater_runtime::Settings;

/// What the user says about it.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Let barriers overtake records: what is in flight becomes part of a checkpoint
    #[arg(long)]
    unaligned: bool,
    /// Let barriers overtake records once a checkpoint has taken so long
    #[arg(long, value_name = "MS", conflicts_with = "unaligned")]
    timeout: Option<u64>,
    /// Hold records up at a slow stage and not at the source, also if barriers have to wait with them
    #[arg(long)]
    slow: bool,
}

impl Flow {
    /// The same with a slow stage.
    pub(crate) fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    /// Whether a stage in the middle of the job is to be slower than the source.
    pub(crate) fn is_slow(self) -> bool {
        self.slow || self.barriers() != Mode::Aligned
    }

    /// Whether records are in flight at every checkpoint of a job whose channels are full.
    pub(crate) fn is_unaligned(self) -> bool {
        self.unaligned
    }

    fn barriers(self) -> Mode {
        match self.timeout {
            _ if self.unaligned => Mode::Unaligned,
            Some(millis) => Mode::AlignedFor(Duration::from_millis(millis)),
            None => Mode::Aligned,
        }
    }

    /// The part of a command line that this is read from.
    pub(crate) fn arguments(self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if self.unaligned {
            arguments.push("--unaligned".into());
        }
        if let Some(millis) = self.timeout {
            arguments.extend(["--timeout".into(), millis.to_string().into()]);
        }
        if self.slow {
            arguments.push("--slow".into());
        }
        arguments
    }

    pub(crate) fn set(self, settings: &mut Settings) {
        settings.barriers = self.barriers();
        if self.is_slow() {
            // At the default rate and four subtasks, some four tenths of a second of records.
            settings.batch_size = 16;
            settings.channel_capacity = 4;
        }
    }
}

/// How long a record holds up one of `parallelism` subtasks that together take `rate` a second.
pub(crate) fn cost(parallelism: u16, rate: u64) -> Duration {
    let nanos = u64::from(parallelism) * 1_000_000_000;
    Duration::from_nanos(nanos.checked_div(rate).unwrap_or(0))
}

/// Takes as long as asking some slow service about a record.
///
/// A thread sleeps longer than it wants to, on a busy machine twice as long. So it sleeps that much
/// less for the records after.
#[expect(
    clippy::disallowed_methods,
    reason = "a task has its own thread, and this one is to be slow"
)]
pub(crate) fn pause(cost: Duration) {
    thread_local! {
        static DONE: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    let earliest = now.checked_sub(SAVED_MAX).unwrap_or(now);
    let done = DONE.get().map_or(now, |done| done.max(earliest)) + cost;
    DONE.set(Some(done));
    thread::sleep(done.saturating_duration_since(now));
}

/// Time that a thread had no records is not saved up for later.
const SAVED_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Duration, Flow, Mode, cost};

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        flow: Flow,
    }

    fn read(words: &[&str]) -> Result<Flow, clap::Error> {
        let words = ["demo"].iter().chain(words);
        Arguments::try_parse_from(words).map(|arguments| arguments.flow)
    }

    #[test]
    fn a_flow_is_read_as_it_is_written() {
        for words in [
            &[] as &[&str],
            &["--unaligned"],
            &["--timeout", "20"],
            &["--unaligned", "--slow"],
        ] {
            let flow = read(words).unwrap();
            assert_eq!(flow.arguments(), words);
        }
        read(&["--unaligned", "--timeout", "20"]).unwrap_err();
    }

    #[test]
    fn barriers_that_may_overtake_get_something_to_overtake() {
        let unaligned = read(&["--unaligned"]).unwrap();
        assert_eq!(unaligned.barriers(), Mode::Unaligned);
        assert!(unaligned.is_slow());
        let timeout = read(&["--timeout", "20"]).unwrap();
        let millis = Duration::from_millis(20);
        assert_eq!(timeout.barriers(), Mode::AlignedFor(millis));
        assert!(timeout.is_slow());
        assert!(!Flow::default().is_slow());
        assert!(Flow::default().slow().is_slow());
    }

    #[test]
    fn all_subtasks_together_keep_the_rate() {
        assert_eq!(cost(2, 1000), Duration::from_millis(2));
        assert_eq!(cost(2, 0), Duration::ZERO);
    }
}
