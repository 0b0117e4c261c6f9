//! Runs the job through two crashes, each time with another number of threads.
#![expect(clippy::print_stdout, reason = "it is a program with a story")]

use cutwater_example_thread_engine::{Crash, Job, Outcome, Result, lines::Lines, run};

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let sink = Lines::new(directory.path().join("output"));
    let input = [
        words(&["alice", "bob", "carol"]),
        words(&["bob", "dave", "erin", "frank", "grace"]),
    ];
    for (parallelism, crash) in [
        (2, Some(Crash::BeforeCommit)),
        (3, Some(Crash::BeforeComplete)),
        (1, None),
    ] {
        let job = Job {
            input: &input,
            sink: &sink,
            checkpoints: directory.path().join("checkpoints"),
            parallelism,
            every: 300,
            crash,
        };
        match run(&job)? {
            Outcome::Crashed => println!("{parallelism} threads, stopped: {crash:?}"),
            Outcome::Finished(counts) => println!("{parallelism} threads, finished: {counts:?}"),
        }
        println!("  lines committed by now: {}", sink.read()?.len());
    }
    Ok(())
}

fn words(names: &[&str]) -> Vec<String> {
    let endless = names.iter().cycle();
    endless.take(1_000).map(|name| (*name).to_owned()).collect()
}
