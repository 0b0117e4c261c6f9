//! What `Key` promises, for every key type there is.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use cutwater_keygroups::{DecodeError, Flink, Grouping, Key, KeyHash, MaxParallelism, key};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TailNumber(String);
key!(TailNumber { 0 });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Account(Flink<i64>);
key!(Account { 0 });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leg {
    from: String,
    to: String,
    flight: i32,
}
key!(Leg { from, to, flight });

/// Encodes and takes back every value, alone and with something behind it, and compares the order
/// of every two encodings with the order of the values.
fn check<K: Key>(values: impl IntoIterator<Item = K>) {
    let values: Vec<K> = values.into_iter().collect();
    let encoded: Vec<Vec<u8>> = values.iter().map(encode).collect();
    for (value, bytes) in values.iter().zip(&encoded) {
        for tail in [&[][..], &[0x00], &[0x01], &[0xFF, 0xFF], &[0x00, 0xFF]] {
            let followed = [&bytes[..], tail].concat();
            let mut rest = &followed[..];
            assert_eq!(K::decode(&mut rest).as_ref(), Ok(value));
            assert_eq!(rest, tail, "{value:?} takes exactly its own bytes");
        }
        for cut in 0..bytes.len() {
            assert!(
                K::decode(&mut &bytes[..cut]).is_err(),
                "{value:?} cut to {cut} bytes"
            );
        }
        assert_eq!(value.key_hash(), value.clone().key_hash());
    }
    for (a, bytes_of_a) in values.iter().zip(&encoded) {
        for (b, bytes_of_b) in values.iter().zip(&encoded) {
            assert_eq!(a.cmp(b), bytes_of_a.cmp(bytes_of_b), "{a:?} and {b:?}");
        }
    }
}

fn encode<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    bytes
}

macro_rules! extremes {
    ($($integer:ty),+) => {$(
        check([0, 1, 2, 127, <$integer>::MIN, <$integer>::MIN + 1, <$integer>::MAX]);
        check([<$integer>::MAX / 3, <$integer>::MIN / 3, <$integer>::MAX - 1]);
    )+};
}

const TEXTS: [&str; 12] = [
    "", "\0", "\0\0", "\0\u{1}", "\u{1}", "a", "a\0", "a\0b", "aa", "ab", "ÿ", "🛫",
];

#[test]
fn numbers_sort_as_their_encodings() {
    extremes!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);
    check([-1i8, -2, 1]);
    check([-1i64, -2, 1, i64::from(i32::MIN), i64::from(u32::MAX)]);
    check([false, true]);
    check(['\0', 'a', 'ÿ', '\u{d7ff}', '\u{e000}', char::MAX]);
}

#[test]
fn strings_sort_as_their_encodings() {
    check(TEXTS.map(String::from));
    check(TEXTS.map(Box::<str>::from));
    check(TEXTS.map(Arc::<str>::from));
    check(TEXTS.map(TailNumber::from_text));
    let bytes = [
        &[][..],
        &[0],
        &[0, 0],
        &[0, 1],
        &[0, 255],
        &[1],
        &[255],
        &[255, 0],
        &[255, 255],
    ];
    check(bytes.map(Vec::from));
    check(bytes.map(Box::<[u8]>::from));
    check(bytes.map(Arc::<[u8]>::from));
    check([[0u8; 16], [255; 16], *b"a sixteen-byte k"]);
}

impl TailNumber {
    fn from_text(text: &str) -> Self {
        Self(text.into())
    }
}

#[test]
fn tuples_sort_as_their_encodings() {
    let pairs = TEXTS
        .iter()
        .flat_map(|a| TEXTS.map(|b| (a.to_string(), b.to_string())));
    check(pairs);
    let mixed = TEXTS
        .iter()
        .flat_map(|a| [-1i32, 0, 1].map(|n| (n, a.to_string(), n > 0)));
    check(mixed);
    check([
        (1u8, 2u16, 3u32, 4u64),
        (1, 2, 3, 5),
        (1, 2, 4, 0),
        (0, 9, 9, 9),
    ]);
    check(TEXTS.iter().flat_map(|from| {
        TEXTS.map(|to| Leg {
            from: from.to_string(),
            to: to.to_string(),
            flight: -7,
        })
    }));
}

/// All byte strings of up to two bytes that the escape cares about, and all pairs of them.
#[test]
fn no_byte_of_a_string_upsets_the_order_of_pairs() {
    let special = [0u8, 1, 2, 254, 255];
    let two = special.iter().flat_map(|a| special.map(|b| vec![*a, b]));
    let strings: Vec<Vec<u8>> = [vec![]]
        .into_iter()
        .chain(special.map(|a| vec![a]))
        .chain(two)
        .collect();
    check(
        strings
            .iter()
            .flat_map(|a| strings.iter().map(|b| (a.clone(), b.clone()))),
    );
}

/// Whatever bytes are decoded, there is no panic, and a key found in them encodes to just the bytes
/// that were taken.
#[test]
fn arbitrary_bytes_decode_exactly_or_not_at_all() {
    fn check<K: Key>(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        K::decode(&mut rest).is_ok_and(|key| {
            let taken = &bytes[..bytes.len() - rest.len()];
            assert_eq!(encode(&key), taken, "{key:?}");
            true
        })
    }
    let (mut seed, mut decoded) = (1u64, 0u32);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..24)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                [0, 0, 1, 1, 255, b'a', 0x80, seed.to_be_bytes()[1]][(seed >> 61) as usize]
            })
            .collect();
        decoded += u32::from(check::<(String, u16)>(&bytes));
        decoded += u32::from(check::<(Vec<u8>, i64, bool)>(&bytes));
        decoded += u32::from(check::<(char, bool, Vec<u8>)>(&bytes));
        decoded += u32::from(check::<Leg>(&bytes));
        decoded += u32::from(check::<Flink<String>>(&bytes));
    }
    assert!(decoded > 5000, "only {decoded} were keys");
}

#[test]
fn a_key_may_be_widened_to_64_bits_without_moving() {
    for number in [0i8, 1, -1, i8::MIN, i8::MAX] {
        let hash = number.key_hash();
        assert_eq!(hash, i16::from(number).key_hash());
        assert_eq!(hash, i32::from(number).key_hash());
        assert_eq!(hash, i64::from(number).key_hash());
    }
    assert_eq!(200u8.key_hash(), 200u64.key_hash());
    assert_eq!(200u8.key_hash(), 200i64.key_hash());
    assert_ne!(200i64.key_hash(), 200i128.key_hash());
}

#[test]
fn owners_of_the_same_text_share_its_hash() {
    let hash = String::from("N14228").key_hash();
    assert_eq!(hash, KeyHash::of_bytes(b"N14228"));
    assert_eq!(hash, Box::<str>::from("N14228").key_hash());
    assert_eq!(hash, Arc::<str>::from("N14228").key_hash());
    assert_eq!(hash, b"N14228".to_vec().key_hash());
    assert_eq!(hash, b"N14228".key_hash());
}

#[test]
fn a_newtype_is_hashed_grouped_and_encoded_as_its_field() {
    let tail = TailNumber("N14228".into());
    assert_eq!(tail.key_hash(), tail.0.key_hash());
    assert_eq!(encode(&tail), encode(&tail.0));
    assert_eq!(TailNumber::GROUPING, Grouping::Xxh64);
    assert_eq!(Account::GROUPING, Grouping::Flink);
    assert_eq!(Account(Flink(-5)).key_hash(), Flink(-5i64).key_hash());
}

#[test]
fn a_struct_of_several_fields_is_hashed_and_encoded_as_their_tuple() {
    let leg = Leg {
        from: "EWR".into(),
        to: "IAH".into(),
        flight: 1545,
    };
    let tuple = (leg.from.clone(), leg.to.clone(), leg.flight);
    assert_eq!(leg.key_hash(), tuple.key_hash());
    assert_eq!(encode(&leg), encode(&tuple));
    assert_eq!(Leg::GROUPING, Grouping::Xxh64);
}

#[test]
fn the_order_of_parts_counts() {
    assert_ne!((1u32, 2u32).key_hash(), (2u32, 1u32).key_hash());
    assert_ne!(
        ("a".to_owned(), "b".to_owned()).key_hash(),
        "ab".to_owned().key_hash()
    );
}

#[test]
fn what_is_not_an_encoded_key_is_refused_with_the_reason() {
    fn check<K: Key + Debug>(bytes: &[u8], expected: DecodeError) {
        assert_eq!(K::decode(&mut &bytes[..]), Err(expected));
    }
    check::<u64>(&[1, 2, 3], DecodeError::Truncated);
    check::<bool>(&[2], DecodeError::Value);
    check::<char>(&[0, 0, 0xD8, 0], DecodeError::Value);
    check::<String>(b"abc", DecodeError::Truncated);
    check::<String>(b"abc\0", DecodeError::Truncated);
    check::<String>(b"abc\0\x02", DecodeError::Escape);
    check::<String>(&[0xC0, 0x00, 0x01], DecodeError::Utf8);
}

/// Sequential integers, the hardest for a weak hash and the most usual of keys.
#[test]
fn groups_are_filled_evenly() {
    let max = MaxParallelism::new(128).unwrap();
    let mut sizes = [0u32; 128];
    for key in 0..128_000u64 {
        sizes[usize::from(u64::GROUPING.group(key.key_hash(), max).get())] += 1;
    }
    let spread = sizes.iter().min().unwrap()..=sizes.iter().max().unwrap();
    assert!(
        **spread.start() > 850 && **spread.end() < 1150,
        "{spread:?} instead of 1000"
    );
}

/// The slots of a table come from the lower half: the keys of one group must not share them.
#[test]
fn the_keys_of_one_group_spread_over_a_table() {
    fn slots<K: Key>(keys: impl Iterator<Item = K>) -> usize {
        let max = MaxParallelism::new(128).unwrap();
        keys.map(|key| key.key_hash())
            .filter(|hash| K::GROUPING.group(*hash, max).get() == 77)
            .map(|hash| hash.lower() % 1024)
            .collect::<BTreeSet<u32>>()
            .len()
    }
    // About 2000 keys thrown at 1024 slots leave e^-2 of them empty: 886 are hit.
    for hit in [slots(0..256_000u64), slots((0..256_000i64).map(Flink))] {
        assert!((840..930).contains(&hit), "{hit} slots");
    }
}

#[test]
fn a_grouping_is_found_by_its_id() {
    for grouping in [Grouping::Xxh64, Grouping::Flink] {
        assert_eq!(Grouping::from_id(grouping.id()), Some(grouping));
    }
    assert_eq!(Grouping::from_id("md5"), None);
}

/// A newtype is what is in it, a struct the tuple of its fields, and Flink's grouping is recorded apart.
#[test]
fn a_schema_says_what_is_encoded() {
    assert_eq!(u64::schema(), "u64");
    assert_eq!(Arc::<str>::schema(), "string");
    assert_eq!(<Vec<u8>>::schema(), "bytes");
    assert_eq!(<[u8; 3]>::schema(), "[u8; 3]");
    assert_eq!(TailNumber::schema(), String::schema());
    assert_eq!(Account::schema(), "i64");
    assert_eq!(Leg::schema(), "(string, string, i32)");
    assert_eq!(<(TailNumber, (i8, bool))>::schema(), "(string, (i8, bool))");
    assert_eq!(<()>::schema(), "()");
}

/// The key of a job that has one key.
#[test]
fn the_empty_key_is_a_key() {
    check([()]);
    assert_eq!(().key_hash(), KeyHash::of_bytes(&[]));
}
