//! Rules for everything written by hand: nothing unfinished, and nothing of the writer's machine.

use std::net::Ipv4Addr;

use super::Problem;

/// Words that mark what should have been done or left out. In pieces, so that this file passes.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// Top folders that hold a person's or a build machine's files.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "work", "workspace", "Users"];

/// Endings of names that only a private network resolves.
const PRIVATE_HOSTS: &[&str] = &["internal", "corp", "lan"];

pub(super) fn problems(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(word) = words(line).find(|word| UNFINISHED.contains(word)) {
            problems.push(Problem::at(
                index,
                format!("{word}: finish it, or leave it out"),
            ));
        }
        if let Some(path) = machine_path(line) {
            problems.push(Problem::at(
                index,
                format!("{path} exists on one machine only"),
            ));
        }
        if let Some(host) = names(line).find(|name| is_private(name)) {
            problems.push(Problem::at(
                index,
                format!("{host} exists in one network only"),
            ));
        }
    }
    problems
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !character.is_alphanumeric() && character != '_')
}

/// The beginning of an absolute path into a machine's folder.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        // `a/home/b` and `*/home/b` are relative to something.
        let before = line[..at].chars().next_back();
        let relative =
            before.is_some_and(|before| before.is_alphanumeric() || ".*})>-_/".contains(before));
        let (folder, _rest) = line[at + 1..].split_once('/')?;
        (!relative && MACHINE_FOLDERS.contains(&folder)).then(|| &line[at..=at + 1 + folder.len()])
    })
}

/// Runs of what may stand in a host's name or an address.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| {
        !character.is_ascii_alphanumeric() && character != '.' && character != '-'
    })
}

fn is_private(name: &str) -> bool {
    let host = name.trim_end_matches('.');
    // Two dots, because `error.internal` is a field.
    let by_name = host.matches('.').count() >= 2
        && PRIVATE_HOSTS
            .iter()
            .any(|ending| host.rsplit('.').next() == Some(ending));
    by_name
        || host
            .parse()
            .is_ok_and(|address: Ipv4Addr| address.is_private())
}

#[cfg(test)]
mod tests {
    use super::problems;

    fn lines(text: &str) -> Vec<Option<usize>> {
        problems(text)
            .into_iter()
            .map(|problem| problem.line)
            .collect()
    }

    #[test]
    fn a_marker_of_unfinished_work_is_found_with_its_line() {
        let text = format!("fine\n// {}: later\n", concat!("TO", "DO"));
        assert_eq!(lines(&text), [Some(2)]);
        assert_eq!(lines(concat!("the FIX", "MEs of others")), []);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for folder in ["home", "Users", "work"] {
            assert_eq!(
                lines(&format!("see `/{folder}/me/x`")),
                [Some(1)],
                "{folder}"
            );
            assert_eq!(
                lines(&format!("see src/{folder}/x and /{folder}ing/x")),
                [],
                "{folder}"
            );
        }
        assert_eq!(
            lines("cutwater list /tmp/checkpoints; https://docs.rs/home/"),
            []
        );
    }

    #[test]
    fn a_host_of_one_network_is_found() {
        assert_eq!(
            lines(&format!(
                "at http://{}:80/",
                [10, 0, 0, 7].map(|n| n.to_string()).join(".")
            )),
            [Some(1)]
        );
        assert_eq!(lines(&format!("registry.acme.{}", "corp")), [Some(1)]);
        assert_eq!(
            lines("127.0.0.1:9092, 1.91.0, error.internal, example.com"),
            []
        );
    }
}
