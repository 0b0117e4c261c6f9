//! `cargo xtask mutants`: deliberate bugs, each of which a test must catch.
//!
//! Each bug is data: a file, a text in it, what to write instead, the command that must then fail,
//! and why. They are put one at a time into a copy of the workspace, which builds into the same
//! target folder, so that only what depends on the changed file is built again. A bug that no test
//! sees, or whose text is no longer there, fails the run.

mod aligner;
mod blocks;
mod committer;
mod coordinator;
mod increments;
mod keygroups;
mod kinds;
mod log;
mod storage;
mod watch;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use self::watch::{Ended, watch};
use crate::{
    launch::cargo,
    workspace::{Workspace, read},
};

/// A deliberate bug.
struct Mutant {
    file: &'static str,
    /// Stands in the file once.
    from: &'static str,
    to: &'static str,
    /// What must fail, as arguments of cargo.
    test: &'static [&'static str],
    /// What goes wrong with it.
    why: &'static str,
}

const LISTS: &[(&str, &[Mutant])] = &[
    ("aligner", aligner::MUTANTS),
    ("tracker, over", aligner::TRACKER),
    ("coordinator", coordinator::MUTANTS),
    ("checkpoint log", log::MUTANTS),
    ("store, upserts", storage::MUTANTS),
    ("incremental snapshots", increments::MUTANTS),
    ("kinds of state", kinds::MUTANTS),
    ("blocks of state", blocks::MUTANTS),
    ("committer", committer::MUTANTS),
    ("key groups", keygroups::MUTANTS),
];

const BARRIER: &[&str] = &["test", "--package", "cutwater-barrier", "--lib", "--tests"];
const KEYGROUPS: &[&str] = &[
    "test",
    "--package",
    "cutwater-keygroups",
    "--lib",
    "--tests",
];
const SINK: &[&str] = &["test", "--package", "cutwater-sink-2pc", "--lib", "--tests"];
const STORAGE: &[&str] = &["test", "--package", "cutwater-storage", "--lib", "--tests"];

/// A short simulation; unoptimised, as building it anew takes longer than running it.
const SIM: &[&str] = &[
    "run",
    "--package",
    "cutwater-sim",
    "--config",
    "profile.dev.package.cutwater-sim.opt-level=0",
    "--",
    "--seeds",
    "600",
];

/// For a command without a bug, building it included.
const HEALTHY_MAX: Duration = Duration::from_secs(30 * 60);
/// For one with a bug, at least.
const LEAST: Duration = Duration::from_secs(300);

/// What became of one bug.
enum Outcome {
    Caught(String),
    Missed,
    /// Its text is not there once.
    Gone,
    DoesNotBuild(String),
}

/// Runs the bugs of the lists, or in the files, that have one of `words` in their name; all without.
pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<(), String> {
    let scratch = Scratch::make(workspace)?;
    let chosen = chosen(words);
    if chosen.is_empty() {
        return Err(format!(
            "no list and no file has {} in its name",
            words.join(" or ")
        ));
    }
    let time_max = healthy(&scratch, &chosen)?;
    let mut caught = 0;
    let mut failed = Vec::new();
    println!(
        "{:<16} {:<44} {:<6} caught by, or why it matters",
        "machine", "where", ""
    );
    for (list, mutant) in &chosen {
        let outcome = scratch.try_out(mutant, time_max)?;
        let place = place(&scratch, mutant);
        let (word, rest) = match &outcome {
            Outcome::Caught(by) => ("caught", by.as_str()),
            Outcome::Missed => ("MISSED", mutant.why),
            Outcome::Gone => (
                "GONE",
                "its text does not stand there once: update the list",
            ),
            Outcome::DoesNotBuild(error) => ("BROKEN", error.as_str()),
        };
        println!("{list:<16} {place:<44} {word} {rest}");
        if matches!(outcome, Outcome::Caught(_)) {
            caught += 1;
        } else {
            failed.push(format!("{place}: {word}: {}", mutant.why));
        }
    }
    println!("\n{caught} of {} caught", chosen.len());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

fn chosen(words: &[String]) -> Vec<(&'static str, &'static Mutant)> {
    let wanted = |list: &str, mutant: &Mutant| {
        let has =
            |word: &String| list.contains(word.as_str()) || mutant.file.contains(word.as_str());
        words.is_empty() || words.iter().any(has)
    };
    let all = LISTS
        .iter()
        .flat_map(|(list, mutants)| mutants.iter().map(move |mutant| (*list, mutant)));
    all.filter(|(list, mutant)| wanted(list, mutant)).collect()
}

/// Without a bug every command must pass, or its failing says nothing. Returns how long one may take
/// with a bug: three times as long as the slowest did without, on a machine as busy as this one.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool that waits for other programs"
)]
fn healthy(scratch: &Scratch, chosen: &[(&str, &Mutant)]) -> Result<Duration, String> {
    let mut tests: Vec<&[&str]> = chosen.iter().map(|(_, mutant)| mutant.test).collect();
    tests.sort_unstable();
    tests.dedup();
    let mut slowest = LEAST / 3;
    for test in tests {
        println!("without a bug: cargo {}", test.join(" "));
        let started = Instant::now();
        match watch(scratch.cargo().args(test), HEALTHY_MAX)? {
            Ended::Well => {}
            Ended::Badly(output) => return Err(format!("{output}\nfails without a bug")),
            Ended::NotAtAll => return Err("does not end without a bug".to_owned()),
        }
        slowest = slowest.max(started.elapsed());
    }
    Ok(3 * slowest)
}

/// `file:line`, without what all have in common.
fn place(scratch: &Scratch, mutant: &Mutant) -> String {
    let text = read(&scratch.root.join(mutant.file)).unwrap_or_default();
    let line = text
        .find(mutant.from)
        .map_or(0, |at| text[..at].matches('\n').count() + 1);
    format!("{}:{line}", mutant.file.replace("/src/", "/"))
}

/// A copy of the workspace to put bugs into.
struct Scratch {
    root: PathBuf,
    target: PathBuf,
}

impl Scratch {
    fn make(workspace: &Workspace) -> Result<Self, String> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(
            || workspace.root.join("target"),
            |folder| workspace.root.join(folder),
        );
        let root = target.join("mutants");
        let failed = |error: std::io::Error| format!("{}: {error}", root.display());
        fs::create_dir_all(&root).map_err(failed)?;
        for name in [
            "Cargo.toml",
            "Cargo.lock",
            "clippy.toml",
            ".cargo",
            "README.md",
        ] {
            copy(&workspace.root.join(name), &root.join(name)).map_err(failed)?;
        }
        for package in &workspace.packages {
            let (from, to) = (
                workspace.root.join(&package.folder),
                root.join(&package.folder),
            );
            copy(&from, &to).map_err(failed)?;
        }
        Ok(Self { root, target })
    }

    fn cargo(&self) -> Command {
        let mut command = cargo();
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUST_BACKTRACE", "0")
            .env("CARGO_TERM_COLOR", "never");
        command
    }

    fn try_out(&self, mutant: &Mutant, time_max: Duration) -> Result<Outcome, String> {
        let path = self.root.join(mutant.file);
        let Ok(healthy) = read(&path) else {
            return Ok(Outcome::Gone);
        };
        if healthy.matches(mutant.from).count() != 1 {
            return Ok(Outcome::Gone);
        }
        write(&path, &healthy.replace(mutant.from, mutant.to))?;
        let outcome = self.judge(mutant, time_max);
        write(&path, &healthy)?;
        outcome
    }

    fn judge(&self, mutant: &Mutant, time_max: Duration) -> Result<Outcome, String> {
        Ok(match watch(self.cargo().args(mutant.test), time_max)? {
            Ended::Well => Outcome::Missed,
            // What does not build is caught by nobody.
            Ended::Badly(output) if output.contains("error: could not compile") => {
                let error = output.lines().find(|line| line.starts_with("error"));
                Outcome::DoesNotBuild(error.unwrap_or_default().to_owned())
            }
            Ended::Badly(output) => Outcome::Caught(catcher(&output)),
            Ended::NotAtAll => Outcome::Caught("a test that does not end".to_owned()),
        })
    }
}

/// The first test that failed, or the property that did not hold.
fn catcher(output: &str) -> String {
    let test = output.lines().find_map(|line| {
        let name = line.strip_prefix("test ")?;
        name.strip_suffix(" ... FAILED")
    });
    let property = || output.lines().find(|line| line.starts_with("seed "));
    let told = test.or_else(property).unwrap_or("a test");
    told.chars().take(110).collect()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies what differs, so that the rest need not be built again.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if name != "target" {
                copy(&from.join(&name), &to.join(&name))?;
            }
        }
    } else if from.exists() {
        let bytes = fs::read(from)?;
        if fs::read(to).ok().as_deref() != Some(&bytes) {
            fs::write(to, bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bug whose text has changed is found at once, not only by a run of an hour.
    #[test]
    fn every_bug_still_has_its_place() {
        let workspace = Workspace::open().unwrap();
        let mut gone = Vec::new();
        for (_, mutant) in chosen(&[]) {
            let text = read(&workspace.root.join(mutant.file)).unwrap();
            if text.matches(mutant.from).count() != 1 {
                gone.push(format!("{}: {}", mutant.file, mutant.from));
            }
            assert_ne!(mutant.from, mutant.to);
        }
        assert_eq!(gone, [] as [String; 0]);
    }

    #[test]
    fn every_machine_has_bugs_of_its_own() {
        assert!(LISTS.iter().all(|(_, mutants)| mutants.len() >= 6));
        assert!(chosen(&[]).len() >= 40);
    }

    #[test]
    fn who_caught_a_bug_is_told() {
        let output = "test a ... ok\ntest b ... FAILED\nfailures:";
        assert_eq!(catcher(output), "b");
        let output = "…\nseed 5: record 0/1 is 2 times\nreplay it";
        assert_eq!(catcher(output), "seed 5: record 0/1 is 2 times");
    }
}
