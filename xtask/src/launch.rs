//! Programs that `xtask` starts: cargo with the arguments that nobody wants to type.

use std::{env, process::Command};

use crate::workspace::Workspace;

/// The cargo that runs us, so that its toolchain is also that of what we start.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs to the end, with our own input and output.
pub(crate) fn wait(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: cannot be started: {error}")),
    }
}

/// The main job. It stays in the caller's folder, so that `--data` means what the caller sees.
pub(crate) fn demo(arguments: &[String]) -> Result<(), String> {
    let job = [
        "run",
        "--release",
        "--package",
        "cutwater-example-flights",
        "--",
        "demo",
    ];
    wait(cargo().args(job).args(arguments))
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
        wait(
            cargo()
                .args(["bench", "--package", package, "--bench", bench, "--"])
                .args(rest),
        )?;
    }
    Ok(())
}

/// `(package, benchmark)` as the manifests declare them.
fn benches<'a>(workspace: &'a Workspace, chosen: Option<&str>) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    for package in &workspace.packages {
        for bench in package.manifest.values(&["bench", "name"]) {
            let names = [package.name(), &package.folder, bench];
            if chosen.is_none_or(|chosen| names.contains(&chosen)) {
                found.push((package.name(), bench));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Workspace, benches};

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
    }
}
