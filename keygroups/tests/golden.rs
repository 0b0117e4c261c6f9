//! Values that other programs computed (`golden/README.md` says which), and that every release must
//! compute again: they decide where the state of a key lies in existing checkpoints.
//!
//! Case B25: negatives, `i32::MIN`, and a hash that is `i32::MIN`, are among them.

use cutwater_keygroups::{Flink, Grouping, JavaHash, Key, MaxParallelism};

const FLINK_KEYS: &str = include_str!("golden/flink-keys.csv");
const XXH64_KEYS: &str = include_str!("golden/xxh64-keys.csv");

/// The fields of every line but the first.
fn lines(csv: &str) -> impl Iterator<Item = Vec<&str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn text(hex: &str) -> String {
    String::from_utf8(unhex(hex)).unwrap()
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(field: &str) -> T {
    field.parse().unwrap()
}

fn max(raw: u16) -> MaxParallelism {
    MaxParallelism::new(raw).unwrap()
}

#[test]
fn keys_land_in_the_groups_that_flink_computes() {
    fn check<T: Key + JavaHash>(key: T, line: &[&str]) {
        assert_eq!(key.java_hash(), number::<i32>(line[2]), "{line:?}");
        let key = Flink(key);
        let hash = key.key_hash();
        assert_eq!(hash.upper(), number::<u32>(line[3]), "{line:?}");
        assert_eq!(hash.lower(), key.0.key_hash().lower());
        for (raw, group) in [1, 2, 12, 128, 300, 32768].into_iter().zip(&line[4..]) {
            assert_eq!(
                Grouping::Flink.group(hash, max(raw)).get(),
                number(group),
                "{line:?}"
            );
        }
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        assert_eq!(Flink::decode(&mut &encoded[..]), Ok(key));
    }
    let mut checked = 0;
    for line in lines(FLINK_KEYS) {
        let parts: Vec<&str> = line[1].split(':').collect();
        match line[0] {
            "int" => check::<i32>(number(line[1]), &line),
            "long" => check::<i64>(number(line[1]), &line),
            "byte" => check::<i8>(number(line[1]), &line),
            "short" => check::<i16>(number(line[1]), &line),
            "boolean" => check::<bool>(number(line[1]), &line),
            "string" => check(text(line[1]), &line),
            "bytes" => check(unhex(line[1]), &line),
            "tuple2" => check::<(i32, i64)>((number(parts[0]), number(parts[1])), &line),
            "tuple3" => {
                let (a, b): (i32, i64) = (number(parts[0]), number(parts[1]));
                check((a, b, text(parts[2])), &line);
            }
            "tuple4" => {
                let (a, b): (i32, i64) = (number(parts[0]), number(parts[1]));
                check((a, b, text(parts[2]), number::<bool>(parts[3])), &line);
            }
            unknown => panic!("{unknown}"),
        }
        checked += 1;
    }
    assert_eq!(checked, 919);
}

#[test]
fn our_own_hash_encoding_and_groups_stay_what_they_were() {
    fn check<K: Key>(key: K, line: &[&str]) {
        let hash = key.key_hash();
        assert_eq!(hash.to_string(), line[2], "{line:?}");
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        assert_eq!(encoded, unhex(line[3]), "{line:?}");
        for (raw, group) in [128, 32768].into_iter().zip(&line[4..]) {
            assert_eq!(
                K::GROUPING.group(hash, max(raw)).get(),
                number(group),
                "{line:?}"
            );
        }
    }
    let mut checked = 0;
    for line in lines(XXH64_KEYS) {
        let parts: Vec<&str> = line[1].split(':').collect();
        match line[0] {
            "u8" => check::<u8>(number(line[1]), &line),
            "u16" => check::<u16>(number(line[1]), &line),
            "u32" => check::<u32>(number(line[1]), &line),
            "u64" => check::<u64>(number(line[1]), &line),
            "u128" => check::<u128>(number(line[1]), &line),
            "i8" => check::<i8>(number(line[1]), &line),
            "i16" => check::<i16>(number(line[1]), &line),
            "i32" => check::<i32>(number(line[1]), &line),
            "i64" => check::<i64>(number(line[1]), &line),
            "i128" => check::<i128>(number(line[1]), &line),
            "bool" => check::<bool>(number(line[1]), &line),
            "char" => check(char::from_u32(number(line[1])).unwrap(), &line),
            "string" => check(text(line[1]), &line),
            "bytes" => check(unhex(line[1]), &line),
            "tuple2" => check((number::<u64>(parts[0]), text(parts[1])), &line),
            "tuple3" => {
                check(
                    (
                        number::<u64>(parts[0]),
                        text(parts[1]),
                        number::<i32>(parts[2]),
                    ),
                    &line,
                );
            }
            "tuple4" => {
                let (a, b): (u64, String) = (number(parts[0]), text(parts[1]));
                check(
                    (a, b, number::<i32>(parts[2]), number::<bool>(parts[3])),
                    &line,
                );
            }
            unknown => panic!("{unknown}"),
        }
        checked += 1;
    }
    assert_eq!(checked, 301);
}
