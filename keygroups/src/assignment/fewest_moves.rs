//! Rescaling with as few groups on the move as balance allows.
//!
//! Flink's ranges shift at every rescale: from 2 to 3 subtasks, 128 groups, 63 change their owner.
//! Here 42 do, those that the third subtask must get from somewhere.
//!
//! Why nothing moves fewer: let `floor` be the smaller of the two sizes that balance allows, and
//! `larger` the number of subtasks that must have one more. A subtask that stays keeps at most what
//! it has and at most its new size. So the groups that stay are at most the sum of `min(had, floor)`,
//! plus one for each of the larger sizes that goes to a subtask that had more than `floor`. Both are
//! reached: the larger sizes go to such subtasks first, and nobody gives away what it may keep.

use alloc::{vec, vec::Vec};

use super::{Assignment, AssignmentError, check_parallelism};

impl Assignment {
    /// The assignment to `parallelism` subtasks that moves the fewest groups away from `self`,
    /// among all whose sizes differ by at most 1. See [`moved_from`](Self::moved_from).
    ///
    /// Subtask `i` stays subtask `i`. A subtask's groups are in general several ranges, more after
    /// each rescale, so the assignment must stand in the checkpoint: no formula gives it back.
    /// State that is kept by one range per subtask, as `cutwater-state` does for now, cannot follow
    /// it: [`range`](Self::range) is then `None`.
    ///
    /// # Errors
    ///
    /// If `parallelism` is 0 or more than the max parallelism.
    pub fn with_fewest_moves(&self, parallelism: u16) -> Result<Self, AssignmentError> {
        let max_parallelism = self.max_parallelism;
        check_parallelism(parallelism, max_parallelism)?;
        let mut room = self.new_sizes(parallelism);
        // Everyone keeps its lowest groups: what is given away lies at the end, mostly as one range.
        let kept: Vec<Option<u16>> = self
            .owners
            .iter()
            .map(|owner| take(&mut room, *owner))
            .collect();
        let mut needy = 0;
        let mut hand_out = || {
            while take(&mut room, needy).is_none() {
                needy += 1;
            }
            needy
        };
        let owners = kept
            .into_iter()
            .map(|owner| owner.unwrap_or_else(&mut hand_out))
            .collect();
        Ok(Self {
            owners,
            parallelism,
            max_parallelism,
        })
    }

    /// How many groups each of the new subtasks gets, so that most can stay.
    fn new_sizes(&self, parallelism: u16) -> Vec<u16> {
        let max_parallelism = self.max_parallelism.get();
        let floor = max_parallelism / parallelism;
        let mut larger = max_parallelism % parallelism;
        let mut had = vec![0u16; usize::from(parallelism)];
        for owner in &self.owners {
            if let Some(had) = had.get_mut(usize::from(*owner)) {
                *had += 1;
            }
        }
        let mut sizes = vec![floor; usize::from(parallelism)];
        for can_fill_it in [true, false] {
            for (size, had) in sizes.iter_mut().zip(&had) {
                if larger > 0 && (*had > floor) == can_fill_it {
                    *size += 1;
                    larger -= 1;
                }
            }
        }
        sizes
    }
}

/// Takes one of the places that `subtask` has left.
fn take(room: &mut [u16], subtask: u16) -> Option<u16> {
    let room = room.get_mut(usize::from(subtask))?;
    *room = room.checked_sub(1)?;
    Some(subtask)
}
