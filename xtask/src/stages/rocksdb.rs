//! The tests of state in RocksDB: they take libclang, and minutes to build the first time.
//!
//! So they are a stage of their own, with a feature that no other stage has. Clang and a compiler cache are used where
//! there are such.

use std::{env, process::Command};

use super::{
    Outcome, installed, run,
    small_disk::{VARIABLE, on_small_disk},
};
use crate::{launch::cargo, libclang, workspace::Workspace};

/// The feature of several packages that stands for all this.
pub(super) const FEATURE: &str = "rocksdb";

/// What has the feature. Always both at once, as the features of what they depend on come from both: with others,
/// cargo builds all of RocksDB again.
const BOTH: [&str; 6] = [
    "--package",
    "cutwater-state",
    "--package",
    "cutwater-example-flights",
    "--features",
    "cutwater-state/rocksdb,cutwater-state/testkit,cutwater-example-flights/rocksdb",
];

/// The main job, which depends on the other.
const DEMO: [&str; 4] = [
    "--package",
    "cutwater-example-flights",
    "--features",
    FEATURE,
];

pub(super) fn rocksdb(workspace: &Workspace) -> Outcome {
    if let Err(reason) = libclang::ready() {
        return Outcome::NotRun(reason.to_owned());
    }
    let clippy = cargo_for(
        &["clippy"],
        &BOTH,
        &["--all-targets", "--", "--deny", "warnings"],
    );
    let tests = cargo_for(&["test"], &BOTH, &["--lib", "--test", "rocksdb"]);
    let doctests = cargo_for(&["test"], &BOTH, &["--doc", "rocksdb"]);
    // Every other run in memory, so that checkpoints go from one to the other and back.
    let job = [
        "--",
        "demo",
        "--seed",
        "3",
        "--backend",
        "rocksdb",
        "--switch",
    ];
    let demo = cargo_for(&["run"], &DEMO, &job);
    for mut step in [clippy, tests, doctests, demo] {
        let outcome = run(workspace, &mut step);
        if outcome != Outcome::Passed {
            return outcome;
        }
    }
    // Once more on a disk that is full, where one can be had: without, it was one that is gone.
    let full = ["--test", "rocksdb", "full_disk"];
    let full = on_small_disk(|disk| {
        run(
            workspace,
            cargo_for(&["test"], &BOTH, &full).env(VARIABLE, disk),
        )
    });
    match full {
        Outcome::NotRun(_) => Outcome::Passed,
        outcome => outcome,
    }
}

/// Cargo, which compiles C and C++ with clang if there is one, as that is quicker than gcc where nothing is optimised;
/// and through a cache if there is one.
fn cargo_for(command: &[&str], packages: &[&str], rest: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(command).args(packages).args(rest);
    let cache = if installed(Command::new("ccache").arg("--version")) {
        "ccache "
    } else {
        ""
    };
    let compilers = if libclang::has_compiler() {
        ["clang", "clang++"]
    } else {
        ["cc", "c++"]
    };
    for (variable, compiler) in ["CC", "CXX"].into_iter().zip(compilers) {
        if env::var_os(variable).is_none() {
            cargo.env(variable, format!("{cache}{compiler}"));
        }
    }
    cargo
}
