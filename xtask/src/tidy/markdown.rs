//! Rules for a Markdown file: its links lead to files of this project that exist.

use std::path::{Component, Path};

use super::Problem;

pub(super) fn problems(root: &Path, path: &Path, text: &str) -> Vec<Problem> {
    let folder = path.parent().unwrap_or(root);
    let within = folder.strip_prefix(root).unwrap_or(folder);
    links(text)
        .filter_map(|(index, link)| {
            if leaves(within, link) {
                Some(Problem::at(
                    index,
                    format!("{link} leads out of the project"),
                ))
            } else if folder.join(link).exists() {
                None
            } else {
                Some(Problem::at(index, format!("{link} does not exist")))
            }
        })
        .collect()
}

/// Targets of inline links that are files, with the index of their line. Code is left out, and so
/// is what stands behind `#`.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    let prose = text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    prose.flat_map(|(index, line)| {
        // Every second piece between backticks is code.
        let pieces = line
            .split('`')
            .step_by(2)
            .flat_map(|piece| piece.split("](").skip(1));
        pieces.filter_map(move |rest| Some((index, file(rest)?)))
    })
}

/// The file that `rest`, what follows `](`, points to.
fn file(rest: &str) -> Option<&str> {
    let target = rest.split([')', ' ']).next()?;
    let file = target.split('#').next()?;
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    (!elsewhere && !file.is_empty()).then_some(file)
}

/// Whether `link`, seen from `within`, goes above the project's root.
fn leaves(within: &Path, link: &str) -> bool {
    let mut depth = 0_i32;
    within.join(link).components().any(|component| {
        match component {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
        depth < 0
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{leaves, links, problems};

    fn targets(text: &str) -> Vec<&str> {
        links(text).map(|(_, link)| link).collect()
    }

    #[test]
    fn links_to_files_are_found_and_others_are_not() {
        let text = "[a](a.md#part), [b](../b \"title\"), ![c](c.png)\n\
            [web](https://example.com) [here](#part) [mail](mailto:a@b.c)";
        assert_eq!(targets(text), ["a.md", "../b", "c.png"]);
    }

    #[test]
    fn code_has_no_links() {
        let text = "```\n[a](a.md)\n```\n`x[0](b.md)` and [`c`](c.md)\n";
        assert_eq!(targets(text), ["c.md"]);
    }

    #[test]
    fn a_link_to_nothing_is_reported_with_its_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[here](Cargo.toml)\n[gone](src/gone.rs)\n[out](../Cargo.toml)";
        let found = problems(root, &root.join("README.md"), text);
        let found: Vec<_> = found.iter().map(|p| (p.line, p.what.as_str())).collect();
        assert_eq!(
            found,
            [
                (Some(2), "src/gone.rs does not exist"),
                (Some(3), "../Cargo.toml leads out of the project"),
            ]
        );
    }

    #[test]
    fn a_link_may_climb_as_far_as_the_root() {
        assert!(!leaves(Path::new("connectors/file"), "../../README.md"));
        assert!(leaves(Path::new("connectors/file"), "../../../README.md"));
    }
}
