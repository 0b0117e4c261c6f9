//! Schemas: what is derived for which type, and what cannot be.
#![allow(dead_code, reason = "the types are only looked at")]

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    sync::Arc,
    time::Duration,
};

use cutwater_state::{Descriptor, ErrorKind, Schema};
use serde::{Deserialize, de::DeserializeOwned};

fn check<T: DeserializeOwned>(expected: &str) {
    assert_eq!(Schema::of::<T>().unwrap().as_str(), expected);
}

#[derive(Deserialize)]
struct Totals {
    flights: u64,
    miles: i64,
}

#[derive(Deserialize)]
struct Meters(f64);

#[derive(Deserialize)]
struct Pair(u8, String);

#[derive(Deserialize)]
struct Unit;

#[derive(Deserialize)]
enum Event {
    Tick,
    Moved(Meters),
    Named { id: u32, name: Option<Kind> },
    Both(Kind, Kind),
}

#[derive(Deserialize)]
enum Kind {
    Small,
    Large(u64),
}

#[derive(Deserialize)]
struct Node {
    value: u8,
    next: Option<Box<Self>>,
}

#[derive(Deserialize)]
enum Expression {
    Negated(Box<Self>),
    Sum(Vec<Self>),
    Literal(i64),
}

#[derive(Deserialize)]
struct Wrapped<T> {
    inner: T,
}

#[test]
fn primitives_and_collections() {
    check::<i64>("i64");
    check::<String>("string");
    check::<(u8, bool)>("(u8, bool)");
    check::<[u16; 5]>("[u16; 5]");
    check::<()>("unit");
    check::<Option<char>>("option<char>");
    check::<Vec<f32>>("seq<f32>");
    check::<BTreeSet<i8>>("seq<i8>");
    check::<BTreeMap<String, Vec<u64>>>("map<string, seq<u64>>");
    check::<NonZeroU64>("u64");
}

#[test]
fn structs_and_enums_with_all_their_names() {
    check::<Totals>("struct Totals { flights: u64, miles: i64 }");
    check::<Meters>("struct Meters(f64)");
    check::<Pair>("struct Pair(u8, string)");
    check::<Unit>("struct Unit");
    check::<Kind>("enum Kind { Small, Large(u64) }");
    check::<Event>(
        "enum Event { Tick, Moved(struct Meters(f64)), \
         Named { id: u32, name: option<enum Kind { Small, Large(u64) }> }, \
         Both(enum Kind { Small, Large(u64) }, enum Kind { Small, Large(u64) }) }",
    );
    check::<Duration>("struct Duration { secs: u64, nanos: u32 }");
}

#[test]
fn the_same_wrapper_around_two_types_is_told_apart() {
    check::<Wrapped<Wrapped<u8>>>("struct Wrapped { inner: struct Wrapped { inner: u8 } }");
    check::<Wrapped<Wrapped<i8>>>("struct Wrapped { inner: struct Wrapped { inner: i8 } }");
}

#[test]
fn types_that_contain_themselves_end() {
    check::<Expression>(
        "enum Expression { Negated(Expression), Sum(seq<Expression>), Literal(i64) }",
    );
    let node = Schema::of::<Node>().unwrap().to_string();
    assert!(
        node.starts_with("struct Node { value: u8, next: option<struct Node"),
        "{node}"
    );
}

/// A type that reads its text must be declared with a schema; the message says how.
#[test]
fn what_cannot_be_derived_is_refused_with_the_remedy() {
    #[derive(Clone, Debug, serde::Serialize)]
    struct Even(u64);
    impl<'de> Deserialize<'de> for Even {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let n = u64::deserialize(from)?;
            let odd = || serde::de::Error::custom("odd");
            (n % 2 == 0).then_some(Self(n)).ok_or_else(odd)
        }
    }
    let error = Schema::of::<Even>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error
            .to_string()
            .contains("Descriptor::new(name).with_schema(\"…\")"),
        "{error}"
    );

    let max = cutwater_keygroups::MaxParallelism::new(1).unwrap();
    let groups = cutwater_keygroups::KeyGroupRange::new(0, 1);
    let mut states = cutwater_state::KeyedStates::<u64>::new("op", groups, max);
    assert!(states.value::<Even>("even").is_err());
    states
        .value::<Even>(Descriptor::new("even").with_schema("even u64"))
        .unwrap();
}

#[test]
fn an_arc_is_what_is_in_it() {
    #[derive(Deserialize)]
    struct Shared(#[serde(deserialize_with = "arc")] Arc<str>);
    fn arc<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        Ok(String::deserialize(from)?.into())
    }
    check::<Shared>("struct Shared(string)");
}
