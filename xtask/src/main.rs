//! `cargo xtask`: everything about this repository that plain cargo cannot say.
//!
//! Uses only `std`, so that it builds in a second, and launches the rest. Each task is one file. The
//! checks of `tidy` and `arrows` are also tests, so `cargo test` alone finds what CI would.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool"
)]

mod arrows;
mod disk;
mod launch;
mod libclang;
mod manifest;
mod mutants;
mod stages;
mod tidy;
mod verify;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <task>

  demo [--loop] [ARGS]    run the main job, or one with a loop: killed, restarted, compared
                          (--unaligned: barriers overtake; --help lists all options)
  test [STAGE…]           everything that must pass, or some stages of it
  bench [NAME [ARGS]]     the benchmarks, of one crate or of one name
  sim [--seeds N]         whole jobs from seeds, on all cores; --seed S replays one
  explore [JOB]           every state that small jobs can reach, with lost messages and crashes
  mutants [WORD]          deliberate bugs, each of which some test must catch
  tidy, arrows            these two stages of `test`, which need no build";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (task, rest) = arguments.split_first().ok_or_else(usage)?;
    let workspace = Workspace::open()?;
    match (task.as_str(), rest) {
        ("demo", rest) => launch::demo(rest),
        ("test", rest) => verify::run(&workspace, rest),
        ("bench", rest) => launch::bench(&workspace, rest),
        ("sim", rest) => launch::sim(rest),
        ("explore", rest) => launch::explore(rest),
        ("mutants", rest) => mutants::run(&workspace, rest),
        ("tidy" | "arrows", []) => verify::run(&workspace, arguments),
        ("help" | "--help" | "-h", _) => {
            println!("{}", usage());
            Ok(())
        }
        _ => Err(usage()),
    }
}

fn usage() -> String {
    format!("{USAGE}\n\n{}", stages::list())
}
