//! Operator state, and how it is dealt out.

use cutwater_state::{ErrorKind, OperatorStates, Result};

/// One subtask's snapshot with a list, a union list and a broadcast map, from these numbers.
fn subtask(list: &[u32], union: &[u32], rules: &[u32]) -> Result<Vec<u8>> {
    let mut states = OperatorStates::new("op");
    let (l, u, b) = (
        states.list::<u32>("l")?,
        states.union::<u32>("u")?,
        states.broadcast::<u32, String>("b")?,
    );
    states[l].extend(list);
    states[u].extend(union);
    states[b].extend(rules.iter().map(|rule| (*rule, rule.to_string())));
    states.snapshot()
}

type Share = (Vec<u32>, Vec<u32>, Vec<u32>);

fn restored(old: &[Vec<u8>], parallelism: u16) -> Result<Vec<Share>> {
    let share = |subtask| {
        let mut states = OperatorStates::restore("op", subtask, parallelism, old.to_vec())?;
        let (l, u) = (states.list::<u32>("l")?, states.union::<u32>("u")?);
        let b = states.broadcast::<u32, String>("b")?;
        let rules = states[b].keys().copied().collect();
        Ok((states[l].clone(), states[u].clone(), rules))
    };
    (0..parallelism).map(share).collect()
}

fn lists(old: &[Vec<u8>], parallelism: u16) -> Result<Vec<Vec<u32>>> {
    Ok(restored(old, parallelism)?
        .into_iter()
        .map(|(list, ..)| list)
        .collect())
}

/// F087, F088.
#[test]
fn a_list_is_dealt_out_evenly_in_order() -> Result<()> {
    let old = [
        subtask(&[1, 2, 3, 4, 5], &[], &[])?,
        subtask(&[6, 7], &[], &[])?,
    ];
    assert_eq!(lists(&old, 3)?, [vec![1, 2, 3], vec![4, 5], vec![6, 7]]);
    assert_eq!(lists(&old, 1)?, [vec![1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(
        lists(&old, 2)?,
        [vec![1, 2, 3, 4, 5], vec![6, 7]],
        "not rescaled, not moved"
    );
    assert_eq!(lists(&old, 8)?.concat(), [1, 2, 3, 4, 5, 6, 7]);
    Ok(())
}

#[test]
fn a_single_list_needs_no_declaration() -> Result<()> {
    let pieces = |pieces: &[u8]| OperatorStates::snapshot_list("op", "l", pieces.to_vec());
    let old = [pieces(&[1, 2])?, pieces(&[])?, pieces(&[3])?];
    assert_eq!(old[1], []);
    let share = |subtask| OperatorStates::restore_list::<u8>("op", "l", subtask, 2, &old);
    assert_eq!(share(0)?, [1, 2]);
    assert_eq!(share(1)?, [3]);
    Ok(())
}

/// F089.
#[test]
fn a_union_list_goes_to_everyone_whole() -> Result<()> {
    let old = [subtask(&[], &[1, 2], &[])?, subtask(&[], &[3], &[])?];
    for parallelism in 1..4 {
        let shares = restored(&old, parallelism)?;
        assert_eq!(shares.len(), usize::from(parallelism));
        assert!(shares.iter().all(|(_, union, _)| *union == [1, 2, 3]));
    }
    Ok(())
}

/// F090: own copies where there are; copies of others where there are none.
#[test]
fn a_broadcast_map_has_one_copy_everywhere() -> Result<()> {
    let old = [
        subtask(&[], &[], &[1, 2])?,
        Vec::new(),
        subtask(&[], &[], &[1, 2])?,
    ];
    for parallelism in 1..6 {
        let shares = restored(&old, parallelism)?;
        assert!(shares.iter().all(|(.., rules)| *rules == [1, 2]));
    }
    Ok(())
}

/// F091.
#[test]
fn a_subtask_without_a_report_does_not_keep_the_others_back() -> Result<()> {
    let old = [Vec::new(), subtask(&[1, 2], &[], &[])?, Vec::new()];
    assert_eq!(lists(&old, 2)?, [vec![1], vec![2]]);
    Ok(())
}

/// F092.
#[test]
fn nothing_to_save_is_no_bytes_and_a_broadcast_map_alone_is_some() -> Result<()> {
    assert!(OperatorStates::new("op").snapshot()?.is_empty());
    assert!(subtask(&[], &[], &[])?.is_empty());
    assert!(!subtask(&[], &[], &[1])?.is_empty());
    Ok(())
}

/// F093.
#[test]
fn writes_after_the_snapshot_are_not_in_it() -> Result<()> {
    let mut states = OperatorStates::new("op");
    let list = states.list::<u32>("l")?;
    states[list].push(1);
    let bytes = states.snapshot()?;
    states[list].push(2);
    let mut states = OperatorStates::restore("op", 0, 1, [bytes])?;
    let list = states.list::<u32>("l")?;
    assert_eq!(states[list], [1]);
    Ok(())
}

/// F094.
#[test]
fn another_kind_schema_or_operator_is_refused() -> Result<()> {
    let old = [subtask(&[1], &[], &[])?];
    let mut states = OperatorStates::restore("op", 0, 1, old.clone())?;
    assert_eq!(states.undeclared(), ["b", "l", "u"]);
    let errors = [
        states.union::<u32>("l").unwrap_err(),
        states.list::<u64>("l").unwrap_err(),
        states.broadcast::<u32, u32>("b").unwrap_err(),
        OperatorStates::restore("po", 0, 1, old).unwrap_err(),
    ];
    assert!(
        errors
            .iter()
            .all(|error| error.kind() == ErrorKind::Incompatible)
    );
    assert_eq!(
        errors[1].to_string(),
        "incompatible snapshot: operator `op`, operator state `l`: restored as list state of `u32`, \
         declared as list state of `u64`; say how to convert it with `Descriptor::migrate_from`, \
         give a changed state a new name, or restore with the program that wrote it"
    );
    states.list::<u32>("l")?;
    let twice = states.list::<u32>("l").unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Invalid);
    Ok(())
}
