//! States whose program changes between two runs: their types, their names, whether they are there.

mod common;

use common::{MAX, Stored, all, entries};
use cutwater_keygroups::{KeyGroupRange, key};
use cutwater_state::{
    Data, Descriptor, Error, ErrorKind, Keyed, KeyedStates, OperatorStates, Result,
};
use serde::{Deserialize, Serialize};

fn states() -> KeyedStates<u64> {
    KeyedStates::new("op", all(), MAX)
}

fn restore(stored: &Stored) -> KeyedStates<u64> {
    KeyedStates::restore("op", all(), MAX, [stored.restored()]).unwrap()
}

/// Twenty values of the state `name`.
fn values<V: Data>(name: &str, value: impl Fn(u64) -> V) -> Stored {
    let mut states = states();
    let state = states.value::<V>(name).unwrap();
    for key in 0..20 {
        states[state].put(Keyed::new(&key), value(key)).unwrap();
    }
    Stored::of(&mut states)
}

fn refused<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, parts: &[&str]) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind);
    for part in parts {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
    error
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Totals {
    flights: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct MoreTotals {
    flights: u64,
    miles: Option<i64>,
}

fn more(old: Totals) -> MoreTotals {
    MoreTotals {
        flights: old.flights.into(),
        miles: None,
    }
}

/// SPEC 3.2, F117: old bytes are read, new ones written, and then the migration has had its day.
#[test]
fn a_value_of_an_older_type_is_converted_once() -> Result<()> {
    let old = values("totals", |key| Totals {
        flights: u32::try_from(key).unwrap(),
    });
    let mut states = restore(&old);
    let totals = states.value(Descriptor::new("totals").migrate_from(more))?;
    assert_eq!(entries(&mut states[totals]).len(), 20);
    for (key, value) in entries(&mut states[totals]) {
        assert_eq!((value.flights, value.miles), (key, None));
    }

    let mut again = restore(&Stored::of(&mut states));
    let totals = again.value::<MoreTotals>("totals")?;
    assert_eq!(entries(&mut again[totals]).len(), 20);
    Ok(())
}

/// F094, F117: what does not fit is refused with both schemas, and with what to do.
#[test]
fn a_type_that_does_not_fit_is_refused_with_both_schemas() {
    let old = values("totals", |_| Totals { flights: 1 });
    refused(
        restore(&old).value::<MoreTotals>("totals"),
        ErrorKind::Incompatible,
        &[
            "operator `op`, state `totals`",
            "restored as value state of `struct Totals { flights: u32 }`",
            "declared as value state of `struct MoreTotals { flights: u64, miles: option<i64> }`",
            "Descriptor::migrate_from",
        ],
    );
    // A migration from something else is none from this.
    let other = Descriptor::new("totals").migrate_from(|n: u8| Totals { flights: n.into() });
    let other = other.migrate_from(|text: String| Totals {
        flights: text.parse().unwrap_or(0),
    });
    let eight = values("totals", |_| 8_u64);
    refused(
        restore(&eight).value(other),
        ErrorKind::Incompatible,
        &["of `u64`"],
    );
}

#[test]
fn another_kind_is_refused_even_if_its_elements_could_be_converted() {
    let old = values("totals", |_| Totals { flights: 1 });
    refused(
        restore(&old).list(Descriptor::new("totals").migrate_from(more)),
        ErrorKind::Incompatible,
        &["restored as value state", "declared as list state"],
    );
    refused(
        restore(&old).reducing("totals", |_: &mut Totals, _| {}),
        ErrorKind::Incompatible,
        &["restored as value state", "declared as reducing state"],
    );
    refused(
        restore(&old).namespaced::<u8>().value::<Totals>("totals"),
        ErrorKind::Incompatible,
        &["flights: u32 }`, declared", "in namespaces `u8`"],
    );
}

/// Elements of lists are converted one by one, and maps are sorted by what their keys have become.
#[test]
fn elements_of_lists_and_maps_are_converted() -> Result<()> {
    let mut states = states();
    let list = states.list::<Totals>("list")?;
    let map = states.map::<i32, Totals>("map")?;
    let keyed = Keyed::new(&7);
    for flights in 0..200_u32 {
        states[list].append(keyed, Totals { flights })?;
        let at = i32::try_from(flights).unwrap();
        states[map].put(keyed, at, Totals { flights })?;
    }
    let mut states = restore(&Stored::of(&mut states));
    let list = states.list(Descriptor::new("list").migrate_from(more))?;
    let map = Descriptor::new("map").migrate_from(|(at, old): (i32, Totals)| (-at, more(old)));
    let map = states.map(map)?;
    let flights = states[list].get(keyed)?.map(|totals| totals.flights);
    assert!(flights.eq(0..200));
    let entries = states[map].entries(keyed)?;
    assert!(
        entries
            .map(|(at, totals)| (*at, totals.flights))
            .eq((0..200).rev().map(|n| (-i32::try_from(n).unwrap(), n)))
    );
    Ok(())
}

mod before {
    #[derive(Clone, serde::Deserialize, serde::Serialize)]
    pub(super) enum Status {
        Planned,
        Flown { miles: u32 },
    }
}

mod after {
    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub(super) enum Status {
        Planned,
        Flown { miles: u32 },
        Cancelled(String),
    }
}

/// F117, reconfigured: what can be stored under the old type means the same under the new one.
#[test]
fn an_enum_may_get_variants_but_not_lose_them() -> Result<()> {
    let old = values("status", |key| match key {
        0 => before::Status::Planned,
        _ => before::Status::Flown { miles: 719 },
    });
    let mut states = restore(&old);
    let status = states.value::<after::Status>("status")?;
    let planned = states[status].get(Keyed::new(&0))?;
    assert_eq!(planned, Some(&after::Status::Planned));
    let flown = states[status].get(Keyed::new(&1))?;
    assert_eq!(flown, Some(&after::Status::Flown { miles: 719 }));

    let cancelled = after::Status::Cancelled("fog".to_owned());
    states[status].put(Keyed::new(&2), cancelled)?;
    let new = Stored::of(&mut states);
    let back = restore(&new).value::<before::Status>("status").map(drop);
    refused(back, ErrorKind::Incompatible, &["Cancelled(string)"]);
    Ok(())
}

/// SPEC 3.2: renamed, added, dropped.
#[test]
fn states_are_renamed_added_and_dropped() -> Result<()> {
    let old = values("total", |key| key);
    let mut states = restore(&old);
    let sum = states.value::<u64>(Descriptor::new("sum").formerly("tally").formerly("total"))?;
    let added = states.value::<u64>("added")?;
    assert!(states.undeclared().is_empty());
    assert_eq!(entries(&mut states[sum]).len(), 20);
    assert_eq!(entries(&mut states[added]).len(), 0);

    let new = Stored::of(&mut states);
    let mut states = restore(&new);
    assert_eq!(
        states.undeclared(),
        ["added", "sum"],
        "the old name is gone"
    );
    states.value::<u64>("sum")?;
    assert_eq!(states.undeclared(), ["added"], "the driver may allow that");
    Ok(())
}

#[test]
fn a_former_name_may_be_nobody_elses() -> Result<()> {
    let mut states = states();
    states.value::<u64>("total")?;
    let sum = || Descriptor::<u64>::new("sum").formerly("total");
    refused(
        states.value(sum()),
        ErrorKind::Invalid,
        &["state `sum`", "`total` is or was the name of another state"],
    );
    states.value::<u64>("sum")?;
    let mut states = restore(&Stored::of(&mut states));
    refused(
        states.value(sum()),
        ErrorKind::Incompatible,
        &["it was called `total` or `sum`, and the snapshot has both"],
    );
    Ok(())
}

#[test]
fn a_type_without_a_schema_migrates_by_the_one_it_was_declared_with() -> Result<()> {
    #[derive(Clone, Serialize)]
    struct Even(u64);
    impl<'de> Deserialize<'de> for Even {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let n = u64::deserialize(from)?;
            let odd = || serde::de::Error::custom("odd");
            (n % 2 == 0).then_some(Self(n)).ok_or_else(odd)
        }
    }
    let mut states = states();
    let even = states.value::<Even>(Descriptor::new("n").with_schema("even u64"))?;
    states[even].put(Keyed::new(&7), Even(6))?;
    let old = Stored::of(&mut states);

    let without = Descriptor::new("n").migrate_from(|Even(n)| n);
    let remedy = refused(
        restore(&old).value(without),
        ErrorKind::Invalid,
        &["state `n`", "one of its migrations"],
    );
    let source = std::error::Error::source(&remedy).unwrap().to_string();
    assert!(source.contains("migrate_from_schema"), "{source}");

    let with = Descriptor::new("n").migrate_from_schema("even u64", |Even(n)| n);
    let mut states = restore(&old);
    let n = states.value::<u64>(with)?;
    assert_eq!(states[n].get(Keyed::new(&7))?, Some(&6));
    Ok(())
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Account(u64);
key!(Account { 0 });

/// F102, F118: keys and namespaces may become newtypes, which changes no byte; nothing else, even where
/// all keys are in one group and would decode.
#[test]
fn keys_and_namespaces_may_only_become_newtypes() -> Result<()> {
    let one = cutwater_keygroups::MaxParallelism::new(1).unwrap();
    let groups = KeyGroupRange::new(0, 1);
    let mut states = KeyedStates::<u64>::new("op", groups, one);
    let by_hour = states.namespaced::<u64>().value::<i64>("by-hour")?;
    states[by_hour].put(Keyed::new(&7).at(9), 40)?;
    let old = Stored::of(&mut states).restored();

    let newtype = KeyedStates::<Account>::restore("op", groups, one, [old.clone()]);
    let mut newtype = newtype?;
    let handle = newtype.namespaced::<Account>().value::<i64>("by-hour")?;
    let at = Keyed::new(&Account(7)).at(Account(9));
    assert_eq!(newtype[handle].get(at)?, Some(&40));

    refused(
        KeyedStates::<i64>::restore("op", groups, one, [old.clone()]).map(drop),
        ErrorKind::Incompatible,
        &["keys encoded as u64, and now it is i64"],
    );
    let mut states = KeyedStates::<u64>::restore("op", groups, one, [old])?;
    refused(
        states.namespaced::<i64>().value::<i64>("by-hour"),
        ErrorKind::Incompatible,
        &["in namespaces `u64`", "in namespaces `i64`"],
    );
    Ok(())
}

/// Operator state evolves as keyed state does.
#[test]
fn operator_state_is_converted_and_renamed() -> Result<()> {
    let mut states = OperatorStates::new("op");
    let list = states.list::<Totals>("list")?;
    let rules = states.broadcast::<u8, u8>("rules")?;
    states[list].extend([1, 2, 3].map(|flights| Totals { flights }));
    states[rules].extend([(1, 10), (2, 20)]);
    let bytes = states.snapshot()?;

    let mut states = OperatorStates::restore("op", 1, 2, [&bytes])?;
    let list = Descriptor::new("totals")
        .formerly("list")
        .migrate_from(more);
    let list = states.list(list)?;
    let rules = Descriptor::new("rules")
        .migrate_from(|(id, rule): (u8, u8)| (u32::from(id), rule.to_string()));
    let rules = states.broadcast(rules)?;
    assert!(states.undeclared().is_empty());
    assert_eq!(states[list], [more(Totals { flights: 3 })]);
    assert_eq!(states[rules][&2], "20");

    let mut states = OperatorStates::restore("op", 0, 1, [&bytes])?;
    refused(
        states.list::<u8>("list"),
        ErrorKind::Incompatible,
        &[
            "list state of `struct Totals { flights: u32 }`",
            "list state of `u8`",
        ],
    );
    Ok(())
}
