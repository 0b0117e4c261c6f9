//! Whole jobs from a seed: random graphs, random faults, and a ledger that believes nobody.
//!
//! Everything that decides is the code that ships: `barrier::Aligner` and `Tracker` in each task,
//! `barrier::Coordinator` and `sink_2pc::Machine` beside them, `storage::CheckpointStore` on a store
//! that fails, key groups that move. What drives them is here, and is an engine in miniature: whoever
//! builds one can read it as an example.
//!
//! | concept | where | drives |
//! |---|---|---|
//! | the job, its tasks and channels | `job`, `layout`, `lane`, `record` | key groups |
//! | a task | `task` | aligner, tracker |
//! | an attempt in one process | `attempt`, `process` | coordinator |
//! | the log, the files | `keeper`, `stored`, `restore` | checkpoint store |
//! | a sink and what it writes to | `committing`, `external` | committer machine |
//! | what goes wrong, and what is right | `faults`, `ledger` | |
//!
//! One run is one `World`: it takes one random step after the other, on a virtual clock.
//! At some step the faults stop, and the job has to come to its end. The properties:
//!
//! - **ledger**: each record exactly once in every completed checkpoint and in the output (with
//!   at-least-once at least once); nothing is visible that no completed checkpoint names;
//! - **liveness**: a job ends within a bounded number of steps after the last fault;
//! - **order**: checkpoint ids increase, and so do generations in the log; every request is answered;
//!   records of one key keep their order where one way leads to them;
//! - **channel state**: none on edges that cannot be re-routed, none in savepoints (but from loops);
//! - **fencing**: whoever stops as fenced has a successor;
//! - **deletion**: a successor can delete all that no retained checkpoint needs, and loses nothing;
//! - **drivers**: in every fourth run `barrier::testkit::Watch` stands beside each task and agrees;
//! - **bounds**: no channel holds more than its bound and a batch for each barrier that overtook; no
//!   machine remembers more than a few checkpoints.

mod attempt;
mod committing;
mod coverage;
mod env;
mod external;
mod faults;
mod job;
mod keeper;
mod lane;
mod layout;
mod ledger;
mod process;
mod random;
mod record;
mod restore;
mod run;
mod stepped;
mod stored;
mod task;
mod trace;
mod world;

pub use coverage::Coverage;
pub use run::{Failure, Outcome, Seeds, run, simulate, transcript};
