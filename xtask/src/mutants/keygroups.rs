//! Bugs in who owns which keys, and who reads what after a rescale.

use super::{KEYGROUPS, Mutant, SIM};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: "keygroups/src/assignment.rs",
        from: "product.div_ceil(parallelism as u32) as u16",
        to: "(product / parallelism as u32) as u16",
        test: KEYGROUPS,
        why: "ranges are rounded other than Flink's, and a savepoint taken there lands elsewhere",
    },
    Mutant {
        file: "keygroups/src/assignment.rs",
        from: "(group.get() as u32 * parallelism as u32 / max.get() as u32) as u16",
        to: "(group.get() as u32 * parallelism as u32).div_ceil(max.get() as u32) as u16 % parallelism",
        test: KEYGROUPS,
        why: "a record goes to a subtask that does not own its key",
    },
    Mutant {
        file: "keygroups/src/assignment.rs",
        from: "let owned = |(group, owner): (_, Option<u16>)| owner.ok_or(AssignmentError::Unowned(group));",
        to: "let owned = |(_, owner): (_, Option<u16>)| Ok::<_, AssignmentError>(owner.unwrap_or(0));",
        test: KEYGROUPS,
        why: "an assignment with a gap is accepted",
    },
    Mutant {
        file: "keygroups/src/assignment/fewest_moves.rs",
        from: "for can_fill_it in [true, false] {",
        to: "for can_fill_it in [false, true] {",
        test: KEYGROUPS,
        why: "more groups move than need to",
    },
    Mutant {
        file: "keygroups/src/grouping.rs",
        from: "Self::Xxh64 => ((hash.upper() as u64 * max as u64) >> 32) as u16,",
        to: "Self::Xxh64 => (hash.upper() as u64 % max as u64) as u16,",
        test: KEYGROUPS,
        why: "every key of every checkpoint is in another group",
    },
    Mutant {
        file: "keygroups/src/rescale.rs",
        from: "if !range.contains(next) || new.owner_if_any(next) != Some(owner) {",
        to: "if !range.contains(next) {",
        test: SIM,
        why: "a subtask reads key groups that are not its own, and another one misses them",
    },
    Mutant {
        file: "keygroups/src/rescale.rs",
        from: "if let Some(first) = holder.replace(handle) {",
        to: "if let (Some(first), true) = (holder.replace(handle), handle == usize::MAX) {",
        test: KEYGROUPS,
        why: "a group that two handles hold is restored from both",
    },
    Mutant {
        file: "keygroups/src/operator_state.rs",
        from: "let one_more = usize::from(subtask < count % parallelism);",
        to: "let one_more = 0 * subtask;",
        test: KEYGROUPS,
        why: "pieces of state fall to nobody",
    },
    Mutant {
        file: "keygroups/src/range.rs",
        from: "Some(last) if range.start <= last.end => last.end = last.end.max(range.end),",
        to: "Some(last) if range.start <= last.end => last.end = range.end,",
        test: KEYGROUPS,
        why: "a set of groups loses what a shorter range follows",
    },
];
