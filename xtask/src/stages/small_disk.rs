//! A small disk in memory, for tests of a full one.

use std::{
    env, fs,
    path::Path,
    process::{self, Command},
};

use super::{Outcome, run, succeeds};
use crate::{launch::cargo, workspace::Workspace};

/// Where tests that fill a disk find a small one.
pub(super) const VARIABLE: &str = "CUTWATER_SMALL_DISK";

pub(super) fn small_disk(workspace: &Workspace) -> Outcome {
    on_small_disk(|disk| {
        let test = [
            "test",
            "--package",
            "cutwater-runtime",
            "--test",
            "full_disk",
        ];
        run(workspace, cargo().args(test).env(VARIABLE, disk))
    })
}

/// Mounts a disk for as long as `run` takes, which takes Linux and root.
pub(super) fn on_small_disk(run: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let directory = env::temp_dir().join(format!("cutwater-small-disk-{}", process::id()));
    if let Err(error) = fs::create_dir_all(&directory) {
        return Outcome::Failed(format!("{}: {error}", directory.display()));
    }
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "cutwater"]);
    let outcome = if succeeds(mount.arg(&directory)) {
        let outcome = run(&directory);
        if succeeds(Command::new("umount").arg(&directory)) {
            outcome
        } else {
            Outcome::Failed(format!("{} could not be unmounted", directory.display()))
        }
    } else {
        Outcome::NotRun("no tmpfs can be mounted here (it takes Linux and root)".to_owned())
    };
    match fs::remove_dir(&directory) {
        Err(error) if outcome == Outcome::Passed => {
            Outcome::Failed(format!("{}: {error}", directory.display()))
        }
        _ => outcome,
    }
}
