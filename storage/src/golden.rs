//! Old bytes keep decoding, and damaged ones never do. For the tests of each format.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{ErrorKind, Result, frame};

/// Checks that `value` has exactly the bytes of the golden file, both ways. A format that changes
/// gets a new version and a new golden file; the old one stays.
pub(crate) fn check<T: PartialEq + fmt::Debug>(
    name: &str,
    value: &T,
    encode: impl Fn(&T) -> Bytes,
    decode: impl Fn(&Bytes) -> Result<T>,
) {
    let path = path(name);
    if !path.exists() {
        fs::write(&path, encode(value)).unwrap();
        panic!("{name} was missing and is written now: look at it, and commit it");
    }
    let golden = check_old(name, value, decode);
    assert_eq!(
        encode(value),
        golden,
        "{name}: new bytes need a new version"
    );
}

/// Checks that the golden file of a version which is not written any more still is `value`.
pub(crate) fn check_old<T: PartialEq + fmt::Debug>(
    name: &str,
    value: &T,
    decode: impl Fn(&Bytes) -> Result<T>,
) -> Bytes {
    let golden = Bytes::from(fs::read(path(name)).unwrap());
    assert_eq!(&decode(&golden).unwrap(), value, "{name}");
    damage(&golden, &decode);
    reframe(&golden, &decode);
    golden
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Any flipped byte, any bytes missing and any bytes added are found (CASES B63).
fn damage<T: fmt::Debug>(golden: &Bytes, decode: &impl Fn(&Bytes) -> Result<T>) {
    let is_corrupt = |bytes: Vec<u8>, what: String| {
        let error = decode(&bytes.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        assert!(error.offset().is_some(), "{what}: {error}");
    };
    for at in 0..golden.len() {
        for bit in 0..8 {
            let mut bytes = golden.to_vec();
            bytes[at] ^= 1 << bit;
            is_corrupt(bytes, format!("bit {bit} of byte {at} flipped"));
        }
        is_corrupt(golden[..at].to_vec(), format!("cut off at {at}"));
    }
    is_corrupt([golden, &b"x"[..]].concat(), "one byte too many".to_owned());
}

/// What is intact but nonsense is an error too, and no panic: any byte changed before the checksum
/// was made.
fn reframe<T: fmt::Debug>(golden: &Bytes, decode: &impl Fn(&Bytes) -> Result<T>) {
    let kind = match golden[4] {
        1 => frame::Kind::Metadata,
        _ => frame::Kind::LogEntry,
    };
    let version = u16::from_le_bytes([golden[5], golden[6]]);
    let payload = &golden[15..golden.len() - 8];
    for at in 0..payload.len() {
        for value in [0x00, 0x01, 0x7f, 0xff] {
            let mut changed = payload.to_vec();
            changed[at] = value;
            // A changed number may be another valid one; what may not happen is a panic.
            drop(decode(&frame::encode(kind, version, &changed)));
        }
        decode(&frame::encode(kind, version, &payload[..at])).unwrap_err();
    }
    let newer = decode(&frame::encode(kind, u16::MAX, payload)).unwrap_err();
    assert_eq!(newer.kind(), ErrorKind::Incompatible, "{newer}");
}
