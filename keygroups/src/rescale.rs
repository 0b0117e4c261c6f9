//! Who reads what when a checkpoint is restored with other subtasks than it was taken with.

use alloc::{vec, vec::Vec};
use core::fmt;

use crate::{Assignment, KeyGroup, KeyGroupRange, KeyGroupSet};

/// For each new subtask, which key groups it reads from which old handle.
///
/// ```
/// use cutwater_keygroups::{Assignment, KeyGroupRange, MaxParallelism, Read, RescalePlan};
///
/// let max = MaxParallelism::new(12).unwrap();
/// let old = Assignment::contiguous(3, max)?; // [0..3] [4..7] [8..11]
/// let new = Assignment::contiguous(4, max)?; // [0..2] [3..5] [6..8] [9..11]
/// let plan = RescalePlan::new(&old.all_groups(), &new).unwrap();
/// let group_3_from_old_0 = Read { handle: 0, groups: KeyGroupRange::new(3, 4) };
/// let groups_4_and_5_from_old_1 = Read { handle: 1, groups: KeyGroupRange::new(4, 6) };
/// assert_eq!(plan.reads(1), [group_3_from_old_0, groups_4_and_5_from_old_1]);
/// # Ok::<(), cutwater_keygroups::AssignmentError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RescalePlan {
    reads: Vec<Vec<Read>>,
    handles: usize,
}

/// A range of key groups to read from an old handle.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a plan is compared with a literal in tests"
)]
pub struct Read {
    /// The place of the handle in the list that the plan was made from.
    pub handle: usize,
    /// What to read of it. Never empty.
    pub groups: KeyGroupRange,
}

impl RescalePlan {
    /// The plan from `old`, the groups that each handle holds as the checkpoint recorded them, to
    /// `new`.
    ///
    /// A subtask gets no handle of which it needs no group (cases B23 and F082). A group that no
    /// handle holds has no state yet, because its subtask reported none; that is no error (F091).
    ///
    /// # Errors
    ///
    /// If two handles hold the same group, of which one must be stale, or a handle holds a group
    /// that `new` does not know.
    pub fn new(old: &[KeyGroupSet], new: &Assignment) -> Result<Self, RescaleError> {
        let mut reads = vec![Vec::<Read>::new(); usize::from(new.parallelism())];
        for (handle, groups, owner) in runs(old, new)? {
            reads[usize::from(owner)].push(Read { handle, groups });
        }
        Ok(Self {
            reads,
            handles: old.len(),
        })
    }

    /// What new subtask `subtask` reads: by handle, then by group. Nothing if there is no such
    /// subtask.
    pub fn reads(&self, subtask: u16) -> &[Read] {
        self.reads
            .get(usize::from(subtask))
            .map_or(&[], Vec::as_slice)
    }

    /// From which handles each new subtask reads.
    pub fn sources(&self) -> Mapping {
        let handles = |reads: &Vec<Read>| reads.iter().map(|read| read.handle).collect();
        Mapping::new(self.reads.iter().map(handles).collect(), self.handles)
    }
}

/// The groups of the handles, cut wherever the owner changes: by handle, then by group.
fn runs(
    old: &[KeyGroupSet],
    new: &Assignment,
) -> Result<Vec<(usize, KeyGroupRange, u16)>, RescaleError> {
    let mut holders = vec![None; usize::from(new.max_parallelism().get())];
    let mut runs = Vec::new();
    for (handle, held) in old.iter().enumerate() {
        for range in held.ranges() {
            let mut start = range.start();
            for group in *range {
                let unknown = RescaleError::NoSuchGroup { group, handle };
                let holder = holders.get_mut(usize::from(group.get())).ok_or(unknown)?;
                if let Some(first) = holder.replace(handle) {
                    return Err(RescaleError::HeldTwice {
                        group,
                        first,
                        second: handle,
                    });
                }
                let owner = new.owner(group);
                let next = KeyGroup::new(group.get() + 1);
                if !range.contains(next) || new.owner_if_any(next) != Some(owner) {
                    runs.push((handle, KeyGroupRange::new(start, next.get()), owner));
                    start = next.get();
                }
            }
        }
    }
    Ok(runs)
}

/// Why handles cannot be read by an assignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RescaleError {
    /// Two handles hold the state of a group.
    HeldTwice {
        /// The group.
        group: KeyGroup,
        /// The first handle that holds it.
        first: usize,
        /// The next that does.
        second: usize,
    },
    /// The handle was written with a larger max parallelism.
    NoSuchGroup {
        /// The group.
        group: KeyGroup,
        /// The handle that holds it.
        handle: usize,
    },
}

impl fmt::Display for RescaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldTwice {
                group,
                first,
                second,
            } => write!(
                f,
                "handles {first} and {second} both hold key group {group}; a checkpoint has one of \
                 each, so they are of different checkpoints"
            ),
            Self::NoSuchGroup { group, handle } => write!(
                f,
                "handle {handle} holds key group {group}, which the job does not have; restore \
                 with the max parallelism of the checkpoint"
            ),
        }
    }
}

impl core::error::Error for RescaleError {}

/// Which of some numbered things go with which of others: new subtasks with old handles, say.
///
/// Normalised: partners are ascending and distinct. Inverting twice gives the same (case F086).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    partners: Vec<Vec<usize>>,
    others: usize,
}

impl Mapping {
    /// `partners[i]` are the partners of `i`, among `0..others`.
    ///
    /// # Panics
    ///
    /// If a partner is not among them.
    pub fn new(mut partners: Vec<Vec<usize>>, others: usize) -> Self {
        for partners in &mut partners {
            partners.sort_unstable();
            partners.dedup();
            assert!(
                partners.last().is_none_or(|last| *last < others),
                "{partners:?} < {others}"
            );
        }
        Self { partners, others }
    }

    /// The partners of `i`, ascending. None if there is no `i`.
    pub fn partners(&self, i: usize) -> &[usize] {
        self.partners.get(i).map_or(&[], Vec::as_slice)
    }

    /// The same, seen from the others.
    #[must_use]
    pub fn inverted(&self) -> Self {
        let mut inverted = vec![Vec::new(); self.others];
        for (i, partners) in self.partners.iter().enumerate() {
            for partner in partners {
                inverted[*partner].push(i);
            }
        }
        Self {
            partners: inverted,
            others: self.partners.len(),
        }
    }

    /// Whether everything keeps its number and its only partner, so that nothing is rescaled and
    /// whatever belongs to one old subtask may go to the new one of its number (case F087).
    pub fn is_identity(&self) -> bool {
        self.partners.len() == self.others
            && self
                .partners
                .iter()
                .enumerate()
                .all(|(i, partners)| *partners == [i])
    }

    /// The others that go with more than one.
    ///
    /// Of a [`RescalePlan`]'s sources, these are the handles that several new subtasks read: a
    /// record in flight to one of them must be filtered by its key to be taken exactly once.
    pub fn ambiguous(&self) -> Vec<usize> {
        let inverted = self.inverted();
        (0..self.others)
            .filter(|other| inverted.partners(*other).len() > 1)
            .collect()
    }
}
