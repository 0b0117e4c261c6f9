//! The exam for anyone's sink: stopped in each of the five failure windows, restarted, counted.
//!
//! | window | the job stops |
//! |---|---|
//! | 1 | with records written and nothing prepared |
//! | 2 | prepared, and the checkpoint not complete |
//! | 3 | the checkpoint complete, and the commit not sent |
//! | 4 | the commit in effect, and its reply lost |
//! | 5 | the commit confirmed, and the transaction still named by the checkpoint |
//!
//! After each stop the job continues as a new generation, with the same or another parallelism, and
//! at its end an outside reader must see every record exactly once. Further [`Check`]s follow:
//! aborts, zombies, neighbours. Nothing sleeps and nothing is random: a stop is a hook in the kit's
//! own small engine, which drops the writers and the committer there.
//!
//! ```
//! use cutwater_sink_2pc::testkit::{self, MemoryTarget};
//!
//! testkit::conforms(MemoryTarget::new);
//! ```
//!
//! A table of [upserts](crate::upsert) has an exam of its own, [`upsert_conforms`].
//!
//! Exempt from semver: a new check may fail a sink that passed before.

mod block_on;
mod checks;
mod memory;
mod memory_table;
mod report;
mod rig;
mod upsert;
mod watched;
mod windows;

use std::future::Future;

pub use self::block_on::block_on;
pub use self::memory::{MemoryCommitter, MemorySink, MemoryTarget, MemoryWriter};
pub use self::memory_table::MemoryTable;
pub use self::report::{Check, Report};
pub use self::upsert::{UpsertExam, examine_upsert, upsert_conforms};
use crate::Sink;

/// An external system with a sink on it, as the kit needs it: fresh, and read from outside.
///
/// Dropping it removes the system, for example a temporary directory or a database.
pub trait Target: Send + Sync {
    /// The sink under exam.
    type Sink: Sink;

    /// The sink, as a process that has just started would set it up, on the same system each time.
    fn sink(&self) -> Self::Sink;

    /// A record by which [`visible`](Self::visible) recognises `id`.
    fn record(&self, id: u64) -> <Self::Sink as Sink>::Record;

    /// The ids an outside reader sees now, in any order, each as often as it is there. Read the way
    /// users read, not through the sink.
    fn visible(&self) -> impl Future<Output = Vec<u64>> + Send;

    /// What lies unfinished in the system: open or prepared transactions, staged files, by any name
    /// that helps to find the culprit. A system that cannot list them gives none.
    fn unfinished(&self) -> impl Future<Output = Vec<String>> + Send;
}

/// Puts the sink through all checks, each on a fresh system from `open`, and tells how it went.
pub async fn examine<T: Target>(mut open: impl FnMut() -> T) -> Report {
    let mut report = Report::default();
    for check in Check::ALL {
        let outcome = match check {
            Check::Window1 | Check::Window2 | Check::Window3 | Check::Window4 | Check::Window5 => {
                windows::run(check, &mut open).await
            }
            _ => checks::run(check, &mut open).await,
        };
        report.add(check, outcome);
    }
    report
}

/// As [`examine`], on this thread and for a sink that needs no runtime of its own.
///
/// # Panics
///
/// If a check fails, with the verdict for each.
pub fn conforms<T: Target>(open: impl FnMut() -> T) {
    let report = block_on(examine(open));
    assert!(report.is_passed(), "the sink fails its exam\n{report}");
}
