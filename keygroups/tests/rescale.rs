//! Restoring with other subtasks: who reads what, who takes which operator state, and which number
//! of groups holds.

use cutwater_keygroups::{
    Assignment, KeyGroup, KeyGroupRange, KeyGroupSet, Mapping, MaxParallelism, MaxParallelismOf,
    Read, RescaleError, RescalePlan,
    operator_state::{broadcast, split, union},
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

fn read(handle: usize, start: u16, end: u16) -> Read {
    Read {
        handle,
        groups: KeyGroupRange::new(start, end),
    }
}

/// SPEC 1.3's numbers.
#[test]
fn twelve_groups_from_three_subtasks_to_four() {
    let (old, new) = (contiguous(3, 12).all_groups(), contiguous(4, 12));
    assert_eq!(old, sets(&[(0, 4), (4, 8), (8, 12)]));
    assert_eq!(new.all_groups(), sets(&[(0, 3), (3, 6), (6, 9), (9, 12)]));
    let plan = RescalePlan::new(&old, &new).unwrap();
    assert_eq!(plan.reads(0), [read(0, 0, 3)]);
    assert_eq!(plan.reads(1), [read(0, 3, 4), read(1, 4, 6)]);
    assert_eq!(plan.reads(2), [read(1, 6, 8), read(2, 8, 9)]);
    assert_eq!(plan.reads(3), [read(2, 9, 12)]);
    assert_eq!(plan.reads(4), []);
}

/// Whatever the assignments, each new subtask reads each of its groups once, from the handle that
/// holds it, and nothing else (case F082).
#[test]
fn every_group_is_read_once_by_its_owner() {
    let steps = [1, 2, 3, 5, 8, 12, 7, 4, 1, 12];
    let mut old = contiguous(3, 12);
    for parallelism in steps {
        for new in [
            contiguous(parallelism, 12),
            old.with_fewest_moves(parallelism).unwrap(),
        ] {
            let handles = old.all_groups();
            let plan = RescalePlan::new(&handles, &new).unwrap();
            for subtask in 0..parallelism {
                let reads = plan.reads(subtask);
                let read: KeyGroupSet = reads.iter().map(|read| read.groups).collect();
                assert_eq!(read, new.groups(subtask), "{old:?} {new:?}");
                let count: usize = reads.iter().map(|read| read.groups.len()).sum();
                assert_eq!(count, read.len(), "no group twice");
                for read in reads {
                    assert!(!read.groups.is_empty());
                    for group in read.groups {
                        assert!(handles[read.handle].contains(group));
                    }
                }
            }
            old = new;
        }
    }
}

/// Case B23: of two old subtasks only one has state "x", the other only "y"; each state is planned
/// from the handles that have it, and a subtask whose groups nobody held gets none.
#[test]
fn a_subtask_gets_no_handle_that_it_needs_no_group_of() {
    let x = RescalePlan::new(&sets(&[(0, 2)]), &contiguous(3, 4)).unwrap();
    assert_eq!(x.reads(0), [read(0, 0, 2)]);
    assert_eq!(x.reads(1), []);
    assert_eq!(x.reads(2), []);
    let y = RescalePlan::new(&sets(&[(0, 0), (2, 4)]), &contiguous(3, 4)).unwrap();
    assert_eq!(y.reads(0), []);
    assert_eq!(y.reads(1), [read(1, 2, 3)]);
    assert_eq!(y.reads(2), [read(1, 3, 4)]);
}

#[test]
fn handles_of_different_checkpoints_are_refused() {
    let new = contiguous(2, 12);
    let error = RescalePlan::new(&sets(&[(0, 4), (4, 8), (7, 12)]), &new).unwrap_err();
    let group = KeyGroup::new(7);
    assert_eq!(
        error,
        RescaleError::HeldTwice {
            group,
            first: 1,
            second: 2
        }
    );
    assert!(
        error
            .to_string()
            .contains("handles 1 and 2 both hold key group 7")
    );
    let error = RescalePlan::new(&sets(&[(0, 4), (4, 13)]), &new).unwrap_err();
    assert_eq!(
        error,
        RescaleError::NoSuchGroup {
            group: KeyGroup::new(12),
            handle: 1
        }
    );
}

/// Case F086.
#[test]
fn a_mapping_inverted_twice_is_itself() {
    let mapping = Mapping::new(vec![vec![2, 0, 2], vec![], vec![1, 2]], 4);
    assert_eq!(mapping.partners(0), [0, 2], "ascending and distinct");
    assert_eq!(mapping.inverted().partners(2), [0, 2]);
    assert_eq!(mapping.inverted().partners(3), []);
    assert_eq!(mapping.inverted().inverted(), mapping);
    assert_eq!(mapping.ambiguous(), [2]);
    for (from, to) in [(3, 4), (4, 3), (1, 5), (5, 1), (12, 7)] {
        let plan = RescalePlan::new(&contiguous(from, 12).all_groups(), &contiguous(to, 12));
        let sources = plan.unwrap().sources();
        assert_eq!(sources.inverted().inverted(), sources, "{from} to {to}");
    }
}

/// Case F086: a record in flight to an old subtask that several new ones succeed must be filtered.
#[test]
fn handles_that_several_subtasks_read_are_ambiguous() {
    let sources = |from, to| {
        let old = contiguous(from, 12).all_groups();
        RescalePlan::new(&old, &contiguous(to, 12))
            .unwrap()
            .sources()
    };
    assert_eq!(sources(3, 4).partners(1), [0, 1]);
    assert_eq!(sources(3, 4).ambiguous(), [0, 1, 2]);
    assert_eq!(sources(2, 1).ambiguous(), []);
    assert_eq!(sources(1, 2).ambiguous(), [0]);
    assert!(sources(3, 3).is_identity());
    assert!(!sources(3, 4).is_identity());
}

/// Case F088.
#[test]
fn split_lists_are_dealt_evenly_and_in_order() {
    let old = || vec![vec!['a', 'b', 'c', 'd', 'e'], vec![], vec!['f', 'g']];
    assert_eq!(
        split(old(), 2),
        [vec!['a', 'b', 'c', 'd'], vec!['e', 'f', 'g']]
    );
    assert_eq!(
        split(old(), 4),
        [vec!['a', 'b'], vec!['c', 'd'], vec!['e', 'f'], vec!['g']]
    );
    for parallelism in 1..20 {
        let new = split(old(), parallelism);
        assert_eq!(new.len(), usize::from(parallelism));
        assert_eq!(new.concat(), old().concat(), "none lost, order kept");
        if parallelism != 3 {
            let sizes: Vec<usize> = new.iter().map(Vec::len).collect();
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                "{sizes:?}"
            );
        }
    }
    assert_eq!(split(Vec::<Vec<u8>>::new(), 2), [vec![], vec![]]);
}

/// Case F087: when nothing is rescaled, what an old subtask had goes to the same new one.
#[test]
fn split_lists_stay_where_they_are_if_nothing_is_rescaled() {
    let old = vec![vec![1, 2, 3], vec![], vec![4]];
    assert_eq!(split(old.clone(), 3), old);
}

/// Cases F089 and F091: also when some subtasks reported none.
#[test]
fn union_lists_go_whole_to_everyone() {
    let old = vec![vec![1, 2], vec![], vec![3]];
    assert_eq!(union(old.clone(), 1), [[1, 2, 3]]);
    assert_eq!(union(old.clone(), 3), [[1, 2, 3]; 3]);
    assert_eq!(union(old, 5), [[1, 2, 3]; 5]);
    assert_eq!(union(Vec::<Vec<u8>>::new(), 2), [vec![], vec![]]);
}

/// Cases F090 and F091.
#[test]
fn everyone_gets_one_copy_of_a_broadcast_state() {
    let old = [Some("copy 0"), None, Some("copy 2")];
    assert_eq!(broadcast(&old, 1), [Some("copy 0")]);
    assert_eq!(
        broadcast(&old, 3),
        [Some("copy 0"), Some("copy 2"), Some("copy 2")]
    );
    let copies = broadcast(&old, 6);
    assert_eq!(
        copies[3..],
        [Some("copy 2"), Some("copy 0"), Some("copy 2")],
        "they take turns"
    );
    assert_eq!(broadcast::<u8>(&[None, None], 3), [None; 3]);
    assert_eq!(broadcast::<u8>(&[], 2), [None; 2]);
}

fn of(operator: &str, set: Option<u16>, recorded: Option<u16>) -> MaxParallelismOf<'_> {
    MaxParallelismOf {
        operator,
        set: set.map(max),
        recorded: recorded.map(max),
    }
}

fn agreed(operators: &[MaxParallelismOf<'_>]) -> Result<u16, String> {
    match MaxParallelism::agreed(operators, 500) {
        Ok(max) => Ok(max.get()),
        Err(conflict) => Err(conflict.to_string()),
    }
}

/// Case F083.
#[test]
fn a_recorded_number_of_groups_is_adopted_unless_the_job_insists_on_another() {
    assert_eq!(
        agreed(&[of("a", None, None)]),
        Ok(1024),
        "the default for 500 subtasks"
    );
    assert_eq!(agreed(&[of("a", None, Some(64))]), Ok(64));
    assert_eq!(agreed(&[of("a", Some(64), Some(64))]), Ok(64));
    assert_eq!(agreed(&[of("a", Some(256), None)]), Ok(256));
    let refusal = agreed(&[of("a", Some(256), Some(64))]).unwrap_err();
    assert!(refusal.contains("`a`") && refusal.contains("256") && refusal.contains("64"));
}

/// Cases B22 and F084.
#[test]
fn operators_of_one_task_must_agree_in_either_order() {
    let (a, b) = (of("first", None, Some(128)), of("second", None, Some(64)));
    for refusal in [agreed(&[a, b]).unwrap_err(), agreed(&[b, a]).unwrap_err()] {
        assert!(
            refusal.contains("`first` was saved with max parallelism 128"),
            "{refusal}"
        );
        assert!(
            refusal.contains("`second` was saved with max parallelism 64"),
            "{refusal}"
        );
    }
    let (new, set) = (of("new", None, None), of("set", Some(64), None));
    assert_eq!(agreed(&[a, new]), Ok(128), "one that is new joins");
    assert!(
        agreed(&[a, new, set])
            .unwrap_err()
            .contains("`set` sets max parallelism 64")
    );
    assert_eq!(agreed(&[b, set, new]), Ok(64));
}
