//! Rules for a CONFORMANCE.md: the tests it names exist.
//!
//! A test stands there as `module::name`, or by the beginning of its name, `module::the_beginning_…`. What is
//! called after a type (`Uploads::cancel`) is no test.

use std::{collections::BTreeSet, fs, path::Path};

use super::Problem;
use crate::workspace::read;

/// `items` are the functions and modules of the project.
pub(super) fn problems(text: &str, items: &BTreeSet<String>) -> Vec<Problem> {
    tests(text)
        .filter(|(_, test)| {
            let name = test.rsplit("::").next().unwrap_or(test);
            let exists = match name.strip_suffix('…') {
                Some(start) => items
                    .range(start.to_owned()..)
                    .next()
                    .is_some_and(|item| item.starts_with(start)),
                None => items.contains(name),
            };
            !exists
        })
        .map(|(index, test)| Problem::at(index, format!("there is no test `{test}`")))
        .collect()
}

/// What is named as a test, with the index of its line.
fn tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let spans = text.lines().enumerate().flat_map(|(index, line)| {
        let spans = line.split('`').skip(1).step_by(2);
        spans.map(move |span| (index, span))
    });
    spans.filter(|(_, span)| {
        span.contains("::") && !span.ends_with("::") && !span.contains(char::is_uppercase)
    })
}

/// Names of the functions and modules in all Rust files below `folder`.
pub(super) fn items(folder: &Path) -> Result<BTreeSet<String>, String> {
    let mut items = BTreeSet::new();
    collect(folder, &mut items)?;
    Ok(items)
}

fn collect(folder: &Path, items: &mut BTreeSet<String>) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                items.insert(name.into_owned());
                collect(&path, items)?;
            }
        } else if let Some(module) = name.strip_suffix(".rs") {
            items.insert(module.to_owned());
            items.extend(declared(&read(&path)?).map(str::to_owned));
        }
    }
    Ok(())
}

/// Names of the functions and modules that `source` declares.
fn declared(source: &str) -> impl Iterator<Item = &str> {
    let words = source.split_whitespace();
    let pairs = words.clone().zip(words.skip(1));
    pairs
        .filter(|(keyword, _)| matches!(*keyword, "fn" | "mod"))
        .filter_map(|(_, name)| {
            name.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
}

#[cfg(test)]
mod tests {
    use super::{declared, problems};

    #[test]
    fn tests_that_do_not_exist_are_reported_with_their_lines() {
        let source = "mod ttl { #[test] fn a_long_life_is_no_short_one() {} }";
        let items = declared(source).map(str::to_owned).collect();
        let text = "| F111 | the end of time | `ttl::a_long_life_…`, `…::a_long_life_is_no_short_one` |\n\
                    | F112 | merging | `ttl::merging_…`, `Uploads::cancel`, `ttl::a_long_life` |";
        let found = problems(text, &items);
        let found: Vec<_> = found.iter().map(|p| (p.line, p.what.as_str())).collect();
        assert_eq!(
            found,
            [
                (Some(2), "there is no test `ttl::merging_…`"),
                (Some(2), "there is no test `ttl::a_long_life`"),
            ]
        );
    }
}
