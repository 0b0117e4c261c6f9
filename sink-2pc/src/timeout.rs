//! Whether the target keeps a prepared transaction for long enough.

use std::{error, fmt, time::Duration};

/// How long a job can leave a prepared transaction alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a time that is left out makes the check meaningless"
)]
pub struct JobTimes {
    /// Between two checkpoints.
    pub checkpoint_interval: Duration,
    /// Until a checkpoint counts as failed.
    pub checkpoint_timeout: Duration,
    /// How long the job may be down and still commit what it had prepared.
    pub downtime_max: Duration,
}

/// Checks that a target which aborts transactions after `transaction_timeout` still has them when
/// the job commits. A transaction opened right after a barrier lives through the interval, the whole
/// of the next checkpoint, and then the downtime. Checked when the job is built; `None` never aborts.
///
/// # Errors
///
/// If the target could abort what a completed checkpoint names, which loses records for good.
pub fn check_timeout(
    transaction_timeout: Option<Duration>,
    times: JobTimes,
) -> Result<(), TimeoutTooShort> {
    let needed = times
        .checkpoint_interval
        .saturating_add(times.checkpoint_timeout)
        .saturating_add(times.downtime_max);
    match transaction_timeout {
        Some(configured) if configured <= needed => Err(TimeoutTooShort { configured, needed }),
        Some(_) | None => Ok(()),
    }
}

/// The target would abort transactions which the job still has to commit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TimeoutTooShort {
    /// What the target is set to.
    pub configured: Duration,
    /// What it must exceed.
    pub needed: Duration,
}

impl fmt::Display for TimeoutTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the sink's target aborts transactions after {:?}, and the job can need them for {:?} \
             (checkpoint interval + checkpoint timeout + downtime allowed): raise the target's \
             transaction timeout or shorten these",
            self.configured, self.needed
        )
    }
}

impl error::Error for TimeoutTooShort {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_must_exceed_interval_checkpoint_and_downtime() {
        let times = JobTimes {
            checkpoint_interval: Duration::from_secs(10),
            checkpoint_timeout: Duration::from_secs(60),
            downtime_max: Duration::from_secs(600),
        };
        assert_eq!(check_timeout(None, times), Ok(()));
        assert_eq!(check_timeout(Some(Duration::from_secs(671)), times), Ok(()));
        let error = check_timeout(Some(Duration::from_secs(670)), times).unwrap_err();
        assert_eq!(error.needed, Duration::from_secs(670));
        assert!(
            error
                .to_string()
                .contains("raise the target's transaction timeout")
        );
    }
}
