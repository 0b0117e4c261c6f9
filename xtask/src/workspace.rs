//! The workspace as its manifests describe it: folders, packages, and what each may call a dependency.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::manifest::{Dependency, Manifest};

/// What every check is given. Tests make one of text.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug)]
pub(crate) struct Package {
    /// Relative to the root, with `/`: `connectors/file`.
    pub(crate) folder: String,
    pub(crate) manifest: Manifest,
}

impl Workspace {
    /// The workspace that `xtask` was built in.
    pub(crate) fn open() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is a folder of the workspace")
            .to_owned();
        let manifest = Manifest::parse(&read(&root.join("Cargo.toml"))?);
        let folders = manifest.strings(&["workspace", "members"]);
        let packages = folders
            .into_iter()
            .map(|folder| {
                let text = read(&root.join(folder).join("Cargo.toml"))?;
                Ok(Package {
                    folder: folder.to_owned(),
                    manifest: Manifest::parse(&text),
                })
            })
            .collect::<Result<_, String>>()?;
        Ok(Self {
            root,
            manifest,
            packages,
        })
    }

    /// The packages that go to the registry.
    pub(crate) fn publishable(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| package.is_published())
    }

    /// All features: whose, and what they are called.
    pub(crate) fn features(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packages.iter().flat_map(|package| {
            let features = package.manifest.keys("features");
            features.map(|feature| (package.name(), feature))
        })
    }

    /// The real name of a dependency, though it be renamed here or in `[workspace.dependencies]`.
    pub(crate) fn package_name<'a>(&'a self, dependency: &'a Dependency) -> &'a str {
        let renamed_for_all = || {
            let path = ["workspace", "dependencies", &dependency.name, "package"];
            self.manifest.value(&path)
        };
        let renamed = dependency.renamed_from.as_deref().or_else(renamed_for_all);
        renamed.unwrap_or(&dependency.name)
    }

    /// The folder of the package called `name`, if it is one of ours.
    pub(crate) fn folder_of(&self, name: &str) -> Option<&str> {
        let package = self
            .packages
            .iter()
            .find(|package| package.name() == name)?;
        Some(&package.folder)
    }
}

impl Package {
    pub(crate) fn name(&self) -> &str {
        self.manifest
            .value(&["package", "name"])
            .unwrap_or(&self.folder)
    }

    fn is_published(&self) -> bool {
        self.manifest.value(&["package", "publish"]) != Some("false")
    }

    /// Whether the package says `key`, itself or through `key.workspace = true`.
    pub(crate) fn states(&self, key: &str) -> bool {
        let own = self
            .manifest
            .value(&["package", key])
            .is_some_and(|value| !value.is_empty());
        own || self.manifest.value(&["package", key, "workspace"]) == Some("true")
    }
}

/// The text of a file; the error names it.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
impl Workspace {
    /// A workspace that exists only as text: `[(folder, its manifest)]`.
    pub(crate) fn of(root_manifest: &str, packages: &[(&str, &str)]) -> Self {
        let package = |&(folder, text): &(&str, &str)| Package {
            folder: folder.to_owned(),
            manifest: Manifest::parse(text),
        };
        Self {
            root: PathBuf::new(),
            manifest: Manifest::parse(root_manifest),
            packages: packages.iter().map(package).collect(),
        }
    }
}
