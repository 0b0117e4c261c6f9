//! Runs the job through two crashes, each time with another number of workers.
#![expect(clippy::print_stdout, reason = "it is a program with a story")]

use cutwater_example_thread_engine::{Crash, Result, run};
use cutwater_sink_2pc::testkit::{MemoryTarget, Target as _};

fn main() -> Result<()> {
    let checkpoints = tempfile::tempdir()?;
    let target = MemoryTarget::new(); // Stands for a database: it outlives the runs.
    let inputs = [
        (0..50_000).map(|i| i % 10).collect(),
        (0..80_000).map(|i| i % 7).collect(),
    ];
    for (parallelism, crash) in [
        (2, Some(Crash::BeforeCommit)),
        (3, Some(Crash::BeforeComplete)),
        (1, None),
    ] {
        let is_finished = run(
            &inputs,
            &target.sink(),
            checkpoints.path(),
            parallelism,
            crash,
        )?;
        let rows = target.rows().len();
        println!("{parallelism} workers, {crash:?}: finished {is_finished}, {rows} rows so far");
    }
    Ok(())
}
