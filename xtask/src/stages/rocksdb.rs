//! The tests of state in RocksDB: they take libclang, and minutes to build the first time.
//!
//! So they are a stage of their own, with a feature that no other stage has. Libclang is installed where that
//! can be done without asking (Debian, as root); a compiler cache is used where there is one.

use std::{env, fs, path::Path, process::Command};

use super::{
    Outcome, installed, run,
    small_disk::{VARIABLE, on_small_disk},
    succeeds,
};
use crate::{launch::cargo, workspace::Workspace};

/// The feature of several packages that stands for all this.
pub(super) const FEATURE: &str = "rocksdb";

/// Its packages in Debian 12: the library, and the compiler's own headers.
const PACKAGES: [&str; 2] = ["libclang1-14", "libclang-common-14-dev"];

pub(super) fn rocksdb(workspace: &Workspace) -> Outcome {
    if !has_libclang() {
        install();
        if !has_libclang() {
            let reason =
                "libclang is missing and could not be installed (`apt-get install libclang-dev`)";
            return Outcome::NotRun(reason.to_owned());
        }
    }
    let state = [
        "--package",
        "cutwater-state",
        "--features",
        "rocksdb,testkit",
    ];
    let flights = [
        "--package",
        "cutwater-example-flights",
        "--features",
        FEATURE,
    ];
    let clippy = cargo_for(
        &["clippy"],
        &state,
        &["--all-targets", "--", "--deny", "warnings"],
    );
    let tests = cargo_for(&["test"], &state, &["--lib", "--test", "rocksdb"]);
    let doctests = cargo_for(&["test"], &state, &["--doc", "rocksdb"]);
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
    let demo = cargo_for(&["run"], &flights, &job);
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
            cargo_for(&["test"], &state, &full).env(VARIABLE, disk),
        )
    });
    match full {
        Outcome::NotRun(_) => Outcome::Passed,
        outcome => outcome,
    }
}

/// Cargo, which compiles C and C++ through a cache if there is one.
fn cargo_for(command: &[&str], packages: &[&str], rest: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(command).args(packages).args(rest);
    if installed(Command::new("ccache").arg("--version")) {
        for (variable, compiler) in [("CC", "cc"), ("CXX", "c++")] {
            if env::var_os(variable).is_none() {
                cargo.env(variable, format!("ccache {compiler}"));
            }
        }
    }
    cargo
}

/// Whether bindgen would find the library: where it is told to look, or where Debian and others put it.
fn has_libclang() -> bool {
    let is_in = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .map(|file| file.file_name())
            .any(|name| is_libclang(&name.to_string_lossy()))
    };
    let told = env::var_os("LIBCLANG_PATH");
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let versions = versions.map(|folder| folder.path().join("lib"));
    let usual = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    told.is_some_and(|folder| is_in(folder.as_ref()))
        || usual.iter().any(|folder| is_in(folder.as_ref()))
        || versions.into_iter().any(|folder| is_in(&folder))
}

/// Whether a file of this name is the C interface, which bindgen asks for. The C++ one, `libclang-cpp`, stands
/// beside it, or alone.
fn is_libclang(name: &str) -> bool {
    let rest = name.strip_prefix("libclang").unwrap_or_default();
    rest.contains(".so") && rest.starts_with(['.', '-']) && !rest.starts_with("-cpp")
}

/// Installs it, where that is possible.
fn install() {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(arguments)
            .args(PACKAGES)
            .env("DEBIAN_FRONTEND", "noninteractive");
        succeeds(&mut apt)
    };
    let install = ["install", "--yes", "--no-install-recommends"];
    if !apt(&install) && succeeds(Command::new("apt-get").arg("update")) {
        apt(&install);
    }
}

#[cfg(test)]
mod tests {
    use super::is_libclang;

    #[test]
    fn the_c_interface_is_told_from_the_cpp_one() {
        for name in [
            "libclang.so",
            "libclang.so.1",
            "libclang-14.so.1",
            "libclang-14.0.6.so",
        ] {
            assert!(is_libclang(name), "{name}");
        }
        for name in [
            "libclang-cpp.so.14",
            "libclangBasic.a",
            "libclang",
            "libLLVM.so",
        ] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
