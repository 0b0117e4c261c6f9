//! Who owns which groups: the formula and its inverse, the default number of groups, explicit
//! assignments, and the plan that moves fewest.

use cutwater_keygroups::{
    Assignment, AssignmentError, KeyGroup, KeyGroupRange, KeyGroupSet, MaxParallelism, owner_of,
    range_of,
};

fn max(raw: u16) -> MaxParallelism {
    MaxParallelism::new(raw).unwrap()
}

fn contiguous(parallelism: u16, groups: u16) -> Assignment {
    Assignment::contiguous(parallelism, max(groups)).unwrap()
}

fn sets(ranges: &[(u16, u16)]) -> Vec<KeyGroupSet> {
    ranges
        .iter()
        .map(|(start, end)| KeyGroupRange::new(*start, *end).into())
        .collect()
}

/// Cases B24 and F079: the ranges are disjoint, cover every group, differ in size by at most 1, and
/// the owner of a group is the subtask whose range holds it. Compared with 64-bit arithmetic.
fn check_subtask(subtask: u16, parallelism: u16, groups: u16) {
    let wide =
        |subtask: u16| (u64::from(subtask) * u64::from(groups)).div_ceil(u64::from(parallelism));
    let range = range_of(subtask, parallelism, max(groups)).unwrap();
    assert_eq!(
        u64::from(range.start()),
        wide(subtask),
        "{subtask}/{parallelism} of {groups}"
    );
    assert_eq!(
        u64::from(range.end()),
        wide(subtask + 1),
        "{subtask}/{parallelism} of {groups}"
    );
    let floor = usize::from(groups / parallelism);
    assert!(range.len() == floor || range.len() == floor + 1);
    for group in [range.start(), range.end() - 1] {
        let owner = owner_of(KeyGroup::new(group), parallelism, max(groups));
        assert_eq!(
            owner,
            Ok(subtask),
            "group {group}, {parallelism} of {groups}"
        );
    }
}

#[test]
fn every_group_has_one_owner_for_all_up_to_300_groups() {
    for groups in 1..=300 {
        for parallelism in 1..=groups {
            let assignment = contiguous(parallelism, groups);
            let mut owned = KeyGroupRange::all(max(groups)).into_iter();
            for subtask in 0..parallelism {
                check_subtask(subtask, parallelism, groups);
                for group in range_of(subtask, parallelism, max(groups)).unwrap() {
                    assert_eq!(
                        owned.next(),
                        Some(group),
                        "{subtask}/{parallelism} of {groups}"
                    );
                    assert_eq!(assignment.owner(group), subtask);
                    assert_eq!(owner_of(group, parallelism, max(groups)), Ok(subtask));
                }
            }
            assert_eq!(owned.next(), None, "{parallelism} of {groups}");
        }
    }
}

/// An optimised build checks every subtask of every parallelism, 537 million. An unoptimised one
/// checks every 509th of each, and every one where rounding is at its worst.
#[test]
fn every_group_has_one_owner_at_32768_groups() {
    let worst = [
        1, 2, 3, 5, 127, 255, 257, 10923, 16383, 16385, 32766, 32767, 32768,
    ];
    for parallelism in 1..=32768 {
        let all = !cfg!(debug_assertions) || worst.contains(&parallelism);
        for subtask in (0..parallelism).step_by(if all { 1 } else { 509 }) {
            check_subtask(subtask, parallelism, 32768);
        }
        check_subtask(parallelism - 1, parallelism, 32768);
    }
}

#[test]
fn ranges_are_those_of_flink() {
    let mut checked = 0;
    for line in include_str!("golden/flink-assignment.csv").lines().skip(1) {
        let numbers: Vec<u16> = line
            .split(',')
            .map(|field| field.parse().unwrap())
            .collect();
        let &[groups, parallelism, subtask, first, last] = &numbers[..] else {
            panic!("{line}")
        };
        let range = range_of(subtask, parallelism, max(groups));
        assert_eq!(range, Ok(KeyGroupRange::new(first, last + 1)), "{line}");
        checked += 1;
    }
    assert_eq!(checked, 537);
}

/// Case F080. Flink computes 1.5 times in whole numbers; where that rounding matters, we keep the
/// promise.
#[test]
fn default_is_the_power_of_two_from_1_5_times_up() {
    for parallelism in 1..=32768u16 {
        let groups = MaxParallelism::default_for(parallelism).get();
        let wanted = u32::from(parallelism) * 3;
        assert!(groups.is_power_of_two() && (128..=32768).contains(&groups));
        assert!(
            u32::from(groups) * 2 >= wanted || groups == 32768,
            "{parallelism}"
        );
        assert!(
            u32::from(groups) < wanted || groups == 128,
            "{parallelism}: half would do"
        );
    }
    assert_eq!(MaxParallelism::default_for(0), max(128));
    assert_eq!(MaxParallelism::default_for(u16::MAX), MaxParallelism::MAX);
}

#[test]
fn default_is_that_of_flink_but_where_flink_rounds_down() {
    let steps: Vec<(u16, u16)> = include_str!("golden/flink-default-max-parallelism.csv")
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(parallelism, groups)| (parallelism.parse().unwrap(), groups.parse().unwrap()))
        .collect();
    let mut differs = Vec::new();
    for step in steps.windows(2) {
        for parallelism in step[0].0..step[1].0 {
            if MaxParallelism::default_for(parallelism).get() != step[0].1 {
                differs.push(parallelism);
            }
        }
    }
    assert_eq!(differs, [171, 683, 2731, 10923]);
}

#[test]
fn the_number_of_groups_is_1_to_32768() {
    assert_eq!(MaxParallelism::new(0), None);
    assert_eq!(MaxParallelism::new(32769), None);
    assert_eq!(MaxParallelism::new(1).map(MaxParallelism::get), Some(1));
    assert_eq!(MaxParallelism::new(32768), Some(MaxParallelism::MAX));
}

/// Case F079: p > G refused.
#[test]
fn more_subtasks_than_groups_are_refused() {
    let error = AssignmentError::TooManySubtasks {
        parallelism: 13,
        max_parallelism: max(12),
    };
    assert_eq!(Assignment::contiguous(13, max(12)), Err(error));
    assert_eq!(range_of(0, 13, max(12)), Err(error));
    assert_eq!(owner_of(KeyGroup::new(0), 13, max(12)), Err(error));
    assert_eq!(contiguous(12, 12).with_fewest_moves(13), Err(error));
    assert!(
        error
            .to_string()
            .contains("parallelism 13 is more than max parallelism 12")
    );
}

#[test]
fn what_does_not_exist_is_refused() {
    assert_eq!(
        Assignment::contiguous(0, max(12)),
        Err(AssignmentError::NoSubtasks)
    );
    assert_eq!(range_of(0, 0, max(12)), Err(AssignmentError::NoSubtasks));
    let no_such_subtask = AssignmentError::NoSuchSubtask {
        subtask: 3,
        parallelism: 3,
    };
    assert_eq!(range_of(3, 3, max(12)), Err(no_such_subtask));
    let group = KeyGroup::new(12);
    let no_such_group = AssignmentError::NoSuchGroup {
        group,
        max_parallelism: max(12),
    };
    assert_eq!(owner_of(group, 3, max(12)), Err(no_such_group));
}

#[test]
fn a_recorded_assignment_is_read_back() {
    for assignment in [
        contiguous(3, 12),
        contiguous(3, 12).with_fewest_moves(5).unwrap(),
    ] {
        let recorded = assignment.all_groups();
        assert_eq!(
            Assignment::explicit(&recorded, max(12)).as_ref(),
            Ok(&assignment)
        );
        for (subtask, groups) in (0..).zip(&recorded) {
            assert_eq!(assignment.groups(subtask), *groups);
        }
    }
    let with_an_idle_one = sets(&[(0, 5), (0, 0), (5, 12)]);
    let assignment = Assignment::explicit(&with_an_idle_one, max(12)).unwrap();
    assert_eq!(assignment.all_groups(), with_an_idle_one);
    assert_eq!(assignment.parallelism(), 3);
    assert_eq!(assignment.max_parallelism(), max(12));
}

#[test]
fn a_recorded_assignment_with_a_gap_or_an_overlap_is_refused() {
    let explicit = |ranges: &[_]| Assignment::explicit(&sets(ranges), max(12)).unwrap_err();
    let group = KeyGroup::new;
    assert_eq!(
        explicit(&[(0, 5), (6, 12)]),
        AssignmentError::Unowned(group(5))
    );
    let twice = AssignmentError::OwnedTwice {
        group: group(5),
        first: 0,
        second: 1,
    };
    assert_eq!(explicit(&[(0, 6), (5, 12)]), twice);
    let unknown = AssignmentError::NoSuchGroup {
        group: group(12),
        max_parallelism: max(12),
    };
    assert_eq!(explicit(&[(0, 6), (6, 13)]), unknown);
    assert_eq!(explicit(&[]), AssignmentError::NoSubtasks);
}

/// Every way to give `groups` groups to `parallelism` subtasks, by counting in base `parallelism`.
fn all_owner_lists(groups: u32, parallelism: u16) -> impl Iterator<Item = Vec<u16>> {
    (0..u32::from(parallelism).pow(groups)).map(move |number| {
        let digit = |place| number / u32::from(parallelism).pow(place) % u32::from(parallelism);
        (0..groups)
            .map(|place| u16::try_from(digit(place)).unwrap())
            .collect()
    })
}

fn sizes(owners: &[u16], parallelism: u16) -> Vec<usize> {
    (0..parallelism)
        .map(|i| owners.iter().filter(|owner| **owner == i).count())
        .collect()
}

fn is_balanced(sizes: &[usize]) -> bool {
    sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1
}

fn owners(assignment: &Assignment) -> Vec<u16> {
    let all = KeyGroupRange::all(assignment.max_parallelism());
    all.into_iter()
        .map(|group| assignment.owner(group))
        .collect()
}

/// By brute force: from every assignment of up to 5 groups, balanced or not, to every parallelism,
/// compared with every balanced assignment there is.
#[test]
fn no_balanced_assignment_moves_fewer_groups() {
    for groups in 1..=5 {
        for new_parallelism in 1..=groups {
            let rivals: Vec<Vec<u16>> = all_owner_lists(groups.into(), new_parallelism)
                .filter(|owners| is_balanced(&sizes(owners, new_parallelism)))
                .collect();
            for parallelism in 1..=groups {
                for old in all_owner_lists(groups.into(), parallelism) {
                    let owned_by = |i| {
                        let mine = (0..groups).filter(|group| old[usize::from(*group)] == i);
                        mine.map(KeyGroup::new).collect::<KeyGroupSet>()
                    };
                    let sets: Vec<KeyGroupSet> = (0..parallelism).map(owned_by).collect();
                    let before = Assignment::explicit(&sets, max(groups)).unwrap();
                    let after = before.with_fewest_moves(new_parallelism).unwrap();
                    assert_eq!(after.parallelism(), new_parallelism);
                    assert!(
                        is_balanced(&sizes(&owners(&after), new_parallelism)),
                        "{old:?}"
                    );
                    let moves =
                        |new: &Vec<u16>| old.iter().zip(new).filter(|(a, b)| a != b).count();
                    let fewest = rivals.iter().map(moves).min().unwrap();
                    assert_eq!(
                        after.moved_from(&before),
                        fewest,
                        "{old:?} to {new_parallelism}"
                    );
                }
            }
        }
    }
}

/// Rescaled again and again, an assignment stays balanced, and each step moves no more than what
/// new subtasks need, departed ones leave, and balance asks for.
#[test]
fn a_history_of_rescales_stays_balanced_and_cheap() {
    let groups = 128;
    let mut assignment = contiguous(2, groups);
    for parallelism in [3, 1, 4, 7, 128, 5, 64, 63, 2, 100, 100] {
        let before = assignment;
        assignment = before.with_fewest_moves(parallelism).unwrap();
        let old = sizes(&owners(&before), before.parallelism());
        let new = sizes(&owners(&assignment), parallelism);
        assert!(is_balanced(&new), "{new:?}");
        let kept: usize = old.iter().zip(&new).map(|(old, new)| old.min(new)).sum();
        assert_eq!(
            assignment.moved_from(&before),
            128 - kept,
            "to {parallelism}"
        );
    }
}

#[test]
fn ranges_move_more_groups_than_needed() {
    let old = contiguous(2, 128);
    assert_eq!(contiguous(3, 128).moved_from(&old), 63);
    assert_eq!(old.with_fewest_moves(3).unwrap().moved_from(&old), 42);
    assert_eq!(old.with_fewest_moves(2).unwrap(), old);
}

#[test]
fn a_subtasks_one_range_is_given_as_such_and_several_are_not() {
    let old = contiguous(2, 12);
    for subtask in 0..2 {
        assert_eq!(old.range(subtask), range_of(subtask, 2, max(12)).ok());
    }
    assert_eq!(old.range(2), None);
    let new = old.with_fewest_moves(3).unwrap();
    assert!(new.groups(2).ranges().len() > 1, "from either of the two");
    assert_eq!(new.range(2), None);
}
