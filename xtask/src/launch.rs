//! Programs that `xtask` starts: cargo with the arguments that nobody wants to type.

use std::{env, ffi::OsStr, path::Path, process::Command};

use crate::{libclang, workspace::Workspace};

/// The cargo that runs us, so that its toolchain is also that of what we start.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs to the end, with our own input and output. The error says what to type to see it again.
pub(crate) fn wait(command: &mut Command) -> Result<(), String> {
    let reason = match command.status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => format!("cannot be started: {error}"),
    };
    let program = Path::new(command.get_program()).file_name();
    let words = program.into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    Err(format!("`{}`: {reason}", words.join(" ")))
}

/// The main job, or with `--loop` the one that has a loop. It stays in the caller's folder, so that
/// `--data` means what the caller sees.
pub(crate) fn demo(arguments: &[String]) -> Result<(), String> {
    let (package, rest) = example(arguments);
    let job = ["run", "--release", "--package", package, "--", "demo"];
    wait(cargo().args(job).args(rest))
}

/// Which example is meant, and what is left to tell it.
fn example(arguments: &[String]) -> (&'static str, Vec<&String>) {
    let is_loop = |argument: &&String| *argument == "--loop";
    let rest = arguments.iter().filter(|argument| !is_loop(argument));
    match arguments.iter().any(|argument| is_loop(&argument)) {
        true => ("cutwater-example-hailstones", rest.collect()),
        false => ("cutwater-example-flights", rest.collect()),
    }
}

/// The simulation of whole jobs, optimised: it is there to run a million of them.
pub(crate) fn sim(arguments: &[String]) -> Result<(), String> {
    let sim = ["run", "--release", "--package", "cutwater-sim", "--"];
    wait(cargo().args(sim).args(arguments))
}

/// Every state of small jobs, with more going on at once than in `test`: those of the jobs that have the
/// first argument in their name; without one, of all. Tells how many there were.
pub(crate) fn explore(arguments: &[String]) -> Result<(), String> {
    let test = ["test", "--release", "--package", "cutwater-barrier"];
    let explore = ["--test", "explore", "--", "--nocapture"];
    let mut command = cargo();
    wait(
        command
            .args(test)
            .args(explore)
            .args(arguments)
            .env("EXPLORE", "long"),
    )
}

/// The benchmarks whose package, folder or own name is the first argument; without one, all. What
/// follows it goes to the benchmark.
pub(crate) fn bench(workspace: &Workspace, arguments: &[String]) -> Result<(), String> {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (Some(name.as_str()), rest),
        None => (None, arguments),
    };
    let chosen = benches(workspace, name);
    if chosen.is_empty() {
        let all = benches(workspace, None);
        let all: Vec<_> = all
            .iter()
            .map(|(package, bench)| format!("{package} {bench}"))
            .collect();
        return Err(format!("no such benchmark; there are:\n{}", all.join("\n")));
    }
    for (package, bench) in chosen {
        // It is called after the feature that it needs, and that nothing else should.
        let is_rocksdb = bench == "rocksdb";
        if is_rocksdb && let Err(reason) = libclang::ready() {
            eprintln!("{package} {bench}: not run, because {reason}");
            continue;
        }
        wait(
            cargo()
                .args(["bench", "--package", package, "--bench", bench])
                .args(is_rocksdb.then_some("--features=rocksdb"))
                .arg("--")
                .args(rest),
        )?;
    }
    Ok(())
}

/// What a benchmark of one package measures of another, below it: the keyed sum goes through the runtime.
const MEASURES: (&str, &str) = ("keyed_sum", "state");

/// `(package, benchmark)` as the manifests declare them.
fn benches<'a>(workspace: &'a Workspace, chosen: Option<&str>) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    for package in &workspace.packages {
        for bench in package.manifest.values(&["bench", "name"]) {
            let measures = Some(MEASURES.1).filter(|_| bench == MEASURES.0);
            let mut names = [package.name(), &package.folder, bench]
                .into_iter()
                .chain(measures);
            if chosen.is_none_or(|chosen| names.any(|name| name == chosen)) {
                found.push((package.name(), bench));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Command, Workspace, benches, example, wait};

    #[test]
    fn a_program_that_fails_is_named_as_it_was_typed() {
        let gone = wait(Command::new("/no-such-folder/no-such-tool").arg("--now")).unwrap_err();
        assert!(
            gone.starts_with("`no-such-tool --now`: cannot be started: "),
            "{gone}"
        );
    }

    #[test]
    fn a_loop_is_another_example_with_the_same_options() {
        let arguments = ["--seed", "7", "--loop", "--unaligned"].map(str::to_owned);
        let (package, rest) = example(&arguments);
        assert_eq!(package, "cutwater-example-hailstones");
        assert_eq!(rest, ["--seed", "7", "--unaligned"]);
        let (package, rest) = example(&arguments[..2]);
        assert_eq!(package, "cutwater-example-flights");
        assert_eq!(rest, ["--seed", "7"]);
    }

    #[test]
    fn a_benchmark_is_chosen_by_package_folder_or_name() {
        let manifest = |name: &str, bench: &str| {
            format!(
                "[package]\nname = \"cutwater-{name}\"\n[[bench]]\nname = \"{bench}\"\nharness = false"
            )
        };
        let (state, barrier) = (manifest("state", "table"), manifest("barrier", "align"));
        let workspace = Workspace::of("", &[("state", &state), ("barrier", &barrier)]);
        let table = ("cutwater-state", "table");
        for chosen in ["state", "cutwater-state", "table"] {
            assert_eq!(benches(&workspace, Some(chosen)), [table]);
        }
        assert_eq!(
            benches(&workspace, None),
            [table, ("cutwater-barrier", "align")]
        );
        assert!(benches(&workspace, Some("nothing")).is_empty());
        let runtime = manifest("runtime", "keyed_sum");
        let workspace = Workspace::of("", &[("state", &state), ("runtime", &runtime)]);
        let both = [table, ("cutwater-runtime", "keyed_sum")];
        assert_eq!(benches(&workspace, Some("state")), both);
    }
}
