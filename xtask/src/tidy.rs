//! What neither the compiler nor clippy says about the text of this repository.
//!
//! Each file below holds one kind of text and is a function from that text to its problems, so that
//! its tests need no files. Here they are read: all of the project but what git and cargo keep.

mod conformance;
mod everywhere;
mod markdown;
mod papers;
mod source;

use std::{fs, path::Path};

use crate::workspace::{Workspace, read};

/// Something to mend, at a line where it has one. Lines count from 1.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    line: Option<usize>,
    what: String,
}

impl Problem {
    /// `index` counts from 0.
    fn at(index: usize, what: impl Into<String>) -> Self {
        Self {
            line: Some(index + 1),
            what: what.into(),
        }
    }

    fn of_file(what: impl Into<String>) -> Self {
        Self {
            line: None,
            what: what.into(),
        }
    }
}

/// Folders whose name starts with a dot and that are ours all the same.
const OUR_DOT_FOLDERS: &[&str] = &[".cargo", ".ci", ".config"];

/// Every problem of every file, as `path:line: what`, sorted by path.
pub(crate) fn problems(workspace: &Workspace) -> Result<Vec<String>, String> {
    let mut problems = papers::problems(workspace);
    visit(&workspace.root, &workspace.root, &mut problems)?;
    Ok(problems)
}

fn visit(root: &Path, folder: &Path, problems: &mut Vec<String>) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut paths = fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let foreign = name.starts_with('.') && !OUR_DOT_FOLDERS.contains(&&*name);
            if name != "target" && !foreign {
                visit(root, &path, problems)?;
            }
            continue;
        }
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        for Problem { line, what } in of_file(root, &path)? {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            problems.push(format!("{shown}{line}: {what}"));
        }
    }
    Ok(())
}

fn of_file(root: &Path, path: &Path) -> Result<Vec<Problem>, String> {
    let mut problems = Vec::new();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    // `.ci/run` has no extension; data and golden files are nobody's prose.
    let written_by_hand = matches!(&*extension, "rs" | "md" | "toml" | "sh")
        || path
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|folder| folder == ".ci");
    if !written_by_hand {
        return Ok(problems);
    }
    let text = read(path)?;
    problems.extend(everywhere::problems(&text));
    match &*extension {
        "rs" => problems.extend(source::problems(&text)),
        "md" => problems.extend(markdown::problems(root, path, &text)),
        _ => {}
    }
    if path.ends_with("CONFORMANCE.md") {
        problems.extend(conformance::problems(&text, &conformance::items(root)?));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use crate::workspace::Workspace;

    #[test]
    fn the_repository_is_tidy() {
        let problems = super::problems(&Workspace::open().unwrap()).unwrap();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}
