//! Who may use whom. A new arrow is a design change: it is a line here and a sentence in
//! ARCHITECTURE.md, on purpose.
//!
//! Invariant: the table below has a row for every member of the workspace, and its arrows go from
//! lower rows to higher ones only, so there is no circle to argue about.

use crate::{
    manifest::{Dependency, Kind},
    workspace::{Package, Workspace, read},
};

/// What a package may use besides its own row of arrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    /// Only `core` and `alloc`: the compiler keeps clocks, threads and files out.
    NoStd,
    /// Only `std`: it builds from nothing in seconds.
    Nothing,
    /// Other people's crates, but no async runtime: any engine can drive it.
    Crates,
    /// tokio too.
    Tokio,
}

use Outside::{Crates, NoStd, Nothing, Tokio};

/// Folder, what it may use of ours, what it may use of others.
const ALLOWED: &[(&str, &[&str], Outside)] = &[
    ("barrier", &[], NoStd),
    ("keygroups", &[], NoStd),
    ("state", &["barrier", "keygroups"], Crates),
    (
        "state/soundness",
        &["barrier", "keygroups", "state"],
        Crates,
    ),
    ("storage", &["barrier", "keygroups"], Crates),
    ("sink-2pc", &["barrier"], Nothing),
    ("connectors/source", &["barrier"], Tokio),
    (
        "connectors/file",
        &["barrier", "connectors/source", "sink-2pc"],
        Tokio,
    ),
    (
        "runtime",
        &[
            "barrier",
            "keygroups",
            "state",
            "storage",
            "sink-2pc",
            "connectors/source",
        ],
        Tokio,
    ),
    ("cli", &["barrier", "keygroups", "storage"], Crates),
    // Proves that the crates need no runtime, so it may not have one.
    (
        "examples/thread-engine",
        &["barrier", "keygroups", "state", "storage", "sink-2pc"],
        Crates,
    ),
    // Drives what ships as an engine would, on a virtual clock.
    (
        "sim",
        &["barrier", "keygroups", "state", "storage", "sink-2pc"],
        Crates,
    ),
    ("examples/demo", JOB, Tokio),
    ("examples/flights", SHOWN_JOB, Tokio),
    ("examples/hailstones", SHOWN_JOB, Tokio),
    ("examples/totals", JOB, Tokio),
    ("xtask", &[], Nothing),
];

/// What a job's program may use: everything it is assembled from.
const JOB: &[&str] = &[
    "barrier",
    "keygroups",
    "state",
    "storage",
    "sink-2pc",
    "connectors/source",
    "connectors/file",
    "runtime",
];

/// What a job's program may use that is killed and restarted for show.
const SHOWN_JOB: &[&str] = &[
    "keygroups",
    "state",
    "connectors/file",
    "runtime",
    "examples/demo",
];

/// Every arrow that is drawn in a manifest and not in the table.
pub(crate) fn problems(workspace: &Workspace) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let row = ALLOWED
            .iter()
            .find(|(folder, ..)| *folder == package.folder);
        let Some(&(folder, ours, outside)) = row else {
            problems.push(format!(
                "{}: has no row in xtask/src/arrows.rs",
                package.folder
            ));
            continue;
        };
        problems.extend(wrong_arrows(workspace, package, ours, outside));
        if outside == NoStd {
            let lib = format!("{folder}/src/lib.rs");
            problems.extend(with_std(&lib, &read(&workspace.root.join(&lib))?));
        }
    }
    Ok(problems)
}

fn wrong_arrows(
    workspace: &Workspace,
    package: &Package,
    ours: &[&str],
    outside: Outside,
) -> Vec<String> {
    let complaint = |dependency: &Dependency| {
        let name = workspace.package_name(dependency);
        let reason = match workspace.folder_of(name) {
            // A package may enable its own features for its tests.
            Some(folder) if folder == package.folder && dependency.kind == Kind::Dev => {
                return None;
            }
            Some(folder) if ours.contains(&folder) => return None,
            Some(_) => "no such arrow in xtask/src/arrows.rs",
            None => refusal(&package.folder, name, dependency.kind, outside)?,
        };
        Some(format!(
            "{}: must not depend on {name}: {reason}",
            package.folder
        ))
    };
    package
        .manifest
        .dependencies()
        .iter()
        .filter_map(complaint)
        .collect()
}

/// Why `folder` may not use the outside crate `name`. Tests may use what they like, except those
/// of `xtask`, which builds before anything else.
fn refusal(folder: &str, name: &str, kind: Kind, outside: Outside) -> Option<&'static str> {
    if kind == Kind::Dev && folder != "xtask" {
        return None;
    }
    match outside {
        NoStd | Nothing => Some("it uses no outside crate, so that it builds in seconds"),
        Crates if name == "tokio" || name.starts_with("tokio-") => {
            Some("only runtime, connectors and jobs know tokio")
        }
        Crates | Tokio => None,
    }
}

fn with_std(lib: &str, text: &str) -> Option<String> {
    let declared = text.lines().any(|line| line.trim() == "#![no_std]");
    (!declared)
        .then(|| format!("{lib}: no `#![no_std]`, which keeps clocks, threads and files out"))
}

#[cfg(test)]
mod tests {
    use super::{ALLOWED, Workspace, problems, with_std};

    #[test]
    fn the_workspace_draws_only_allowed_arrows() {
        let workspace = Workspace::open().unwrap();
        assert_eq!(problems(&workspace).unwrap(), [] as [String; 0]);
    }

    #[test]
    fn rows_point_upwards_and_belong_to_a_member() {
        let workspace = Workspace::open().unwrap();
        for (row, (folder, ours, _)) in ALLOWED.iter().enumerate() {
            assert!(
                workspace
                    .packages
                    .iter()
                    .any(|package| package.folder == *folder),
                "{folder}"
            );
            for used in *ours {
                let above = ALLOWED[..row].iter().any(|(folder, ..)| folder == used);
                assert!(above, "{folder} -> {used}");
            }
        }
    }

    /// What is said about `folder` when its manifest has this under the package.
    fn said(folder: &str, rest: &str) -> Vec<String> {
        let own = format!("[package]\nname = \"cutwater-own\"\n{rest}");
        let packages = [
            (folder, own.as_str()),
            ("runtime", "[package]\nname = \"cutwater-runtime\""),
            ("connectors/source", "[package]\nname = \"cutwater-source\""),
        ];
        let root = "[workspace.dependencies]\ndisguised = { path = \"runtime\", package = \"cutwater-runtime\" }";
        problems(&Workspace::of(root, &packages)).unwrap()
    }

    #[test]
    fn an_arrow_against_the_current_is_found_in_every_table() {
        for rest in [
            "[dependencies]\ncutwater-runtime.workspace = true",
            "[dev-dependencies]\ncutwater-runtime = { path = \"../runtime\" }",
            "[build-dependencies]\ncutwater-runtime = \"0.1\"",
            "[target.'cfg(unix)'.dependencies.cutwater-runtime]\nversion = \"0.1\"",
            "[dependencies]\nharmless = { version = \"0.1\", package = \"cutwater-runtime\" }",
            "[dependencies]\ndisguised.workspace = true",
        ] {
            for folder in ["state", "cli", "connectors/file", "examples/thread-engine"] {
                let expected = format!(
                    "{folder}: must not depend on cutwater-runtime: no such arrow in xtask/src/arrows.rs"
                );
                assert_eq!(said(folder, rest), [expected], "{rest}");
            }
        }
    }

    #[test]
    fn an_allowed_arrow_and_a_dependency_on_oneself_for_tests_pass() {
        let rest = "[dependencies]\ncutwater-source.workspace = true\ntokio = \"1\"\n\
            [dev-dependencies]\ncutwater-own = { path = \".\" }";
        assert!(said("connectors/file", rest).is_empty());
        assert!(
            said(
                "examples/totals",
                "[dependencies]\ncutwater-runtime = \"0.1\""
            )
            .is_empty()
        );
    }

    #[test]
    fn tokio_is_for_those_that_run_things() {
        let rest = "[dependencies]\ntokio = { workspace = true, optional = true }";
        for folder in ["state", "storage", "cli", "examples/thread-engine"] {
            assert_eq!(said(folder, rest).len(), 1, "{folder}");
        }
        assert!(said("examples/flights", rest).is_empty());
        assert!(said("storage", "[dev-dependencies]\ntokio = \"1\"").is_empty());
    }

    #[test]
    fn the_small_crates_use_no_outside_crate() {
        assert_eq!(said("sink-2pc", "[dependencies]\nserde = \"1\"").len(), 1);
        assert!(said("sink-2pc", "[dev-dependencies]\nproptest = \"1\"").is_empty());
        assert_eq!(
            said("xtask", "[dev-dependencies]\nproptest = \"1\"").len(),
            1
        );
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(
            said("windows", ""),
            ["windows: has no row in xtask/src/arrows.rs"]
        );
    }

    #[test]
    fn a_conditional_no_std_is_none() {
        assert_eq!(with_std("lib.rs", "//! Doc.\n#![no_std]\n"), None);
        assert!(with_std("lib.rs", "#![cfg_attr(feature = \"x\", no_std)]").is_some());
    }
}
