//! Runs the job through two crashes, each time with another number of workers.
#![expect(clippy::print_stdout, reason = "it is a program with a story")]

use cutwater_example_thread_engine::{Result, run};
use cutwater_sink_2pc::testkit::{MemoryTarget, Target as _};

fn main() -> Result<()> {
    let checkpoints = tempfile::tempdir()?;
    let target = MemoryTarget::new(); // Stands for a database: it outlives the runs.
    let inputs =
        [(50_000, 10), (80_000, 7)].map(|(length, n)| (0..length).map(|i| i % n).collect());
    for (parallelism, crash) in [(2, "completed"), (3, "prepared"), (1, "nowhere")] {
        let ended = run(
            &inputs,
            &target.sink(),
            checkpoints.path(),
            parallelism,
            |moment| {
                if moment == crash {
                    Err(format!("killed at {moment}").into())
                } else {
                    Ok(())
                }
            },
        );
        let rows = target.rows().len();
        println!("{parallelism} workers, crash at {crash}: {ended:?}, {rows} rows so far");
    }
    Ok(())
}
