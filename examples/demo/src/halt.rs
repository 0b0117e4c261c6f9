//! Where a run is to stop and wait for its kill.
//!
//! ```text
//!   … records ──▶ prepared ──▶ completed ──▶ committed ──▶ the log knows … records ──▶
//!         ▲                 ▲             ▲              ▲
//!      Record            Prepared      Completed      Committed
//! ```

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Between which two steps of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Window {
    /// Outside of a checkpoint's last steps: between one record and the next of a batch.
    Record,
    /// Every part is stored and every sink has prepared; the checkpoint does not count yet.
    Prepared,
    /// The checkpoint counts; no sink knows.
    Completed,
    /// The sinks have committed; the log does not say so yet.
    Committed,
}

impl Window {
    pub(crate) const ALL: [Self; 4] = [
        Self::Record,
        Self::Prepared,
        Self::Completed,
        Self::Committed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Prepared => "prepared",
            Self::Completed => "completed",
            Self::Committed => "committed",
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Record => "between two records",
            Self::Prepared => "between prepared and completed",
            Self::Completed => "between completed and committed",
            Self::Committed => "between committed and its note in the log",
        })
    }
}

/// The first time a run is in `window` with at least `records` records in its state, and with
/// [`CHECKPOINTS`](Self::CHECKPOINTS) checkpoints of its own completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halt {
    pub(crate) window: Window,
    pub(crate) records: u64,
}

impl Halt {
    /// So that every run gets further than the one before, and the demo to its end.
    pub(crate) const CHECKPOINTS: u64 = 3;
}

/// As on the child's command line: `prepared:5400`.
impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.window.name(), self.records)
    }
}

impl FromStr for Halt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let halt = text.split_once(':').and_then(|(name, records)| {
            Some(Self {
                window: Window::ALL
                    .into_iter()
                    .find(|window| window.name() == name)?,
                records: records.parse().ok()?,
            })
        });
        halt.ok_or_else(|| {
            let names = Window::ALL.map(Window::name).join(", ");
            format!("{text:?} is no halt: write WINDOW:RECORDS with a window of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Halt, Window};

    #[test]
    fn a_halt_is_read_as_it_is_written() {
        for window in Window::ALL {
            let halt = Halt {
                window,
                records: 5400,
            };
            assert_eq!(halt.to_string().parse(), Ok(halt));
        }
        for wrong in ["", "prepared", "prepared:", "prepared:x", "lunch:1"] {
            wrong.parse::<Halt>().unwrap_err();
        }
    }
}
