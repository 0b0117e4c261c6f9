//! Rules for a Rust file: it says what it is for, has one concept, and skips nothing in silence.

use super::Problem;

/// Lines of a file without its inline tests. Past this there is nearly always a second concept in
/// it (STYLE.md "A file is one concept").
const LINES_MAX: usize = 500;

pub(super) fn problems(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(Problem::of_file(
            "does not open with `//!`: say what it decides",
        ));
    }
    let lines = lines_without_tests(text);
    if lines > LINES_MAX {
        problems.push(Problem::of_file(format!(
            "{lines} lines without tests; split at a concept"
        )));
    }
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[ignore") {
            problems.push(Problem::at(
                index,
                "an ignored test: make it run, or remove it",
            ));
        }
        if (code.starts_with("#[allow(") || code.starts_with("#![allow("))
            && !attribute(text, index).contains("reason")
        {
            problems.push(Problem::at(index, "a lint switched off without a `reason`"));
        }
        if code.starts_with(concat!("unimplemented", "!")) {
            problems.push(Problem::at(index, "a stub: write it, or leave it out"));
        }
    }
    problems
}

/// Lines before an inline test module; a `#[cfg(test)]` on anything else does not end the file.
fn lines_without_tests(text: &str) -> usize {
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let inline_module = |next: &str| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|(_, next)| inline_module(next)) {
            return index;
        }
    }
    text.lines().count()
}

/// The attribute that begins at line `index`, which may go over several lines.
fn attribute(text: &str, index: usize) -> String {
    let mut attribute = String::new();
    for line in text.lines().skip(index) {
        attribute.push_str(line);
        if line.trim_end().ends_with(")]") {
            break;
        }
    }
    attribute
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, problems};

    fn check(body: &str, expected: &[(Option<usize>, &str)]) {
        let found = problems(body);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (problem, (line, start)) in found.iter().zip(expected) {
            assert_eq!(problem.line, *line, "{problem:?}");
            assert!(problem.what.starts_with(start), "{problem:?}");
        }
    }

    #[test]
    fn a_file_opens_with_what_it_is_for() {
        check("//! Decides.\n", &[]);
        check("use std::fs;\n//! Late.\n", &[(None, "does not open")]);
    }

    #[test]
    fn inline_tests_do_not_count_and_other_test_code_does() {
        let body = |lines: usize| format!("//! Long.\n{}", "code();\n".repeat(lines - 1));
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "check();\n".repeat(LINES_MAX)
        );
        let helper = "#[cfg(test)]\nfn helper() {}\n";
        check(&format!("{}{tests}", body(LINES_MAX)), &[]);
        check(
            &format!("{}{tests}", body(LINES_MAX + 1)),
            &[(None, "501 lines")],
        );
        check(
            &format!("{}{helper}{tests}", body(LINES_MAX)),
            &[(None, "502 lines")],
        );
    }

    #[test]
    fn an_ignored_test_is_found() {
        check(
            "//! T.\n#[test]\n    #[ignore = \"slow\"]\nfn t() {}\n",
            &[(Some(3), "an ignored")],
        );
    }

    #[test]
    fn a_lint_is_switched_off_with_a_reason() {
        check("//! L.\n#[allow(dead_code)]\n", &[(Some(2), "a lint")]);
        check(
            "//! L.\n#![allow(\n    dead_code\n)]\nlet reason = 1;\n",
            &[(Some(2), "a lint")],
        );
        check(
            "//! L.\n#[allow(\n    dead_code,\n    reason = \"x\"\n)]\n",
            &[],
        );
    }
}
