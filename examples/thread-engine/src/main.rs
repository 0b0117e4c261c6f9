//! Runs the job through two crashes, each time with another number of workers.
#![expect(clippy::print_stdout, reason = "it is a program with a story")]

use cutwater_example_thread_engine::{Result, run};
use cutwater_sink_2pc::testkit::{MemoryTarget, Target as _};
use cutwater_storage::{
    LocalBlobs,
    testkit::{Call, Failure, FaultyBlobs, On},
};

fn main() -> Result<()> {
    let checkpoints = tempfile::tempdir()?;
    let target = MemoryTarget::new(); // Stands for a database: it outlives the runs.
    let inputs =
        [(50_000, 10), (80_000, 7)].map(|(length, n)| (0..length).map(|i| i % n).collect());
    for (parallelism, crash) in [(2, "completed"), (3, "prepared"), (1, "nowhere")] {
        let store = FaultyBlobs::new(LocalBlobs::open(checkpoints.path())?);
        let (metadata, log) = (
            On::call(Call::Create).path("_metadata"),
            On::call(Call::Create).path("log/"),
        );
        match crash {
            "prepared" => store.faults().fail(metadata.after(2), Failure::Before),
            // The log has taken the decision, and nobody learns of it.
            "completed" => store.faults().fail(log.after(3).times(2), Failure::After),
            _ => {}
        }
        let ended = run(&inputs, &target.sink(), store, parallelism);
        let ended = ended.map_or_else(|error| error.to_string(), |()| "to the end".to_owned());
        let rows = target.rows().len();
        println!("{parallelism} workers, crash at {crash}: {rows} rows so far; {ended}");
    }
    Ok(())
}
