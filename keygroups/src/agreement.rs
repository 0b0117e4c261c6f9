//! The max parallelism of operators that run in one task.
//!
//! A checkpoint's number is fixed: with another, every key would fall into another group. So it is
//! adopted by a job that only used the default, and a job that insists on another is refused. The
//! operators chained into one task share its key groups, so they must agree too: Flink once let the
//! last one win (case B22).

use alloc::{borrow::ToOwned, string::String};
use core::fmt;

use crate::MaxParallelism;

/// What is known of one operator's max parallelism.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "built by the caller, field by field"
)]
pub struct MaxParallelismOf<'a> {
    /// The operator, as its user calls it.
    pub operator: &'a str,
    /// The number that the job sets. `None` if it leaves the choice to us.
    pub set: Option<MaxParallelism>,
    /// The number in the checkpoint to restore. `None` if there is none, or the operator is new.
    pub recorded: Option<MaxParallelism>,
}

impl MaxParallelism {
    /// The max parallelism of `operators`, which run in one task of `parallelism` subtasks.
    ///
    /// It is the one that a checkpoint recorded or the job sets, else the default for `parallelism`
    /// (cases F083 and F084).
    ///
    /// # Errors
    ///
    /// If two of these numbers differ. The error names both and where they come from.
    ///
    /// ```
    /// use cutwater_keygroups::{MaxParallelism, MaxParallelismOf};
    ///
    /// let recorded = MaxParallelism::new(64);
    /// let totals = MaxParallelismOf { operator: "totals", set: None, recorded };
    /// assert_eq!(MaxParallelism::agreed(&[totals], 500).ok(), recorded);
    ///
    /// let insisting = MaxParallelismOf { set: MaxParallelism::new(256), ..totals };
    /// assert_eq!(
    ///     MaxParallelism::agreed(&[insisting], 500).unwrap_err().to_string(),
    ///     "operator `totals` sets max parallelism 256, but its checkpoint was taken with 64; \
    ///      leave it unset, or start without the checkpoint",
    /// );
    /// ```
    pub fn agreed(
        operators: &[MaxParallelismOf<'_>],
        parallelism: u16,
    ) -> Result<Self, MaxParallelismConflict> {
        let mut claims = operators.iter().flat_map(|of| {
            let claim = |origin| move |max| (of.operator, origin, max);
            of.set
                .map(claim(Origin::Job))
                .into_iter()
                .chain(of.recorded.map(claim(Origin::Checkpoint)))
        });
        let Some(first) = claims.next() else {
            return Ok(Self::default_for(parallelism));
        };
        match claims.find(|claim| claim.2 != first.2) {
            None => Ok(first.2),
            Some(second) => Err(MaxParallelismConflict {
                first: Claim::new(first),
                second: Claim::new(second),
            }),
        }
    }
}

/// Two numbers that cannot both be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MaxParallelismConflict {
    /// One of them.
    pub first: Claim,
    /// The other.
    pub second: Claim,
}

/// An operator's number, and where it comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// The operator, as its user calls it.
    pub operator: String,
    /// Where the number comes from.
    pub origin: Origin,
    /// The number.
    pub max: MaxParallelism,
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// The job sets it.
    Job,
    /// The checkpoint recorded it.
    Checkpoint,
}

impl Claim {
    fn new((operator, origin, max): (&str, Origin, MaxParallelism)) -> Self {
        Self {
            operator: operator.to_owned(),
            origin,
            max,
        }
    }
}

impl fmt::Display for MaxParallelismConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        if first.operator == second.operator {
            return write!(
                f,
                "operator `{}` sets max parallelism {}, but its checkpoint was taken with {}; leave \
                 it unset, or start without the checkpoint",
                first.operator, first.max, second.max
            );
        }
        write!(
            f,
            "{first}, but {second}; operators chained into one task share its key groups: "
        )?;
        f.write_str(match (first.origin, second.origin) {
            (Origin::Job, Origin::Job) => "set the same for both, or do not chain them",
            (Origin::Checkpoint, Origin::Checkpoint) => "do not chain them",
            _ => "leave it unset, or do not chain them",
        })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Job => "sets",
            Origin::Checkpoint => "was saved with",
        };
        write!(
            f,
            "operator `{}` {origin} max parallelism {}",
            self.operator, self.max
        )
    }
}

impl core::error::Error for MaxParallelismConflict {}
