//! The stages of `cargo xtask test`, in the order in which they run: what fails fast comes first.
//!
//! Every stage asks for all features of the whole workspace where it can, so that cargo builds each
//! outside crate twice, once to check (clippy, docs) and once to run (tests, doc tests), and no more. Only
//! RocksDB is left to [its own](rocksdb).

mod rocksdb;
mod small_disk;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{
    arrows,
    launch::{cargo, wait},
    tidy,
    workspace::Workspace,
};

/// One thing that must hold.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Workspace) -> Outcome,
}

/// How a stage ended. One that was not run is listed with its reason, never left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

pub(crate) const ALL: &[Stage] = &[
    Stage {
        name: "fmt",
        what: "formatting",
        run: |w| run(w, cargo().args(["fmt", "--all", "--check"])),
    },
    Stage {
        name: "tidy",
        what: "the text of the repository",
        run: |w| check(tidy::problems(w)),
    },
    Stage {
        name: "arrows",
        what: "who depends on whom",
        run: |w| check(arrows::problems(w)),
    },
    Stage {
        name: "clippy",
        what: "no warning in any target",
        run: clippy,
    },
    Stage {
        name: "docs",
        what: "rustdoc without a warning",
        run: docs,
    },
    Stage {
        name: "tests",
        what: "unit and integration tests",
        run: tests,
    },
    Stage {
        name: "doctests",
        what: "the examples in the docs",
        run: doctests,
    },
    Stage {
        name: "loom",
        what: "every interleaving of a snapshot's writer with the task",
        run: loom,
    },
    Stage {
        name: "asan",
        what: "the states under AddressSanitizer",
        run: asan,
    },
    Stage {
        name: "small-disk",
        what: "a disk that is full in the middle of a checkpoint",
        run: small_disk::small_disk,
    },
    Stage {
        name: "rocksdb",
        what: "state in RocksDB, and the main job with it",
        run: rocksdb::rocksdb,
    },
    Stage {
        name: "package",
        what: "each crate builds as published",
        run: package,
    },
    Stage {
        name: "demo",
        what: "the main job, killed and restarted, also with barriers that overtake",
        run: demo,
    },
    Stage {
        name: "msrv",
        what: "the oldest supported toolchain",
        run: msrv,
    },
    Stage {
        name: "deny",
        what: "licences and sources of outside crates",
        run: deny,
    },
];

/// The stages for the usage text.
pub(crate) fn list() -> String {
    let lines = ALL
        .iter()
        .map(|stage| format!("  {:<10} {}", stage.name, stage.what));
    format!(
        "stages of `test`:\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

fn run(workspace: &Workspace, command: &mut Command) -> Outcome {
    match wait(command.current_dir(&workspace.root)) {
        Ok(()) => Outcome::Passed,
        Err(message) => Outcome::Failed(message),
    }
}

fn check(problems: Result<Vec<String>, String>) -> Outcome {
    match problems {
        Ok(problems) if problems.is_empty() => Outcome::Passed,
        Ok(problems) => Outcome::Failed(problems.join("\n")),
        Err(message) => Outcome::Failed(message),
    }
}

/// The whole workspace with all features but the one that has a stage of its own.
fn everything(workspace: &Workspace) -> [String; 2] {
    let features = workspace
        .features()
        .filter(|(_, name)| *name != rocksdb::FEATURE);
    let features: Vec<_> = features
        .map(|(package, name)| format!("{package}/{name}"))
        .collect();
    [
        "--workspace".to_owned(),
        format!("--features={}", features.join(",")),
    ]
}

fn clippy(workspace: &Workspace) -> Outcome {
    let lint = ["--all-targets", "--", "--deny", "warnings"];
    run(
        workspace,
        cargo().arg("clippy").args(everything(workspace)).args(lint),
    )
}

fn docs(workspace: &Workspace) -> Outcome {
    let doc = ["doc", "--no-deps"];
    run(
        workspace,
        cargo()
            .args(doc)
            .args(everything(workspace))
            .env("RUSTDOCFLAGS", "--deny=warnings"),
    )
}

/// Benchmarks are left to `cargo xtask bench`; clippy has compiled them.
fn tests(workspace: &Workspace) -> Outcome {
    let mut command = cargo();
    if installed(cargo().args(["nextest", "--version"])) {
        command.args(["nextest", "run"]);
    } else {
        command.args(["test", "--no-fail-fast"]);
    }
    run(
        workspace,
        command
            .args(everything(workspace))
            .args(["--lib", "--bins", "--tests", "--examples"]),
    )
}

fn doctests(workspace: &Workspace) -> Outcome {
    run(
        workspace,
        cargo().args(["test", "--doc"]).args(everything(workspace)),
    )
}

/// The crate that holds what `loom` and `asan` run, with few others below it.
const SOUNDNESS: [&str; 3] = ["test", "--package", "cutwater-state-soundness"];

/// In a target folder of its own, like `asan`: other flags build everything anew.
fn loom(workspace: &Workspace) -> Outcome {
    run(
        workspace,
        cargo()
            .args(SOUNDNESS)
            .arg("--lib")
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", own_target(workspace, "loom")),
    )
}

/// Sanitizers are for nightly compilers; a stable one is told to take itself for one.
fn asan(workspace: &Workspace) -> Outcome {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    if !cfg!(all(
        target_arch = "x86_64",
        target_os = "linux",
        target_env = "gnu"
    )) {
        return Outcome::NotRun(format!("it is set up for {TARGET} only"));
    }
    if !has_asan(TARGET) {
        return Outcome::NotRun("this toolchain comes without the sanitizer's library".to_owned());
    }
    run(
        workspace,
        cargo()
            .args(SOUNDNESS)
            .args(["--test", "memory", "--target", TARGET])
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                "RUSTFLAGS",
                "-Zsanitizer=address --cfg each_piece_by_itself",
            )
            .env("CARGO_TARGET_DIR", own_target(workspace, "asan")),
    )
}

fn has_asan(target: &str) -> bool {
    let folder = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let files = folder.and_then(std::fs::read_dir);
    files.is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().contains("asan")))
    })
}

fn own_target(workspace: &Workspace, name: &str) -> PathBuf {
    let shared = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| workspace.root.join("target"));
    shared.join(name)
}

/// Builds every crate from its own archive, against the archives of the others: finds a file or a
/// version that is not published. Offline, since the stages before have fetched all there is to fetch.
fn package(workspace: &Workspace) -> Outcome {
    let mut command = cargo();
    command.args(["package", "--allow-dirty", "--offline", "--quiet"]);
    for package in workspace.publishable() {
        command.args(["--package", package.name()]);
    }
    // Cargo remembers an unpacked archive by the folder it was packed in and by its version, and builds
    // an older one of the same version without a word. So each time is in a folder of its own.
    let folder = own_target(workspace, &format!("package-{}", std::process::id()));
    command.env("CARGO_TARGET_DIR", &folder);
    let outcome = run(workspace, &mut command);
    let _it_may_stay = std::fs::remove_dir_all(folder);
    outcome
}

/// Unoptimised, as the tests have built most of it; `cargo xtask demo` runs it as a user would.
fn demo(workspace: &Workspace) -> Outcome {
    let demo = |options: &[&str]| {
        let job = ["run", "--package", "cutwater-example-flights", "--", "demo"];
        run(workspace, cargo().args(job).args(options))
    };
    match demo(&["--seed", "1"]) {
        Outcome::Passed => demo(&["--seed", "2", "--unaligned", "--rate", "4000"]),
        outcome => outcome,
    }
}

fn msrv(workspace: &Workspace) -> Outcome {
    let version = workspace
        .manifest
        .value(&["workspace", "package", "rust-version"]);
    let Some(version) = version else {
        return Outcome::Failed("Cargo.toml: no `rust-version` in [workspace.package]".to_owned());
    };
    if !installed(Command::new("rustup").args(["run", version, "cargo", "--version"])) {
        return Outcome::NotRun(format!("toolchain {version} is not installed"));
    }
    let check = ["run", version, "cargo", "check"];
    // Ours would name the cargo that runs us.
    run(
        workspace,
        Command::new("rustup")
            .args(check)
            .args(everything(workspace))
            .env_remove("CARGO"),
    )
}

/// Without `advisories`, which depend on the day and not on the change.
fn deny(workspace: &Workspace) -> Outcome {
    if !installed(cargo().args(["deny", "--version"])) {
        return Outcome::NotRun("cargo-deny is not installed".to_owned());
    }
    run(
        workspace,
        cargo().args(["deny", "check", "bans", "licenses", "sources"]),
    )
}

/// Whether a tool answers when it is asked for its version.
fn installed(command: &mut Command) -> bool {
    succeeds(command)
}

/// Runs a command that may fail, without showing what it says.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{Command, Outcome, check, installed};

    #[test]
    fn a_check_fails_with_all_its_problems() {
        assert_eq!(check(Ok(vec![])), Outcome::Passed);
        let two = vec!["a: b".to_owned(), "c: d".to_owned()];
        assert_eq!(check(Ok(two)), Outcome::Failed("a: b\nc: d".to_owned()));
        assert_eq!(
            check(Err("gone".to_owned())),
            Outcome::Failed("gone".to_owned())
        );
    }

    #[test]
    fn a_tool_that_cannot_be_started_is_not_installed() {
        assert!(!installed(&mut Command::new("no-tool-has-this-name")));
    }
}
