//! Whether the disk is what failed: a full one shows as errors of linkers and compilers that do not say so.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::workspace::Workspace;

/// What all stages together leave in the target folder, in MB.
const NEEDED: u64 = 6000;

/// Less than this, in MB, is as good as nothing.
const SCARCE: u64 = 1000;

/// What to say where so little is left that builds and tests fail for it.
pub(crate) fn remark(workspace: &Workspace) -> Option<String> {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace.root.join("target"));
    [target, env::temp_dir()]
        .iter()
        .find_map(|folder| scarce(folder, free(folder)?))
}

fn scarce(folder: &Path, free: u64) -> Option<String> {
    (free < SCARCE).then(|| {
        format!(
            "the disk may be why: {free} MB are free in `{}`, and all stages take up to {NEEDED} MB",
            folder.display()
        )
    })
}

/// MB that are free in a folder; `None` where nobody tells.
fn free(folder: &Path) -> Option<u64> {
    let df = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    available(&String::from_utf8(df.stdout).ok()?)
}

/// From what POSIX's `df -Pk` prints: a line of titles, and one whose fourth column is in KiB.
fn available(text: &str) -> Option<u64> {
    let kib: u64 = text
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::{Path, available, free, scarce};

    #[test]
    fn what_df_says_is_understood() {
        let text = "\
Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/vda         264096860 12582912    293888      98% /
";
        assert_eq!(available(text), Some(287));
        assert_eq!(available("df: no such folder"), None);
        assert!(free(Path::new("/")).is_none_or(|free| free < 1 << 40));
    }

    #[test]
    fn little_room_is_named_and_enough_is_not() {
        let remark = scarce(Path::new("/target"), 287).unwrap();
        assert!(remark.contains("287 MB are free in `/target`"), "{remark}");
        assert_eq!(scarce(Path::new("/target"), 70_000), None);
    }
}
