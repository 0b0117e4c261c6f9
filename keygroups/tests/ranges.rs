//! Ranges and sets of groups, and what is ordered by them.

use cutwater_keygroups::{
    GroupOffsets, KeyGroup, KeyGroupRange, KeyGroupSet, WrongGroup, partition_by_group,
};

fn range(start: u16, end: u16) -> KeyGroupRange {
    KeyGroupRange::new(start, end)
}

fn groups(raw: impl IntoIterator<Item = u16>) -> Vec<KeyGroup> {
    raw.into_iter().map(KeyGroup::new).collect()
}

/// Case F077.
#[test]
fn ranges_contain_intersect_and_iterate() {
    assert_eq!(range(4, 8).into_iter().collect::<Vec<_>>(), groups(4..8));
    assert_eq!(range(4, 8).len(), 4);
    assert!(range(4, 8).contains(KeyGroup::new(4)) && range(4, 8).contains(KeyGroup::new(7)));
    assert!(!range(4, 8).contains(KeyGroup::new(3)) && !range(4, 8).contains(KeyGroup::new(8)));
    assert_eq!(range(4, 8).intersection(range(6, 12)), range(6, 8));
    assert_eq!(range(4, 8).intersection(range(0, 32768)), range(4, 8));
    assert_eq!(range(4, 8).intersection(range(8, 12)), KeyGroupRange::EMPTY);
    assert_eq!(range(4, 8).to_string(), "[4..7]");
}

/// Case F077: one empty range, whatever it was made from.
#[test]
fn there_is_one_empty_range() {
    for empty in [range(5, 5), range(8, 4), KeyGroupRange::default()] {
        assert_eq!(empty, KeyGroupRange::EMPTY);
        assert!(empty.is_empty());
        assert_eq!((empty.len(), empty.into_iter().count()), (0, 0));
        assert_eq!(empty.to_string(), "[]");
    }
}

#[test]
fn sets_are_normalised() {
    let set: KeyGroupSet = [range(8, 9), range(5, 5), range(2, 4), range(0, 3)]
        .into_iter()
        .collect();
    assert_eq!(set.ranges(), [range(0, 4), range(8, 9)]);
    assert_eq!(set, groups([8, 3, 1, 0, 2, 1]).into_iter().collect());
    assert_eq!(set.len(), 5);
    assert_eq!(set.iter().collect::<Vec<_>>(), groups([0, 1, 2, 3, 8]));
    assert_eq!(set.bounds(), range(0, 9));
    assert_eq!(set.to_string(), "[0..3] [8..8]");
    assert_eq!(KeyGroupSet::EMPTY.to_string(), "[]");
    assert_eq!(KeyGroupSet::from(KeyGroupRange::EMPTY), KeyGroupSet::EMPTY);
    let touching: KeyGroupSet = [range(0, 3), range(3, 5)].into_iter().collect();
    assert_eq!(touching.ranges(), [range(0, 5)]);
}

/// All pairs of subsets of six groups.
#[test]
fn set_operations_agree_with_their_groups() {
    let subset =
        |bits: u16| -> Vec<KeyGroup> { groups((0..6).filter(|group| bits >> group & 1 == 1)) };
    for a in 0..64 {
        let set: KeyGroupSet = subset(a).into_iter().collect();
        for group in 0..7 {
            assert_eq!(set.contains(KeyGroup::new(group)), a >> group & 1 == 1);
        }
        for b in 0..64 {
            let other = subset(b).into_iter().collect();
            assert_eq!(
                set.intersection(&other),
                subset(a & b).into_iter().collect()
            );
        }
    }
}

/// Case B25.
#[test]
fn a_group_outside_is_an_error_that_names_group_and_range() {
    let error = range(4, 8).check(KeyGroup::new(9)).unwrap_err();
    assert_eq!((error.group, error.owned), (KeyGroup::new(9), range(4, 8)));
    assert!(
        error
            .to_string()
            .contains("key group 9 is outside the owned range [4..7]")
    );
    assert_eq!(range(4, 8).check(KeyGroup::new(7)), Ok(KeyGroup::new(7)));
}

/// Case F078.
#[test]
fn offsets_are_kept_per_group() -> Result<(), WrongGroup> {
    let mut offsets = GroupOffsets::new(range(4, 8));
    for (group, offset) in [(4, 0), (5, 10), (6, 30), (7, u64::MAX)] {
        offsets.set(KeyGroup::new(group), offset)?;
    }
    assert_eq!(offsets.get(KeyGroup::new(6)), Ok(30));
    let in_order: Vec<_> = offsets
        .iter()
        .map(|(group, offset)| (group.get(), offset))
        .collect();
    assert_eq!(in_order, [(4, 0), (5, 10), (6, 30), (7, u64::MAX)]);
    let part = offsets.intersection(range(6, 12));
    assert_eq!(part.range(), range(6, 8));
    assert_eq!(
        part.iter().map(|(_, offset)| offset).collect::<Vec<_>>(),
        [30, u64::MAX]
    );
    assert_eq!(offsets.intersection(range(0, 4)).iter().count(), 0);
    assert!(part.get(KeyGroup::new(5)).is_err());
    assert!(offsets.set(KeyGroup::new(8), 1).is_err());
    Ok(())
}

/// Case F081.
#[test]
fn partitioning_keeps_all_elements_and_their_order_within_a_group() {
    let mut seed = 1u64;
    for length in (0..100).chain([1000, 4097]) {
        let mut elements: Vec<(u16, usize)> = (0..length)
            .map(|at| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (100 + u16::try_from(seed >> 32 & 0xF).unwrap(), at)
            })
            .collect();
        let mut sorted = elements.clone();
        sorted.sort();
        let group_of = |element: &(u16, usize)| KeyGroup::new(element.0);
        let begins = partition_by_group(&mut elements, range(99, 117), group_of).unwrap();
        assert_eq!(elements, sorted);
        for (group, begin) in begins.iter() {
            let before = sorted
                .iter()
                .filter(|element| element.0 < group.get())
                .count();
            assert_eq!(
                begin,
                u64::try_from(before).unwrap(),
                "group {group} of {length}"
            );
        }
    }
}

#[test]
fn partitioning_moves_nothing_if_a_group_is_foreign() {
    let mut elements = [7, 5, 4, 9];
    let error = partition_by_group(&mut elements, range(4, 8), |raw| KeyGroup::new(*raw));
    assert_eq!(error.unwrap_err().group, KeyGroup::new(9));
    assert_eq!(elements, [7, 5, 4, 9]);
}

#[test]
fn a_range_inside_another_adds_nothing_to_a_set() {
    let whole = KeyGroupRange::new(0, 10);
    let set: KeyGroupSet = [whole, KeyGroupRange::new(2, 4)].into_iter().collect();
    assert_eq!(set.ranges(), [whole]);
}
