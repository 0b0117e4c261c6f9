//! Which strings are paths of blobs.

use crate::{Error, ErrorKind, Result};

/// Where [`LocalBlobs`](crate::LocalBlobs) keeps unfinished files: no path of a blob starts here.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// Refuses what is not a relative path of plain segments, so that no blob is ever outside its root.
pub(crate) fn check(path: &str) -> Result<()> {
    let plain = |segment: &str| {
        !matches!(segment, "" | "." | ".." | UNFINISHED)
            && !segment.contains(['\\', '\0'])
            && segment.len() <= 255
    };
    if path.split('/').all(plain) {
        return Ok(());
    }
    let reason = "not a path of a blob: it must be relative, of segments that are neither empty, `.` \
                  nor `..`, without backslash and at most 255 bytes each";
    Err(Error::new(ErrorKind::Misuse, path, reason).without_effect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_paths() {
        for good in ["a", "log/00000000000000000001", "chk-7/.hidden", "a/..b"] {
            check(good).unwrap();
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a//b",
            "..",
            "a/../b",
            "./a",
            "a\\b",
            "a\0",
            ".unfinished/x",
        ] {
            assert_eq!(check(bad).unwrap_err().kind(), ErrorKind::Misuse, "{bad:?}");
        }
        check(&"x".repeat(256)).unwrap_err();
    }
}
