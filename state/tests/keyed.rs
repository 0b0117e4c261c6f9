//! Keyed states as an operator sees them.

use cutwater_keygroups::{KeyGroupRange, MaxParallelism};
use cutwater_state::{Error, ErrorKind, Keyed, KeyedStates};

const MAX: MaxParallelism = MaxParallelism::new(128).unwrap();

fn all_groups() -> KeyedStates<u64> {
    KeyedStates::new("op", KeyGroupRange::new(0, 128), MAX)
}

#[test]
fn value_starts_empty_and_reads_see_the_latest_write() -> Result<(), Error> {
    let mut states = all_groups();
    let total = states.value::<i64>("total")?;
    let key = Keyed::new(&7);
    assert_eq!(states.get(total, key)?, None);
    states.update(total, key, |slot| *slot = Some(1))?;
    *states[total].or_insert_with(key, || 0)? += 1;
    assert_eq!(states.get(total, key)?, Some(&2));
    states[total].clear(key)?;
    assert_eq!(states.get(total, key)?, None);
    Ok(())
}

#[test]
fn a_name_is_declared_once() -> Result<(), Error> {
    let mut states = all_groups();
    states.value::<i64>("total")?;
    let error = states.list::<i64>("total").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "invalid declaration: operator `op`, state `total`: `total` is or was the name of another state; \
         give each state its own name"
    );
    Ok(())
}

/// B25, F095: the error names key, group and range; nothing is written.
#[test]
fn key_outside_the_owned_groups_is_a_typed_error() -> Result<(), Error> {
    let mut states = KeyedStates::<u64>::new("op", KeyGroupRange::new(0, 1), MAX);
    let total = states.value::<i64>("total")?;
    let group = |key: u64| {
        use cutwater_keygroups::Key;
        u64::GROUPING.group(key.key_hash(), MAX).get()
    };
    let foreign = (0..).find(|key| group(*key) == 77).unwrap();
    let error = states[total].put(Keyed::new(&foreign), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongGroup);
    assert_eq!(
        error.to_string(),
        format!(
            "key of another task: operator `op`, state `total`: key {foreign} is of key group 77, and \
             this subtask owns 0..1; its hash is not stable, or the record was sent to the wrong subtask"
        )
    );
    states[total].for_each(|key, _| panic!("{key} is there"))?;
    Ok(())
}
