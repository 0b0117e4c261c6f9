//! Which subtask owns which key groups.
//!
//! Every group has exactly one owner. A job starts with [`Assignment::contiguous`]; after a rescale
//! its assignment may be any other, and stands in the checkpoint.

mod fewest_moves;

use alloc::{boxed::Box, vec, vec::Vec};
use core::fmt;

use crate::{KeyGroup, KeyGroupRange, KeyGroupSet, MaxParallelism};

/// The owner of every key group of a job.
///
/// A table of two bytes per group, so that routing a record to its subtask is one load, whatever
/// the assignment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assignment {
    owners: Box<[u16]>,
    parallelism: u16,
    max_parallelism: MaxParallelism,
}

impl Assignment {
    /// One range per subtask, in order: [`range_of`].
    ///
    /// # Errors
    ///
    /// If `parallelism` is 0 or more than `max_parallelism`.
    pub fn contiguous(
        parallelism: u16,
        max_parallelism: MaxParallelism,
    ) -> Result<Self, AssignmentError> {
        check_parallelism(parallelism, max_parallelism)?;
        let owner = |group| owner_by_formula(group, parallelism, max_parallelism);
        let owners = KeyGroupRange::all(max_parallelism)
            .into_iter()
            .map(owner)
            .collect();
        Ok(Self {
            owners,
            parallelism,
            max_parallelism,
        })
    }

    /// The assignment that gives `groups[i]` to subtask `i`, as a checkpoint recorded it.
    ///
    /// A subtask may own nothing.
    ///
    /// # Errors
    ///
    /// If there are no subtasks or more than `max_parallelism`, a group has no owner or two, or
    /// there is no such group.
    pub fn explicit(
        groups: &[KeyGroupSet],
        max_parallelism: MaxParallelism,
    ) -> Result<Self, AssignmentError> {
        let too_many = AssignmentError::TooManySubtasks {
            parallelism: u16::MAX,
            max_parallelism,
        };
        let parallelism = u16::try_from(groups.len()).map_err(|_| too_many)?;
        check_parallelism(parallelism, max_parallelism)?;
        let mut owners = vec![None; usize::from(max_parallelism.get())];
        for (subtask, owned) in (0..parallelism).zip(groups) {
            for group in owned.iter() {
                let no_such_group = AssignmentError::NoSuchGroup {
                    group,
                    max_parallelism,
                };
                let owner = owners
                    .get_mut(usize::from(group.get()))
                    .ok_or(no_such_group)?;
                if let Some(first) = owner.replace(subtask) {
                    return Err(AssignmentError::OwnedTwice {
                        group,
                        first,
                        second: subtask,
                    });
                }
            }
        }
        let all = KeyGroupRange::all(max_parallelism);
        let owned = |(group, owner): (_, Option<u16>)| owner.ok_or(AssignmentError::Unowned(group));
        let owners = all
            .into_iter()
            .zip(owners)
            .map(owned)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            owners,
            parallelism,
            max_parallelism,
        })
    }

    /// The number of subtasks.
    pub const fn parallelism(&self) -> u16 {
        self.parallelism
    }

    /// The number of groups.
    pub const fn max_parallelism(&self) -> MaxParallelism {
        self.max_parallelism
    }

    /// The subtask that owns `group`.
    ///
    /// # Panics
    ///
    /// If `group` is not one of this job's: it was computed with another max parallelism.
    #[inline]
    pub fn owner(&self, group: KeyGroup) -> u16 {
        self.owners[usize::from(group.get())]
    }

    pub(crate) fn owner_if_any(&self, group: KeyGroup) -> Option<u16> {
        self.owners.get(usize::from(group.get())).copied()
    }

    /// The groups of one subtask. None if there is no such subtask.
    pub fn groups(&self, subtask: u16) -> KeyGroupSet {
        self.owned()
            .filter(|(owner, _)| *owner == subtask)
            .map(|(_, group)| group)
            .collect()
    }

    /// The groups of one subtask as the one range they are, which is what keyed state takes.
    ///
    /// `None` if there is no such subtask, or if it owns nothing or several ranges. Every subtask of
    /// [`contiguous`](Self::contiguous) has one.
    pub fn range(&self, subtask: u16) -> Option<KeyGroupRange> {
        match self.groups(subtask).ranges() {
            [range] => Some(*range),
            _ => None,
        }
    }

    /// The groups of every subtask, in order. This is what a checkpoint records.
    pub fn all_groups(&self) -> Vec<KeyGroupSet> {
        let mut owned = vec![Vec::new(); usize::from(self.parallelism)];
        for (owner, group) in self.owned() {
            owned[usize::from(owner)].push(group);
        }
        owned
            .into_iter()
            .map(|groups| groups.into_iter().collect())
            .collect()
    }

    /// How many groups have an owner of another number here than in `old`.
    ///
    /// Only these need to travel when subtask `i` finds its own old state where it runs.
    ///
    /// # Panics
    ///
    /// If the two have not equally many groups.
    pub fn moved_from(&self, old: &Self) -> usize {
        assert_eq!(self.max_parallelism, old.max_parallelism, "max parallelism");
        self.owners
            .iter()
            .zip(&old.owners)
            .filter(|(new, old)| new != old)
            .count()
    }

    fn owned(&self) -> impl Iterator<Item = (u16, KeyGroup)> {
        let groups = KeyGroupRange::all(self.max_parallelism);
        self.owners.iter().copied().zip(groups)
    }
}

/// The groups owned by subtask `subtask` of `parallelism`, out of `max_parallelism` groups.
///
/// Rounds up at both ends, as Flink's `KeyGroupRangeAssignment` does, so that a savepoint taken
/// there lands on the same subtask here. Sizes differ by at most 1.
///
/// # Errors
///
/// If `parallelism` is 0 or more than `max_parallelism`, or there is no such subtask.
pub const fn range_of(
    subtask: u16,
    parallelism: u16,
    max_parallelism: MaxParallelism,
) -> Result<KeyGroupRange, AssignmentError> {
    if let Err(error) = check_parallelism(parallelism, max_parallelism) {
        return Err(error);
    }
    if subtask >= parallelism {
        return Err(AssignmentError::NoSuchSubtask {
            subtask,
            parallelism,
        });
    }
    let start = start_of(subtask, parallelism, max_parallelism);
    Ok(KeyGroupRange::new(
        start,
        start_of(subtask + 1, parallelism, max_parallelism),
    ))
}

/// The subtask whose [`range_of`] contains `group`.
///
/// Its exact inverse (case B24): rounding down undoes rounding up.
///
/// # Errors
///
/// If `parallelism` is 0 or more than `max_parallelism`, or there is no such group.
pub const fn owner_of(
    group: KeyGroup,
    parallelism: u16,
    max_parallelism: MaxParallelism,
) -> Result<u16, AssignmentError> {
    if let Err(error) = check_parallelism(parallelism, max_parallelism) {
        return Err(error);
    }
    if group.get() >= max_parallelism.get() {
        return Err(AssignmentError::NoSuchGroup {
            group,
            max_parallelism,
        });
    }
    Ok(owner_by_formula(group, parallelism, max_parallelism))
}

#[expect(clippy::cast_possible_truncation, reason = "at most max_parallelism")]
const fn start_of(subtask: u16, parallelism: u16, max_parallelism: MaxParallelism) -> u16 {
    let product = subtask as u32 * max_parallelism.get() as u32;
    product.div_ceil(parallelism as u32) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "less than parallelism")]
const fn owner_by_formula(group: KeyGroup, parallelism: u16, max: MaxParallelism) -> u16 {
    (group.get() as u32 * parallelism as u32 / max.get() as u32) as u16
}

const fn check_parallelism(
    parallelism: u16,
    max_parallelism: MaxParallelism,
) -> Result<(), AssignmentError> {
    if parallelism == 0 {
        Err(AssignmentError::NoSubtasks)
    } else if parallelism > max_parallelism.get() {
        Err(AssignmentError::TooManySubtasks {
            parallelism,
            max_parallelism,
        })
    } else {
        Ok(())
    }
}

/// Why there is no such assignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AssignmentError {
    /// The parallelism is 0.
    NoSubtasks,
    /// There are more subtasks than groups, so some could never get a key.
    TooManySubtasks {
        /// The number of subtasks, or `u16::MAX` if there are even more.
        parallelism: u16,
        /// The number of groups.
        max_parallelism: MaxParallelism,
    },
    /// There are not so many subtasks.
    NoSuchSubtask {
        /// The number of the subtask.
        subtask: u16,
        /// The number of subtasks.
        parallelism: u16,
    },
    /// There are not so many groups.
    NoSuchGroup {
        /// The number of the group.
        group: KeyGroup,
        /// The number of groups.
        max_parallelism: MaxParallelism,
    },
    /// Nobody owns the group.
    Unowned(KeyGroup),
    /// Two own the group, or one lists it twice.
    OwnedTwice {
        /// The group.
        group: KeyGroup,
        /// The first subtask that has it.
        first: u16,
        /// The next that has it.
        second: u16,
    },
}

impl fmt::Display for AssignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSubtasks => f.write_str("parallelism is 0; it must be at least 1"),
            Self::TooManySubtasks {
                parallelism,
                max_parallelism,
            } => write!(
                f,
                "parallelism {parallelism} is more than max parallelism {max_parallelism}; lower \
                 the one, or start a new job with more of the other"
            ),
            Self::NoSuchSubtask {
                subtask,
                parallelism,
            } => {
                write!(f, "there is no subtask {subtask}, only 0..{parallelism}")
            }
            Self::NoSuchGroup {
                group,
                max_parallelism,
            } => {
                write!(
                    f,
                    "there is no key group {group}, only 0..{max_parallelism}"
                )
            }
            Self::Unowned(group) => write!(f, "no subtask owns key group {group}"),
            Self::OwnedTwice {
                group,
                first,
                second,
            } => {
                write!(
                    f,
                    "key group {group} is owned by subtask {first} and by subtask {second}"
                )
            }
        }
    }
}

impl core::error::Error for AssignmentError {}
