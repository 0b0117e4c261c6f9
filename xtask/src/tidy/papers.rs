//! What a reader and the registry expect to find beside the code: papers, and fields of manifests.

use crate::workspace::{Package, Workspace};

/// Files at the root that a stranger looks for first.
const PAPERS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deny.toml",
];

/// Fields without which a package should not go to the registry.
const FIELDS: &[&str] = &[
    "description",
    "license",
    "rust-version",
    "edition",
    "version",
];

pub(super) fn problems(workspace: &Workspace) -> Vec<String> {
    let exists = |path: &str| workspace.root.join(path).is_file();
    let mut problems: Vec<_> = PAPERS
        .iter()
        .filter(|paper| !exists(paper))
        .map(|paper| format!("{paper}: missing at the root"))
        .collect();
    for package in workspace.publishable() {
        let readme = format!("{}/README.md", package.folder);
        if !exists(&readme) {
            problems.push(format!("{readme}: missing; say what the crate promises"));
        }
        problems.extend(missing_fields(package));
    }
    problems.extend(workspace.packages.iter().filter_map(without_lints));
    problems
}

fn missing_fields(package: &Package) -> impl Iterator<Item = String> {
    let missing = FIELDS.iter().filter(|field| !package.states(field));
    missing.map(|field| format!("{}/Cargo.toml: no `{field}`", package.folder))
}

fn without_lints(package: &Package) -> Option<String> {
    let joined = package.manifest.value(&["lints", "workspace"]) == Some("true");
    (!joined).then(|| {
        format!(
            "{}/Cargo.toml: no `[lints] workspace = true`",
            package.folder
        )
    })
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::workspace::Workspace;

    const COMPLETE: &str = "[package]\nname = \"x\"\ndescription = \"An x\"\n\
        license.workspace = true\nrust-version.workspace = true\nedition = \"2024\"\n\
        version.workspace = true\n[lints]\nworkspace = true\n";

    /// What is said about the manifest of a package in folder `x`.
    fn said(manifest: &str) -> Vec<String> {
        let all = problems(&Workspace::of("", &[("x", manifest)]));
        all.into_iter()
            .filter(|problem| problem.starts_with("x/"))
            .collect()
    }

    #[test]
    fn a_published_package_has_its_fields_and_a_readme() {
        let readme = "x/README.md: missing; say what the crate promises";
        assert_eq!(said(COMPLETE), [readme]);
        let bare = COMPLETE
            .replace("license.workspace = true\n", "")
            .replace("An x", "");
        assert_eq!(
            said(&bare),
            [
                readme,
                "x/Cargo.toml: no `description`",
                "x/Cargo.toml: no `license`"
            ]
        );
    }

    #[test]
    fn a_private_package_needs_only_the_lints() {
        let private = "[package]\nname = \"x\"\npublish = false\n";
        assert_eq!(
            said(private),
            ["x/Cargo.toml: no `[lints] workspace = true`"]
        );
    }

    #[test]
    fn a_missing_paper_is_named() {
        let nowhere = Workspace::of("", &[]);
        assert!(problems(&nowhere).contains(&"ARCHITECTURE.md: missing at the root".to_owned()));
    }
}
